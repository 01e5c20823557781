"""Checks the consequences of the decisions: ADMs, closed destinations, loads and objective values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dsl.program import Metric, Place, Program, Side
from solver.placement import Adm, Cost, Costs, Placement, Rule, Status, Violation
from solver.verify.scope import Requirement, can_host

NANO = 1_000_000_000
"""Nano-cores in a core."""
SECONDS = 3_600
"""Seconds in an hour, and requests in an hour of a call without a rate."""
NOTHING = Cost()


@dataclass(slots=True)
class Work:
    """Policies that the ADM of one service has to enforce, in declared order, and the cost of the ADM with them."""

    ingress: list[str]
    egress: list[str]
    cpu: int
    latency: int


def work(program: Program, placed: Sequence[tuple[Requirement, Place]], costs: Costs) -> dict[str, Work]:
    """The work of every service, by name. `placed` is in declared order. Externals have no work."""
    services, shares = program.services, costs.enforcement
    works: dict[str, Work] = {}
    for requirement, place in placed:
        name = requirement.policy.name
        for side in place.sides:
            for host in (requirement.destination,) if side is Side.INGRESS else requirement.senders:
                done = works.get(host)
                if done is None:
                    if host not in services:
                        continue
                    base = costs.adm.get(host, NOTHING)
                    done = works[host] = Work([], [], base.cpu, base.latency)
                policies = done.ingress if side is Side.INGRESS else done.egress
                if not policies or policies[-1] != name:
                    policies.append(name)
                share = shares.get((host, side, name, requirement.destination)) if shares else None
                if share is not None:
                    done.cpu += share.cpu
                    done.latency += share.latency
    if costs.hop:
        _add_hops(program, placed, costs, works)
    return works


def _add_hops(
    program: Program, placed: Iterable[tuple[Requirement, Place]], costs: Costs, works: Mapping[str, Work]
) -> None:
    """Adds the cost of each hop to the work of its service, once for all policies there."""
    there: set[tuple[str, Side, str, int]] = set()
    for requirement, place in placed:
        if Side.INGRESS in place.sides:
            there.update((requirement.destination, Side.INGRESS, requirement.destination, p) for p in requirement.ports)
        if Side.EGRESS in place.sides:
            for call in map(program.calls.__getitem__, requirement.calls):
                there.add((call.source, Side.EGRESS, requirement.destination, call.port.number))
    for hop, cost in costs.hop.items():
        if tuple(hop) in there and hop.service in works:
            works[hop.service].cpu += cost.cpu
            works[hop.service].latency += cost.latency


def adms(program: Program, placement: Placement, needed: Mapping[str, Work]) -> Iterator[Violation]:
    """Check that exactly the services with work have an ADM, and that it lists its policies in declared order."""
    there: dict[str, Adm] = {}
    for adm in placement.adms:
        if adm.service in there:
            yield Violation(Rule.COVERAGE, f"`{adm.service}` has two ADMs")
        there[adm.service] = adm
        if not can_host(program.services.get(adm.service)):
            yield Violation(Rule.HOST, f"`{adm.service}` cannot host an ADM, and has one")
        if adm.service not in needed:
            yield Violation(Rule.COVERAGE, f"the ADM of `{adm.service}` has nothing to enforce")
    for service, done in needed.items():
        if service not in there:
            yield Violation(Rule.COVERAGE, f"`{service}` has to enforce policies and has no ADM")
            continue
        for side, listed, wanted in (
            (Side.INGRESS, there[service].ingress, done.ingress),
            (Side.EGRESS, there[service].egress, done.egress),
        ):
            yield from _policies(service, side, listed, wanted)
    if list(there) != sorted(there):
        yield Violation(Rule.COVERAGE, "the ADMs are not in order of their services")


def _policies(service: str, side: Side, listed: tuple[str, ...], wanted: list[str]) -> Iterator[Violation]:
    if list(listed) == wanted:
        return
    for name in sorted(set(wanted) - set(listed)):
        yield Violation(Rule.COVERAGE, f"the ADM of `{service}` leaves out `{name}` at {side}", name)
    for name in sorted(set(listed) - set(wanted)):
        yield Violation(Rule.COVERAGE, f"the ADM of `{service}` has no `{name}` to enforce at {side}", name)
    if set(listed) != set(wanted):
        return
    if len(listed) != len(wanted):
        yield Violation(Rule.COVERAGE, f"the ADM of `{service}` enforces a policy twice at {side}")
    else:
        yield Violation(Rule.ORDER, f"the ADM of `{service}` does not keep the declared order at {side}")


def closed(placement: Placement, wanted: set[str]) -> Iterator[Violation]:
    """Check that the closed destinations are exactly those that a decision needs closed."""
    for name in sorted(wanted - set(placement.closed)):
        yield Violation(Rule.CLOSED, f"`{name}` has to be closed and is not", None, name)
    for name in sorted(set(placement.closed) - wanted):
        yield Violation(Rule.CLOSED, f"`{name}` is closed, and no decision needs that", None, name)
    if list(placement.closed) != sorted(set(placement.closed)):
        yield Violation(Rule.CLOSED, "the closed destinations are not in order")


def capacity(program: Program, needed: Mapping[str, Work], costs: Costs) -> Iterator[Violation]:
    """Check rule R9, if costs are known."""
    if not costs.known:
        return
    for service, done in needed.items():
        limit, sidecars = program.services[service].capacity, program.services[service].replicas
        if limit is None:
            continue
        if done.cpu > sidecars * round(limit * NANO):
            yield Violation(
                Rule.CAPACITY,
                f"the ADM of `{service}` is estimated at {done.cpu} nano-cores of {sidecars} sidecars, over its "
                f"capacity of {limit:g} cores each",
            )


def figures(
    program: Program,
    needed: Mapping[str, Work],
    closing: Iterable[str],
    placed: Iterable[tuple[Requirement, Place]],
) -> dict[str, int]:
    """The value of each metric for a placement."""
    cpu = sum(done.cpu for done in needed.values())
    return {
        Metric.ADMS: len(needed),
        Metric.SIDECARS: sum(program.services[service].replicas for service in needed),
        Metric.CPU: cpu,
        Metric.LATENCY: sum(done.latency for done in needed.values()),
        Metric.CLOSED: len(set(closing)),
        Metric.OVERHEAD: cpu,
        Metric.HOPS: requests_passing_hops(program, placed),
    }


def objectives(placement: Placement, real: Mapping[str, int], wanted: tuple[str, ...]) -> Iterator[Violation]:
    """Check that the objective has the wanted levels and the real values, and that bounds and status agree."""
    metrics = tuple(level.metric for level in placement.objectives)
    if metrics != wanted:
        yield Violation(None, "the objective values are not those that the program asks for, in its order")
    for metric, value, bound in placement.objectives:
        if value != real.get(metric, value):
            yield Violation(None, f"objective `{metric}` is given as {value}, but is {real[metric]} for the placement")
        if bound > value:
            yield Violation(None, f"objective `{metric}` has the value {value}, below its bound {bound}")
    proven = all(level.bound == level.value for level in placement.objectives)
    if (placement.status is Status.OPTIMAL) is not proven:
        yield Violation(None, f"the status `{placement.status}` contradicts the bounds")


def wanted_levels(program: Program, costs: Costs) -> tuple[str, ...]:
    """The levels of the objective: those that the program names, then `closed`, `overhead` and `hops` unless it does.

    `overhead` follows only if costs are given and the program does not name `cpu`. A named `overhead` in last place
    behind another metric moves behind `closed`, because the default objective also ends with `overhead`.
    """
    first: list[str] = list(program.objective)
    known = costs.known or costs.adm or costs.hop or costs.enforcement
    asked = Metric.OVERHEAD in first or (known and Metric.CPU not in first)
    if first[1:] and first[-1] == Metric.OVERHEAD:
        del first[-1]
    for metric in (Metric.CLOSED, Metric.OVERHEAD, Metric.HOPS):
        if metric not in first and (asked or metric is not Metric.OVERHEAD):
            first.append(metric)
    return tuple(first)


def requests_passing_hops(program: Program, placed: Iterable[tuple[Requirement, Place]]) -> int:
    """Requests an hour that pass the hops of all ADMs.

    At ingress all calls to a port pass its hop, including calls outside of the scope. At egress a hop has one call.
    """
    leaving: set[int] = set()
    entered: set[tuple[str, int]] = set()
    for requirement, place in placed:
        if Side.EGRESS in place.sides:
            leaving.update(requirement.calls)
        if Side.INGRESS in place.sides:
            entered.update((requirement.destination, port) for port in requirement.ports)
    total = 0
    for index, call in enumerate(program.calls):
        passed = (index in leaving and call.source in program.services) + (
            (call.destination, call.port.number) in entered and call.destination in program.services
        )
        if passed:
            total += passed * (SECONDS if call.rate is None else round(call.rate * SECONDS))
    return total
