"""Whether a plan agrees with its program and with its own decisions.

A plan repeats parts of its program, and its ADMs, enforcements and assumptions follow from its decisions. A review
relies on all of these, so a plan in which one was edited is not served. Reasons and warnings are texts for a reader;
they may be other ones in another release, and nothing is derived from them.
"""

from __future__ import annotations

from dataclasses import replace

from admc.compile.plan.model import Plan
from admc.compile.plan.to_json import row_text
from dsl.collector import no_collection

COMPARED = ("services", "externals", "calls", "policies", "adms", "enforcements", "decisions", "closed", "assumptions")


@no_collection()
def disagreement(plan: Plan, anew: Plan) -> str | None:
    """What of a plan differs from the plan that its program and its decisions give `anew`; None if nothing does.

    Both have services, calls and the content of policies.
    """
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
    """The rows without what may be another one in another release: reasons and costs."""
    if name == "adms":
        return [replace(row, because=(), overhead=None) for row in plan.adms]
    if name == "decisions":
        return [replace(row, not_taken=()) for row in plan.decisions]
    return list(getattr(plan, name))
