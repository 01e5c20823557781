"""Which containers of a pod in the cluster are exactly what injection writes, so that they can be relied on.

A name proves nothing: a container that is called as the ADM, with another command, may open any connection as the
ADM's user. So the containers are made anew from what the pod says of itself (the arguments of its rules container), and
compared. They have to come first, since what runs before the rules is not redirected.

The tag of an image may be another one: pods outlive a release.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from admc.cluster.names import ADM_CONTAINER, RULES_CONTAINER, WAIT_CONTAINER
from admc.cluster.security import is_as_written, is_stored_form
from admc.inject.containers import NAMES, containers, volumes
from admc.inject.model import Wanted
from emitters.interception.pod import ArgumentsError, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.inject.model import Installation

NOTHING: Final[frozenset[str]] = frozenset()


def recognised(pod: Mapping[str, Any], installation: Installation) -> frozenset[str]:
    """The names of the containers that injection wrote; none if any of them was altered."""
    spec = pod["spec"]
    listed = spec.get("initContainers") or []
    names = [container.get("name") for container in listed if container.get("name") in NAMES]
    if not names:
        return NOTHING
    wanted = _wanted(listed, names)
    if wanted is None:
        return NOTHING
    written, mounts = _written(wanted, installation)
    if len(names) != len(written) or len(listed) < len(written):
        return NOTHING
    if not all(is_as_written(_untagged(one), other) for one, other in zip(listed, written, strict=False)):
        return NOTHING
    mounted = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    if not all(is_stored_form(mounted.get(volume["name"]), volume) for volume in mounts):
        return NOTHING
    return frozenset(container["name"] for container in written)


def _wanted(listed: list[dict[str, Any]], names: list[str]) -> Wanted | None:
    """What the pod was to have, by its own containers; None if they do not go together."""
    waits = WAIT_CONTAINER in names
    rules = listed[0] if listed[0].get("name") == RULES_CONTAINER else None
    if rules is None:
        return Wanted("", None, waits) if names == [WAIT_CONTAINER] else None
    if ADM_CONTAINER not in names:
        return None
    try:
        found = parse_arguments(rules.get("args") or ())
    except ArgumentsError:
        return None
    return Wanted(found.service, found.captures, waits)


@lru_cache(maxsize=1 << 12)
def _written(wanted: Wanted, installation: Installation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Containers and volumes. All pods of a service have the same ones."""
    return [_untagged(each) for each in containers(wanted, installation)], volumes(wanted, installation)


def _untagged(container: Mapping[str, Any]) -> dict[str, Any]:
    return {**container, "image": repository(str(container.get("image", "")))}


def repository(image: str) -> str:
    """An image without its tag and digest.

    >>> repository("registry:5000/admc:1.2@sha256:0a")
    'registry:5000/admc'
    """
    name = image.partition("@")[0]
    before, _, tag = name.rpartition(":")
    return before if before and "/" not in tag else name
