"""What the pods of each service need, by the plans in force and to come.

    plan --needs_of_plan--> PlanNeeds, of each plan --united--> PlanNeeds --injections, with selectors--> InjectionSpec

In the middle of a rollout a pod needs the redirection of both plans, and waits if it has to wait in one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.inject.amounts import in_bytes, least, millicores
from admc.kubernetes.inject.spec import (
    DEFAULT,
    LEAST_CPU,
    LEAST_MEMORY,
    Amounts,
    Captures,
    InjectionSpec,
    Required,
    Resources,
    ServiceInjection,
    injection_spec,
)
from admc.serve.compiling.address_deps import AddressIndex
from emitters.interception.pod import pod_captures

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.compile.plan.model import Plan
    from dsl.program import Program
    from solver.placement import Placement

MILLICORE: Final = 1_000_000
"""In nano-cores."""
MIB: Final = 1 << 20


class Place(NamedTuple):
    """A service of a program, and the namespace of its pods, which another plan may have changed."""

    namespace: str
    service: str


class Needs(NamedTuple):
    captures: Captures | None
    """None without an ADM."""
    waits: bool

    @property
    def anything(self) -> bool:
        return self.waits or self.captures is not None


class Estimate(NamedTuple):
    """What one replica of an ADM takes, by the profile of its program."""

    cpu: int
    """Nano-cores."""
    memory: int
    """Bytes."""


PlanNeeds = Mapping[Place, Needs]
NOTHING_REQUIRED: Final[Mapping[Place, Required]] = MappingProxyType({})
NO_NAMES: Final[Mapping[Place, str]] = MappingProxyType({})


def needs_of_plan(program: Program, placement: Placement) -> PlanNeeds:
    """Return the needs of all services of a program, by its plan."""
    return needs_of_index(program, AddressIndex(program, placement))


def needs_of_index(program: Program, index: AddressIndex) -> PlanNeeds:
    """The same, by the index of the plan."""
    awaited = index.needed_by()
    needs = {}
    for name, service in program.services.items():
        captures = None
        if name in index.hops:
            ports = pod_captures(index.hops[name])
            captures = Captures(tuple(sorted(ports.ingress)), tuple(sorted(ports.egress)))
        needs[Place(service.namespace, name)] = Needs(captures, bool(awaited.get(name)))
    return needs


def estimates_of(plan: Plan) -> dict[str, Estimate]:
    """Return the estimate of each ADM of a plan; none without a profile."""
    return {
        adm.service: Estimate(adm.overhead.cpu_of_replica.value, adm.overhead.memory.value // max(1, adm.replicas))
        for adm in plan.adms
        if adm.overhead is not None
    }


def united(plans: Iterable[PlanNeeds]) -> PlanNeeds:
    """Return what pods need that have to fit all of these plans."""
    needs: dict[Place, Needs] = {}
    for plan in plans:
        for place, own in plan.items():
            needs[place] = _both(needs[place], own) if place in needs else own
    return needs


def _both(one: Needs, other: Needs) -> Needs:
    parts = [part for part in (one.captures, other.captures) if part is not None]
    captures = Captures(
        tuple(sorted({port for part in parts for port in part.ingress})),
        tuple(sorted({port for part in parts for port in part.egress})),
    )
    return Needs(captures if parts else None, one.waits or other.waits)


def in_common(one: Needs, other: Needs) -> Needs:
    """Return what pods need in both cases."""
    if one.captures is None or other.captures is None:
        return Needs(None, one.waits and other.waits)
    captures = Captures(
        tuple(port for port in one.captures.ingress if port in other.captures.ingress),
        tuple(port for port in one.captures.egress if port in other.captures.egress),
    )
    return Needs(captures, one.waits and other.waits)


def injections(
    app: str,
    server: str,
    needs: PlanNeeds,
    selectors: Mapping[Place, Mapping[str, str]],
    estimates: Mapping[str, Estimate],
    limits: Amounts | None,
    required: Mapping[Place, Required] = NOTHING_REQUIRED,
    names: Mapping[Place, str] = NO_NAMES,
) -> dict[str, InjectionSpec]:
    """Return the spec of each namespace with services that need something. A service is left out if no pod is known to
    be of it: it has no Service, or one without a selector. `required` has the services that are guarded, and `names`
    the Services."""
    by_namespace: dict[str, dict[str, ServiceInjection]] = {}
    for place, own in needs.items():
        selector = selectors.get(place)
        if selector:
            resources = resources_of(estimates.get(place.service), limits)
            named = names.get(place, place.service)
            service = None if named == place.service else named
            row = ServiceInjection(selector, own.waits, resources, own.captures, required.get(place), service)
            if row.needs_something:
                by_namespace.setdefault(place.namespace, {})[place.service] = row
    return {namespace: injection_spec(app, server, services) for namespace, services in sorted(by_namespace.items())}


def resources_of(estimate: Estimate | None, limits: Amounts | None) -> Resources:
    """Return the resources of an ADM. A request above its limit would be refused by the API server, so the limit
    counts."""
    requests = DEFAULT.requests
    if estimate is not None:
        cpu = max(LEAST_CPU, math.ceil(estimate.cpu / MILLICORE))
        memory = max(LEAST_MEMORY, math.ceil(estimate.memory / MIB))
        requests = Amounts(f"{cpu}m", f"{memory}Mi")
    if limits is None:
        return Resources(requests)
    cpu_request = least(requests.cpu, limits.cpu, millicores)
    return Resources(Amounts(cpu_request, least(requests.memory, limits.memory, in_bytes)), limits)
