"""Estimates what each request of a program costs, in the plan and in a full mesh.

Program, Placement, Profile, Overhead -> [RequestOverhead]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from admc.cost.model.estimate import estimate
from admc.cost.model.layout import Layout, of_full_mesh, of_placement
from admc.cost.model.overhead import Overhead
from admc.cost.model.prices import Prices
from admc.cost.profiles.amounts import NANO, Whole, nearest, rounded_down, rounded_up, whole
from admc.cost.profiles.law import total
from admc.cost.profiles.profile import Profile
from admc.cost.requests.calls import CallCost, call_costs
from admc.cost.requests.paths import outcomes, sync_calls
from dsl.program import Program
from dsl.requests import Request
from solver.placement import Placement


class RequestCost(NamedTuple):
    """The costs that ADMs add to one request. A figure is `at_least` if a part of it is not known."""

    mean: Whole
    """Added latency in nanoseconds, on average over all outcomes of the request's chances."""
    worst: Whole
    """The largest added latency of an outcome, in nanoseconds."""
    cpu: Whole
    """Nanoseconds of one core, on average. An idle ADM's own CPU belongs to no request."""


@dataclass(frozen=True, slots=True)
class RequestOverhead:
    name: str
    rate: Fraction | None
    """Requests per second."""
    plan: RequestCost
    hosting: RequestCost
    """The cost in a full mesh: a sidecar at every service that can host one."""
    everywhere: RequestCost
    """The cost in a full mesh with a sidecar at all services."""


_Key = tuple[str, str, int]


def of_requests(
    program: Program, placement: Placement, profile: Profile, overhead: Overhead
) -> tuple[RequestOverhead, ...]:
    """The costs of all requests, ordered by name. `overhead` is the estimate of the plan."""
    if not program.requests:
        return ()
    called = {step.call for request in program.requests for step, _ in request.steps()}
    indices = {
        key: index
        for index, call in enumerate(program.calls)
        if (key := (call.source, call.destination, call.port.number)) in called
    }
    services = {name for source, destination, _ in called for name in (source, destination)}
    prices = Prices(profile)

    def costs(layout: Layout, estimated: Overhead) -> Mapping[_Key, CallCost]:
        by_index = call_costs(program, layout, estimated, prices, indices.values())
        return {key: by_index[index] for key, index in indices.items()}

    mesh = _of(of_full_mesh(program, placement, everywhere=True), services)
    hosting = {name: hops for name, hops in mesh.items() if program.services[name].can_host}
    in_mesh = estimate(program, mesh, profile)
    plan_costs = costs(_of(of_placement(program, placement), services), overhead)
    hosting_costs, everywhere_costs = costs(hosting, in_mesh), costs(mesh, in_mesh)
    return tuple(
        RequestOverhead(
            request.name,
            request.rate,
            request_cost(request, plan_costs),
            request_cost(request, hosting_costs),
            request_cost(request, everywhere_costs),
        )
        for request in program.requests
    )


def _of(layout: Layout, services: set[str]) -> Layout:
    return {name: hops for name, hops in layout.items() if name in services}


def request_cost(request: Request, costs: Mapping[_Key, CallCost]) -> RequestCost:
    """The costs of one request. `costs` contains every call of the request."""
    steps = list(request.steps())
    step_costs = [costs[step.call] for step, _ in steps]
    cpu = total(cost.cpu.scaled(float(times)) for cost, (_, times) in zip(step_costs, steps, strict=True))
    mean, worst = _latency(request, costs)
    return RequestCost(mean, worst, whole(cpu, NANO, at_least=any(cost.cpu_at_least for cost in step_costs)))


def _latency(request: Request, costs: Mapping[_Key, CallCost]) -> tuple[Whole, Whole]:
    """The mean and the worst added latency. A latency that is not known counts as zero, and the sums are lower bounds:
    more latency makes no path shorter."""
    latencies = {key: costs[key].latency for key in sync_calls(request.root)}
    at_least = any(latency.at_least for latency in latencies.values())
    low = all(latency.low is not None for latency in latencies.values())
    high = all(latency.high is not None for latency in latencies.values())
    distribution = outcomes(
        request.root,
        {key: (latency.value, latency.low or 0, latency.high or 0) for key, latency in latencies.items()},
    )
    return (
        Whole(
            nearest(distribution.mean_added(1)),
            rounded_down(distribution.mean_added(2)) if low else None,
            rounded_up(distribution.mean_added(3)) if high else None,
            at_least,
        ),
        Whole(
            distribution.worst_added(1),
            distribution.worst_added(2) if low else None,
            distribution.worst_added(3) if high else None,
            at_least,
        ),
    )
