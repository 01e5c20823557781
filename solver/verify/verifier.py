"""The independent judge: is this placement correct?

Written from docs/rules.md alone. It shares no code with the solver's model, looks at nothing that the solver derived,
and runs on every placement before anyone sees it: a violation is a bug of admc, never the user's mistake. The parts are

    verify_scope   what has to be enforced        verify_order    R6, with verify_match
    verify_sides   R3 R4 R5 R7 R8 R10             verify_totals   ADMs, closed destinations, R9, objective

and this module: R1, R2 and the order of things. It costs a few passes over calls and decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsl.program import Program, Side
from solver.placement import Costs, Decision, Placement, Rule, Violation
from solver.verify import order, totals
from solver.verify.scope import Job, jobs, neighbours
from solver.verify.sides import Sides

NO_COSTS = Costs()
SIDES = (Side.INGRESS, Side.EGRESS)


def verify(program: Program, placement: Placement, costs: Costs = NO_COSTS) -> tuple[Violation, ...]:
    """Everything that is wrong with a placement of `program`; empty if it is correct."""
    wanted = jobs(program)
    given, violations = _given(wanted, placement)
    sides = Sides(program, neighbours(program, wanted.values()))
    placed: list[tuple[Job, tuple[Side, ...]]] = []
    closing: set[str] = set()
    for key, job in wanted.items():
        decision = given.get(key)
        if decision is None:
            violations.append(_missing(job))
            continue
        violations.extend(_coverage(job, decision))
        violations.extend(sides.check(job, decision))
        placed.append((job, decision.sides))
        if job.open and Side.EGRESS in decision.sides and job.destination in program.services:
            closing.add(job.destination)
    violations.extend(order.order(placed))
    needed = totals.work(program, placed, costs)
    violations.extend(totals.adms(program, placement, needed))
    violations.extend(totals.closed(placement, closing))
    violations.extend(totals.capacity(program, needed, costs))
    violations.extend(totals.objectives(program, placement, needed))
    return tuple(violations)


def _given(
    wanted: Mapping[tuple[str, str], Job], placement: Placement
) -> tuple[dict[tuple[str, str], Decision], list[Violation]]:
    """The placement's decisions by policy and destination, and those that are there twice or for nothing."""
    given: dict[tuple[str, str], Decision] = {}
    violations: list[Violation] = []
    last = (-1, "")
    in_order = True
    for decision in placement.decisions:
        policy, destination = decision.policy, decision.destination
        job = wanted.get((policy, destination))
        if job is None:
            message = f"nothing asks for `{policy}` at `{destination}`"
            violations.append(Violation(Rule.COVERAGE, message, policy, destination))
            continue
        other = given.get((policy, destination))
        if other is not None:
            violations.append(_twice(job, other, decision))
            continue
        given[(policy, destination)] = decision
        in_order = in_order and last < (job.position, destination)
        last = (job.position, destination)
    if not in_order:
        violations.append(Violation(Rule.COVERAGE, "the decisions are not in declared order"))
    return given, violations


def _twice(job: Job, one: Decision, other: Decision) -> Violation:
    policy, destination = job.policy.name, job.destination
    if set(one.calls).isdisjoint(other.calls):
        message = f"`{policy}` is split between sides at `{destination}`: its calls have to be enforced together"
        return Violation(Rule.ATOMICITY, message, policy, destination)
    return Violation(Rule.COVERAGE, f"`{policy}` is decided twice at `{destination}`", policy, destination)


def _missing(job: Job) -> Violation:
    policy, destination = job.policy.name, job.destination
    return Violation(Rule.COVERAGE, f"`{policy}` is not enforced at `{destination}`", policy, destination)


def _coverage(job: Job, decision: Decision) -> Iterator[Violation]:
    """Rules R1 and R2 for a decision that is there once."""
    policy, destination = job.policy.name, job.destination

    def wrong(message: str) -> Violation:
        return Violation(Rule.COVERAGE, message, policy, destination)

    sides = decision.sides
    if job.policy.kind.both:
        if sides != (Side.INGRESS, Side.EGRESS):
            yield wrong(f"`{policy}` has to be enforced at both ends of its calls to `{destination}`")
    elif len(sides) != 1:
        number = "more than once" if sides else "nowhere"
        yield wrong(f"`{policy}` is enforced {number} at `{destination}`")
    if decision.calls != job.calls:
        missing = sorted(set(job.calls) - set(decision.calls))
        extra = sorted(set(decision.calls) - set(job.calls))
        yield wrong(
            f"`{policy}` at `{destination}` does not cover the calls in its scope: "
            f"{len(missing)} left out, {len(extra)} beyond it"
        )
    if decision.open != job.open or decision.ports != job.ports:
        yield wrong(f"`{policy}` at `{destination}` does not cover the callers and ports in its scope")
    if any((side in decision.ruled_out) is (side in sides) for side in SIDES):
        yield wrong(f"`{policy}` at `{destination}` does not say why the other side was not taken")
