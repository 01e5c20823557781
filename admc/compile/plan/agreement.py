"""Checks that a plan agrees with its program and with its own decisions.

A plan repeats parts of its program, and its ADMs, enforcements and assumptions follow from its decisions. A review
relies on all of these parts, so the server does not serve a plan in which a part was edited. Reasons, warnings and
costs are not compared: they are for a reader, another release may word or compute them differently, and no other part
is derived from them. Inputs, the solver and the profile are not compared here either.
"""

from __future__ import annotations

from dataclasses import replace

from admc.compile.plan.model import Plan
from admc.compile.plan.to_json import row_text
from dsl.collector import no_collection

COMPARED = ("services", "externals", "calls", "policies", "adms", "enforcements", "decisions", "closed", "assumptions")


@no_collection()
def disagreement(plan: Plan, anew: Plan) -> str | None:
    """The first part of a plan that differs from the plan `anew`, which is built from the program and the decisions of
    the plan; None if `app` and the parts of `COMPARED` are equal."""
    if plan.app != anew.app:
        return f"its `app` is `{plan.app}`, and that of the program is `{anew.app}`"
    for name in COMPARED:
        for index, (one, other) in enumerate(zip(_rows(plan, name), _rows(anew, name), strict=False)):
            if row_text(one) != row_text(other):
                return f"its `{name}[{index}]` is another one than the program gives"
        given, wanted = len(getattr(plan, name)), len(getattr(anew, name))
        if given != wanted:
            return f"it has {given} `{name}`, and the program gives {wanted}"
    return None


def _rows(plan: Plan, name: str) -> list[object]:
    """The rows of a part, without their reasons and costs."""
    if name == "adms":
        return [replace(row, because=(), overhead=None) for row in plan.adms]
    if name == "decisions":
        return [replace(row, not_taken=()) for row in plan.decisions]
    return list(getattr(plan, name))
