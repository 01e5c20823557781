"""What each ADM is told in a step.

    step + addresses (+ what it was told before) -> {service: AdmResources}

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

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.transition.model import Placed, Step
    from emitters.addresses import Addresses
    from emitters.envoy import AdmResources


def resources(
    step: Step,
    addresses: Addresses,
    mode: Mode,
    before: Mapping[str, AdmResources] | None = None,
    only: Collection[str] | None = None,
) -> dict[str, AdmResources]:
    """The resources of every ADM in a step, or of those in `only`.

    `before` is what they were told in the step before, or in the state that the transition begins with. Raises
    `EmitError` where Envoy cannot express the step.
    """
    sharing: dict[int, tuple[Placed, set[str]]] = {}
    for service, part in step.parts.items():
        if only is None or service in only:
            sharing.setdefault(id(part.placed), (part.placed, set()))[1].add(service)
    made: dict[str, AdmResources] = {}
    for placed, services in sharing.values():
        for found in emit(
            placed.program,
            placed.placement,
            addresses,
            mode,
            waiting=mode is Mode.REDIRECT,
            only=services,
        ):
            made[found.service] = _told(found, step, (before or {}).get(found.service))
    return {service: made[service] for service in sorted(made)}


def _told(found: AdmResources, step: Step, before: AdmResources | None) -> AdmResources:
    toggles = step.parts[found.service].toggles
    routes = {name: toggled(table, toggles[name]) if name in toggles else table for name, table in found.routes.items()}
    if before is None or step.phase is Phase.CLEAN:
        return replace(found, routes=routes)
    return replace(
        found,
        routes={**before.routes, **routes},
        clusters={**before.clusters, **found.clusters},
        endpoints={**before.endpoints, **found.endpoints},
        extensions={**before.extensions, **found.extensions},
        siblings=found.siblings or before.siblings,
    )
