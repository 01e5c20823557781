"""What each ADM is told in a step.

    step + addresses -> {service: AdmResources}     keeping(its snapshot, the one before) -> what is published

Connections that are older than a listener's latest version live on in the version that they began with, so whatever
that one refers to (routes, clusters, configurations of filters) stays until they are gone: all but the listeners of
earlier steps is kept, up to the last one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.transition.model import Phase
from admc.transition.toggles import toggled
from emitters.envoy import Mode, emit
from xds_server.resources.references import Reference
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import EXTENSION, LISTENER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from collections.abc import Set as AbstractSet

    from admc.transition.model import Placed, Step
    from emitters.addresses import Addresses
    from emitters.envoy import AdmResources
    from xds_server.resources.snapshot import Resource


def resources(
    step: Step, addresses: Addresses, mode: Mode, only: Collection[str] | None = None
) -> dict[str, AdmResources]:
    """The resources of every ADM in a step, or of those in `only`. Raises `EmitError` where Envoy cannot express it."""
    sharing: dict[int, tuple[Placed, set[str]]] = {}
    for service, part in step.parts.items():
        if only is None or service in only:
            sharing.setdefault(id(part.placed), (part.placed, set()))[1].add(service)
    made: dict[str, AdmResources] = {}
    for placed, services in sharing.values():
        waiting = mode is Mode.REDIRECT
        for found in emit(placed.program, placed.placement, addresses, mode, waiting=waiting, only=services):
            toggles = step.parts[found.service].toggles
            routes = {
                name: toggled(table, toggles[name]) if name in toggles else table
                for name, table in found.routes.items()
            }
            made[found.service] = replace(found, routes=routes)
    return {service: made[service] for service in sorted(made)}


def keeping(
    step: Step,
    new: Snapshot,
    before: Snapshot | None,
    unwanted: frozenset[Reference] = frozenset(),
    taken: Snapshot | None = None,
) -> Snapshot:
    """What is published in a step: the new snapshot, with all of the earlier one that old connections may need.

    `unwanted` is left out, with what refers to it: proxies that refuse something take nothing that comes with it. What
    they have in its place is `taken`, the last that one of them has as a whole: they would refuse the same again, and
    their connections need what they have.
    """
    if before is None or step.phase is Phase.CLEAN:
        return new
    held = {Reference(resource.type_url, resource.name): resource for resource in _all(new)}
    older = {
        key: resource
        for resource in _all(before)
        if resource.type_url != LISTENER
        and (key := Reference(resource.type_url, resource.name)) not in held
        and key not in unwanted
    }
    if unwanted and taken is not None:
        # All filters are tried together: nobody can say which of them is refused.
        tried = {key for key in older if key.type_url == EXTENSION}
        older |= _had(taken, (unwanted | tried) - held.keys(), held.keys() | older.keys())
    gone = unwanted - held.keys() - older.keys()
    while gone:
        gone = frozenset(key for key, resource in older.items() if resource.references & gone)
        older = {key: resource for key, resource in older.items() if key not in gone}
    return Snapshot.of((*held.values(), *older.values()), elsewhere=new.elsewhere | before.elsewhere)


def _had(taken: Snapshot, names: AbstractSet[Reference], there: AbstractSet[Reference]) -> dict[Reference, Resource]:
    """What was taken of some names, with what that refers to if it is not there."""
    had = {Reference(resource.type_url, resource.name): resource for resource in _all(taken)}
    found: dict[Reference, Resource] = {}
    left = [key for key in names if key.type_url != LISTENER]
    while left:
        key = left.pop()
        if key in had and key not in found:
            found[key] = had[key]
            left += [each for each in had[key].references if each not in there]
    return found


def _all(snapshot: Snapshot) -> Iterator[Resource]:
    for collection in snapshot.collections.values():
        yield from collection.resources.values()
