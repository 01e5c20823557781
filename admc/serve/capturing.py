"""The interception that a transition needs, and whether it is there: files, since no server sees a pod's rules.

    FOLDER/interception/SERVICE/iptables.rules, ip6tables.rules   what to load, at every replica
    FOLDER/interception/SERVICE/digest                            names these rules
    FOLDER/interception/SERVICE/loaded                            holds that digest once they are loaded everywhere

Whoever loads the rules writes `loaded`. Until then the old side does not let go, however long it takes. Rules of a
transition are those of the old plan and of the new one together. Each transition asks anew: what was loaded for an
earlier one may have gone with the pods.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import read_bounded, write_whole
from emitters.interception import Family, interceptions, restore_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from admc.transition.model import Step
    from emitters.addresses import Addresses

MAX_LOADED: Final = 1000
FAMILIES: Final = {"iptables.rules": Family.IPV4, "ip6tables.rules": Family.IPV6}


class Rules(NamedTuple):
    """What is to be loaded at the replicas of one service."""

    files: Mapping[str, str]
    digest: str


def wanted(step: Step, addresses: Addresses) -> dict[str, Rules]:
    """For each service of which a step needs more to be redirected: all that is to be."""
    found = {}
    for service in step.intercept:
        placed = step.parts[service].placed
        (own,) = (one for one in interceptions(*placed, addresses) if one.service == service)
        files = {name: restore_file(own, family) for name, family in FAMILIES.items()}
        found[service] = Rules(files, hashlib.sha256("".join(files.values()).encode()).hexdigest())
    return found


def ask(folder: Path, rules: Mapping[str, Rules]) -> None:
    """Write what is to be loaded. Raises `CommandError` where the folder takes nothing."""
    for service, own in rules.items():
        place = folder / "interception" / service
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot make the folder `{place}`", cause=error.strerror) from error
        for name, content in {**own.files, "digest": own.digest + "\n"}.items():
            write_whole(place / name, content.encode())


def forget(folder: Path, services: Iterable[str]) -> None:
    """Whatever was said of rules so far, it is not about those that will be asked for. Raises `CommandError`."""
    for service in services:
        path = folder / "interception" / service / "loaded"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise wrong_usage("ADM803", f"cannot remove `{path}`", cause=error.strerror) from error


def loaded(folder: Path, rules: Mapping[str, Rules]) -> frozenset[str]:
    """The services at which it has been loaded."""
    return frozenset(service for service, own in rules.items() if _said(folder, service) == own.digest)


def _said(folder: Path, service: str) -> str:
    path = folder / "interception" / service / "loaded"
    try:
        return read_bounded(path, MAX_LOADED, "a confirmation").decode("ascii", "replace").strip()
    except CommandError:
        return ""  # nobody has said anything yet
