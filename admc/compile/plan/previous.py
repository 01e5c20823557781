"""Turns an earlier plan into input of the solver, so that a new placement changes as little as possible."""

from __future__ import annotations

from admc.compile.plan.model import Plan
from dsl.program import Place, Program
from solver.placement import ObjectiveValue, Previous


def previous_of(plan: Plan, program: Program) -> Previous:
    """The plan as the earlier plan for a placement of `program`."""
    digests = {item.path: item.sha256 for item in program.inputs}
    same = {item.path: item.sha256 for item in plan.inputs} == digests
    return Previous(
        places_of(plan),
        frozenset(adm.service for adm in plan.adms),
        levels_of(plan) if same else (),
    )


def places_of(plan: Plan) -> dict[tuple[str, str], Place]:
    """The place of each decision, by policy and destination."""
    return {(decision.policy, decision.destination): decision.place for decision in plan.decisions}


def levels_of(plan: Plan) -> tuple[ObjectiveValue, ...]:
    """The levels of a plan; what no profile can tell counts as nothing."""
    return tuple(ObjectiveValue(level.metric, level.value or 0, level.bound or 0) for level in plan.solver.objectives)
