"""The cost of all ADMs on both sides, if both use one profile: figures of two profiles are not comparable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.cost.rows import AmountRow
from admc.review.diff.model import Cost, CostLine

if TYPE_CHECKING:
    from admc.compile.plan.model import Plan
    from admc.cost.rows import TotalsRow

NO_PROFILE: Final = "no profile"
TWO_PROFILES: Final = "two profiles"
NO_BASE: Final = "no plan of BASE"
_METRICS: Final = ("cpu", "memory", "latency_per_second")
_NOTHING: Final = AmountRow(0, None, False)


def cost(base: Plan | None, head: Plan, *, new: bool) -> Cost:
    """The cost of both sides. `base` is None without a plan of BASE; `new`: BASE has no program and costs nothing."""
    if head.profile is None or head.overhead is None:
        return Cost(NO_PROFILE, None, ())
    before = None
    if base is not None:
        if base.profile is None or base.overhead is None:
            return Cost(NO_PROFILE, None, ())
        if base.profile.sha256 != head.profile.sha256:
            return Cost(TWO_PROFILES, None, ())
        before = base.overhead.totals.plan
    elif not new:
        return Cost(NO_BASE, None, ())
    after = head.overhead.totals.plan
    return Cost(None, head.profile, tuple(_line(metric, before, after) for metric in _METRICS))


def _line(metric: str, before: TotalsRow | None, after: TotalsRow) -> CostLine:
    old: AmountRow = _NOTHING if before is None else getattr(before, metric)
    new: AmountRow = getattr(after, metric)
    return CostLine(metric, old, new, new.value - old.value)
