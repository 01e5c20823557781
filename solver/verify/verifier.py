"""The independent check that a placement is correct.

It is written from docs/rules.md alone, shares no code with the solver's model, and uses no fact that the solver
derived. A violation in a placement of the solver is a bug of admc; a placement that was read from a plan may also have
been edited. Its parts are

    scope   requirements of the program       order    R6, with matches
    places  R3 R4 R5 R7 R8 R10                totals   ADMs, closed destinations, R9, objective

and this module: R1, R2 and the sequence of the checks. The whole check takes a few passes over the calls and the
decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsl.program import Place, Program, Reliance
from solver.placement import Costs, Decision, Placement, Rule, Violation
from solver.verify import order, totals
from solver.verify.places import Places
from solver.verify.scope import Requirement, destination_facts, requirements

NO_COSTS = Costs()


def verify(program: Program, placement: Placement, costs: Costs = NO_COSTS) -> tuple[Violation, ...]:
    """The violations in a placement of `program`; empty if it is correct.

    It may have more faults of the same sort than are listed. Whether a better placement exists is not checked.
    """
    wanted = requirements(program)
    given, violations = _given(wanted, placement)
    places = Places(program, destination_facts(program, wanted.values()))
    placed: list[tuple[Requirement, Place]] = []
    closing: set[str] = set()
    for key, requirement in wanted.items():
        decision = given.get(key)
        if decision is None:
            violations.append(_missing(requirement))
            continue
        violations.extend(_coverage(requirement, decision, places.offered(requirement)))
        violations.extend(places.check(requirement, decision))
        placed.append((requirement, decision.place))
        relies = Reliance.CLOSED in decision.place.relies_on
        if requirement.open and relies and requirement.destination in program.services:
            closing.add(requirement.destination)
    violations.extend(order.order(program, placed))
    needed = totals.work(program, placed, costs)
    violations.extend(totals.adms(program, placement, needed))
    violations.extend(totals.closed(placement, closing))
    violations.extend(totals.capacity(program, needed, costs))
    real = totals.figures(program, needed, closing, placed)
    violations.extend(totals.objectives(placement, real, totals.wanted_levels(program, costs)))
    return tuple(violations)


def _given(
    wanted: Mapping[tuple[str, str], Requirement], placement: Placement
) -> tuple[dict[tuple[str, str], Decision], list[Violation]]:
    """The placement's decisions by policy and destination; violations for duplicate and unrequired decisions."""
    given: dict[tuple[str, str], Decision] = {}
    violations: list[Violation] = []
    last = (-1, "")
    in_order = True
    for decision in placement.decisions:
        policy, destination = decision.policy, decision.destination
        requirement = wanted.get((policy, destination))
        if requirement is None:
            message = f"no rule requires `{policy}` at `{destination}`"
            violations.append(Violation(Rule.COVERAGE, message, policy, destination))
            continue
        other = given.get((policy, destination))
        if other is not None:
            violations.append(_twice(requirement, other, decision))
            continue
        given[(policy, destination)] = decision
        in_order = in_order and last < (requirement.position, destination)
        last = (requirement.position, destination)
    if not in_order:
        violations.append(Violation(Rule.COVERAGE, "the decisions are not in declared order"))
    return given, violations


def _twice(requirement: Requirement, one: Decision, other: Decision) -> Violation:
    policy, destination = requirement.policy.name, requirement.destination
    if set(one.calls).isdisjoint(other.calls):
        message = f"`{policy}` is split between places at `{destination}`: its calls have to be enforced together"
        return Violation(Rule.ATOMICITY, message, policy, destination)
    return Violation(Rule.COVERAGE, f"`{policy}` is decided twice at `{destination}`", policy, destination)


def _missing(requirement: Requirement) -> Violation:
    policy, destination = requirement.policy.name, requirement.destination
    return Violation(Rule.COVERAGE, f"`{policy}` is not enforced at `{destination}`", policy, destination)


def _coverage(requirement: Requirement, decision: Decision, offered: frozenset[Place]) -> Iterator[Violation]:
    """Rules R1 and R2 for one decision. `offered` are the places of which it takes one."""
    policy, destination = requirement.policy.name, requirement.destination

    def wrong(message: str) -> Violation:
        return Violation(Rule.COVERAGE, message, policy, destination)

    place = decision.place
    if requirement.policy.kind.both and place is not Place.BOTH:
        yield wrong(f"`{policy}` has to be enforced at both ends of its calls to `{destination}`")
    if place is Place.BOTH and not requirement.policy.kind.both:
        yield wrong(f"`{policy}` is enforced more than once at `{destination}`")
    if decision.calls != requirement.calls:
        missing = sorted(set(requirement.calls) - set(decision.calls))
        extra = sorted(set(decision.calls) - set(requirement.calls))
        yield wrong(
            f"`{policy}` at `{destination}` does not cover the calls in its scope: "
            f"{len(missing)} left out, {len(extra)} beyond it"
        )
    if decision.open != requirement.open or decision.ports != requirement.ports:
        yield wrong(f"`{policy}` at `{destination}` does not cover the callers and ports in its scope")
    if set(decision.ruled_out) != {other for other in offered if other is not place}:
        yield wrong(f"`{policy}` at `{destination}` does not say why another place was not taken")
