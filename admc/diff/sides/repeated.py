"""What a plan repeats of its program, made anew: a plan of which it has another value is not that program's plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from admc.plan.model import Plan

_FIELDS: Final = (
    "app",
    "inputs",
    "services",
    "externals",
    "calls",
    "policies",
    "adms",
    "enforcements",
    "decisions",
    "closed",
    "assumptions",
    "warnings",
    "profile",
    "overhead",
)


def first_difference(plan: Plan, anew: Plan) -> str | None:
    """The first field of a plan that has another value than made anew; None if none has.

    Reasons are left out, since a placement that was read has none: they say why a side was taken, and not what follows.
    """
    one, other = _without_reasons(plan), _without_reasons(recorded_as(plan, anew))
    return next((name for name in _FIELDS if getattr(one, name) != getattr(other, name)), None)


def recorded_as(plan: Plan, anew: Plan) -> Plan:
    """A plan with only what an earlier one records, which may be of a version before 3."""
    if plan.services is not None:
        return anew
    policies = tuple(row._replace(content=None) for row in anew.policies)
    return replace(anew, services=None, externals=None, calls=None, policies=policies)


def _without_reasons(plan: Plan) -> Plan:
    return replace(
        plan,
        adms=tuple(adm._replace(because=()) for adm in plan.adms),
        decisions=tuple(
            decision._replace(not_taken=tuple(each._replace(reason="", message=None, lines=()) for each in decision.not_taken))
            for decision in plan.decisions
        ),
    )
