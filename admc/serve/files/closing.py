"""Requests the NetworkPolicies that close destinations, and reads which of them are confirmed. The server cannot see
the objects of a cluster, so both are in files.

    FOLDER/network-policies/SERVICE/network-policy.yaml   what to apply; that of all plans that proxies may have
    FOLDER/network-policies/SERVICE/digest                names it
    FOLDER/network-policies/SERVICE/applied               the same digest, once the network plugin enforces it

The operator writes `applied`. If a program says `network_policies enforced`, a rollout does not begin before the
NetworkPolicies on which it relies are confirmed. For other programs the files are there, and no rollout waits.
"""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import has_content, read_bounded, system_message, write_whole
from admc.serve.file_watch import look
from admc.serve.files.redirection import listed
from emitters.kubernetes import closed_by_selector, pod_labels, to_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from admc.serve.file_watch import FileStat, Signature
    from emitters.kubernetes import ClosedTargets

LOG: Final = logging.getLogger("admc.serve")
FOLDER: Final = "network-policies"
OBJECT: Final = "network-policy.yaml"
DIGEST: Final = "digest"
APPLIED: Final = "applied"
MAX_APPLIED: Final = 1000


class _Known(NamedTuple):
    """What the folder has of the NetworkPolicies that were requested at one time."""

    wanted: Mapping[str, ClosedTargets]
    digests: Mapping[str, str]
    """Destination -> the digest of its NetworkPolicy. A destination that Kubernetes cannot close is absent."""
    confirmed: frozenset[str]
    problem: str
    """Why a destination has no NetworkPolicy; empty if each has one."""
    stats: Signature
    """The files as they were written. If one differs, another process has changed it, and all are written again."""


class Closing:
    """Implements `admc.serve.environment.Closing`. `refresh` reads and writes files, so it belongs in a thread."""

    def __init__(self, folder: Path | None, *, explicit: bool = False) -> None:
        """`folder` is the state folder; without one there are no confirmations. In mode `explicit` all processes are on
        one machine, which has no NetworkPolicies."""
        self._folder = folder
        self._explicit = explicit
        self._wanted: Mapping[str, ClosedTargets] = {}
        self._known = _Known(self._wanted, {}, frozenset(), "", {})
        self._failure = ""
        """Why the files could not be written."""

    def ask(self, destinations: Mapping[str, ClosedTargets]) -> None:
        """Request exactly these NetworkPolicies; `refresh` writes them."""
        self._wanted = dict(destinations)

    def missing(self, destinations: Collection[str]) -> tuple[str, ...]:
        """Return those of the destinations whose NetworkPolicies are not confirmed and have to be, sorted. They need
        not be if no program that closes them says `network_policies enforced`."""
        if self._explicit:
            return ()
        wanted, known = self._wanted, self._known
        counted = known.confirmed if known.wanted is wanted else frozenset()
        counted |= {name for name, closed in wanted.items() if not closed.stated}
        return tuple(name for name in sorted(destinations) if name not in counted)

    @property
    def text(self) -> str:
        """A sentence with the NetworkPolicies that the operator has to apply; empty if none is missing, or without a
        folder."""
        known = self._known
        names = self.missing(known.digests)
        if self._failure or known.problem or self._folder is None or not names:
            return self._failure or known.problem
        return (
            f"the NetworkPolicy is not confirmed at {listed(names)}: without it no policy is met that relies on it; "
            f"apply `{self._folder / FOLDER / names[0] / OBJECT}` and write `{APPLIED}` there"
        )

    def refresh(self) -> None:
        """Write the files of requested NetworkPolicies, and read the confirmations. Raises `CommandError` if the folder
        cannot be written; then nothing new is confirmed."""
        folder, wanted = self._folder, self._wanted
        if folder is None or self._explicit:
            return
        try:
            known = self._known
            if known.wanted is not wanted or any(
                stat is None or look(path) != stat for path, stat in known.stats.items()
            ):
                known = _written(folder / FOLDER, wanted)
            self._known = _confirmed(folder / FOLDER, known)
        except CommandError as error:
            self._failure = error.diagnostics[0].message
            raise
        self._failure = ""


def _written(folder: Path, wanted: Mapping[str, ClosedTargets]) -> _Known:
    """Write the NetworkPolicies that the folder lacks or has in another form, and remove all others."""
    programs = {id(closed.program): closed.program for closed in wanted.values()}
    programs |= {id(its.program): its.program for closed in wanted.values() for its in closed.admitted.values()}
    labels = {name: pod_labels(service) for program in programs.values() for name, service in program.services.items()}
    digests, problems, changed = {}, [], []
    stats: dict[Path, FileStat | None] = {}
    for name, closed in closed_by_selector(wanted, labels).items():
        if closed.policy is None:
            problems += [finding.message for finding in closed.findings]
            continue
        content = to_yaml([closed.policy]).encode()
        digests[name] = hashlib.sha256(content).hexdigest()
        if _write(folder / name, content, digests[name]):
            changed.append(name)
        stats |= {folder / name / file: look(folder / name / file) for file in (OBJECT, DIGEST)}
    removed = _removed(folder, wanted)
    if changed or removed or problems:
        LOG.info(
            "network_policies_requested", extra={"services": sorted(changed), "removed": removed, "problems": problems}
        )
    return _Known(wanted, digests, frozenset(), "; ".join(problems), stats)


def _write(place: Path, content: bytes, digest: str) -> bool:
    """Write the files of one destination, unless the folder has them. Returns whether they were written: an earlier
    confirmation, which was about another object, is removed before."""
    named = f"{digest}\n".encode()
    if has_content(place / OBJECT, content) and has_content(place / DIGEST, named):
        return False
    try:
        # The state folder itself is not made here: it is private.
        place.parent.mkdir(exist_ok=True)
        place.mkdir(exist_ok=True)
        (place / APPLIED).unlink(missing_ok=True)
    except OSError as error:
        raise _not_writable(place, error) from error
    write_whole(place / OBJECT, content)
    write_whole(place / DIGEST, named)
    return True


def _removed(folder: Path, wanted: Collection[str]) -> list[str]:
    """Remove the files of destinations that need not be closed, and return their names. Those of a destination that
    cannot be closed stay, as its object in the cluster does."""
    names = []
    try:
        for place in sorted(folder.iterdir()) if folder.is_dir() else ():
            if place.name in wanted or place.is_symlink():
                continue
            files = [place / name for name in (APPLIED, DIGEST, OBJECT) if (place / name).exists()]
            for path in files:
                path.unlink(missing_ok=True)
            if files:
                names.append(place.name)
    except OSError as error:
        raise _not_writable(folder, error) from error
    return names


def _confirmed(folder: Path, known: _Known) -> _Known:
    """Read the confirmations. One that the operator has removed does not count any more."""
    confirmed = frozenset(name for name, digest in known.digests.items() if _said(folder / name) == digest)
    if new := confirmed - known.confirmed:
        LOG.info("network_policies_applied", extra={"services": sorted(new)})
    return known._replace(confirmed=confirmed)


def _said(place: Path) -> str:
    """The digest in a confirmation; empty if there is none that can be read, which confirms nothing."""
    try:
        content = read_bounded(place / APPLIED, MAX_APPLIED, "a confirmation", regular=True)
    except CommandError:
        return ""
    return content.decode("ascii", "replace").strip()


def _not_writable(place: Path, error: OSError) -> CommandError:
    return wrong_usage("ADM803", f"cannot write to the folder `{place}`", cause=system_message(error))
