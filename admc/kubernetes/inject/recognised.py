"""Which containers of a pod in the cluster are exactly as injection writes them, so that admc can rely on them.

    pod, Installation --> the names of these containers, or why those with admc's names are not

A name proves nothing: a container with the ADM's name and another command may open any connection as the ADM's user. So
the containers are built again from the arguments of the pod's rules container, in each form that a release has written,
and compared. They have to come first, since a container that runs before the rules is not redirected.

The image that ran has to be of a listed repository too: the image in a pod's spec can be changed after its container
has ended.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.base.terminal import visible
from admc.kubernetes.inject.containers import FORMS, NAMES, Form, containers, volumes
from admc.kubernetes.inject.images import envoy_repositories, own_repositories, repository_that_ran
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.spec import DEFAULT
from admc.kubernetes.inject.stored import (
    RAN,
    Difference,
    Expected,
    container_differences,
    described,
    differences,
    expected,
)
from emitters.interception.pod import ArgumentsError, parse_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from admc.kubernetes.inject.model import Installation

    Json = Mapping[str, Any]

RULES_CONTAINER, ADM_CONTAINER, WAIT_CONTAINER = NAMES
_LONGEST_NAME: Final = 63
"""Characters of a container's name in Kubernetes."""
_MISPLACED: Final = 1_000
"""Stands for more differences than containers at their places have."""


class Recognition(NamedTuple):
    """All pods of a template have the same one: it has neither the name of a pod nor the value of a variable."""

    names: frozenset[str] = frozenset()
    """The containers that injection wrote; none if any of them was altered."""
    finding: str = ""
    """Why containers with admc's names are not as injection writes them; empty if they are, or if there are none."""


class _Written(NamedTuple):
    """What injection writes into a pod, prepared for comparison."""

    containers: tuple[Expected, ...]
    volumes: Mapping[str, Json]
    names: frozenset[str]


class _Unlike(NamedTuple):
    """How far a pod differs from what injection writes."""

    number: int
    first: str
    """The first difference, in words."""


NOTHING: Final = Recognition()


def recognised(pod: Json, installation: Installation) -> Recognition:
    spec = pod["spec"]
    listed = spec.get("initContainers") or []
    names = [container.get("name") for container in listed if container.get("name") in NAMES]
    if not names:
        return _no_init_container(spec)
    needs = _needs(listed, names)
    if isinstance(needs, str):
        return Recognition(finding=needs)
    unlike = []
    for form in FORMS:
        written = _written(needs, installation, form)
        difference = _unlike(pod, listed, names, written)
        if difference is None:
            return Recognition(written.names)
        unlike.append(difference)
    closest = min(unlike, key=lambda difference: difference.number)
    more = f" (and {closest.number - 1} more)" if 1 < closest.number < _MISPLACED else ""
    return Recognition(finding=closest.first + more)


def is_present_form(pod: Json, needs: PodNeeds, installation: Installation) -> bool:
    """Whether a pod that is created has what it needs exactly as this release writes it, apart from amounts of
    resources. None of its containers has run."""
    listed = pod["spec"].get("initContainers") or []
    names = [container.get("name") for container in listed if container.get("name") in NAMES]
    written = _written(needs._replace(resources=DEFAULT), installation, FORMS[0])
    spec = pod["spec"]
    return not _misplaced(listed, names, written) and not any(
        (*_in_containers(listed, written), *_in_volumes(spec, written))
    )


def _no_init_container(spec: Json) -> Recognition:
    names = [container.get("name") for container in spec.get("containers") or () if container.get("name") in NAMES]
    return Recognition(finding=f"container `{names[0]}` is no init container") if names else NOTHING


def _needs(listed: Sequence[Json], names: Sequence[str]) -> PodNeeds | str:
    """Return the needs of the pod, by its own containers; in words, why these do not belong together."""
    waits = WAIT_CONTAINER in names
    if names == [WAIT_CONTAINER]:
        return PodNeeds("", None, waits)
    for name in (RULES_CONTAINER, ADM_CONTAINER):
        if name not in names:
            return f"container `{name}` is missing"
    rules = next(container for container in listed if container.get("name") == RULES_CONTAINER)
    try:
        service, captures = parse_arguments(rules.get("args") or ())
    except ArgumentsError:
        return f"container `{RULES_CONTAINER}`: `args` do not have the form `--service APP/SERVICE --ingress PORTS`"
    return PodNeeds(service, captures, waits)


@lru_cache(maxsize=1 << 12)
def _written(needs: PodNeeds, installation: Installation, form: Form) -> _Written:
    """All pods of a service have the same."""
    own, envoy = own_repositories(installation), envoy_repositories(installation)
    written = tuple(
        expected(container, envoy if container["name"] == ADM_CONTAINER else own)
        for container in containers(needs, installation, form)
    )
    by_name = {volume["name"]: volume for volume in volumes(needs, installation)}
    return _Written(written, by_name, frozenset(container.name for container in written))


def _unlike(pod: Json, listed: Sequence[Json], names: Sequence[str], written: _Written) -> _Unlike | None:
    """Return how far a pod differs; None if it does not."""
    if misplaced := _misplaced(listed, names, written):
        return _Unlike(_MISPLACED, misplaced)
    unlike = [*_in_containers(listed, written), *_ran(pod, written), *_in_volumes(pod["spec"], written)]
    if not unlike:
        return None
    part, difference = unlike[0]
    return _Unlike(len(unlike), f"{part}: {described(difference)}")


def _misplaced(listed: Sequence[Json], names: Sequence[str], written: _Written) -> str:
    """Return why the containers of admc are not the first ones, in their order; empty if they are."""
    if missing := [container.name for container in written.containers if container.name not in names]:
        return f"container `{missing[0]}` is missing"
    for container, expected_container in zip(listed, written.containers, strict=False):
        if container.get("name") != expected_container.name:
            other = visible(str(container.get("name"))[:_LONGEST_NAME])
            return f"init container `{other}` comes before `{expected_container.name}`"
    if len(names) > len(written.containers):
        return f"init container `{names[len(written.containers)]}` is there twice"
    return ""


def _in_containers(listed: Sequence[Json], written: _Written) -> Iterator[tuple[str, Difference]]:
    for stored, container in zip(listed, written.containers, strict=False):
        for difference in container_differences(stored, container):
            yield f"container `{container.name}`", difference


def _in_volumes(spec: Json, written: _Written) -> Iterator[tuple[str, Difference]]:
    mounted = {volume.get("name"): volume for volume in spec.get("volumes") or ()}
    stored = {name: mounted[name] for name in written.volumes if name in mounted}
    for difference in differences(stored, written.volumes):
        yield "volumes", difference


def _ran(pod: Json, written: _Written) -> Iterator[tuple[str, Difference]]:
    """Yield the containers that run, or have run, an image of another repository."""
    repositories = {container.name: container.repositories for container in written.containers}
    for status in (pod.get("status") or {}).get("initContainerStatuses") or ():
        name = status.get("name")
        if name in repositories:
            # One image may have several names, of which a runtime reports one, or its digest alone.
            ran = {repository_that_ran(status.get(field) or "") for field in ("image", "imageID")} - {""}
            if ran and not ran & repositories[name]:
                yield f"container `{name}`", Difference(RAN, min(ran), repositories[name])
