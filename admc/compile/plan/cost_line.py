"""Compares the cost of a plan with the cost of a full mesh, in one line."""

from __future__ import annotations

from typing import Final

from admc.base.decimals import fixed, significant
from admc.compile.plan.model import Plan
from admc.cost.rows import AmountRow

_NANO: Final = 10**9
_MEGA: Final = 10**6
_DIGITS: Final = 3


def overhead_line(plan: Plan) -> str | None:
    """The line, or None for a plan without a profile."""
    if plan.overhead is None:
        return None
    own, mesh = plan.overhead.totals.plan, plan.overhead.totals.full_mesh
    parts = (
        _part("CPU", "cores", _NANO, own.cpu, mesh.cpu),
        _part("added latency", "ms in a second", _MEGA, own.latency_per_second, mesh.latency_per_second),
        _part("memory", "MB", _MEGA, own.memory, mesh.memory),
    )
    return f"overhead: {'; '.join(parts)}"


def _part(what: str, unit: str, size: int, own: AmountRow, mesh: AmountRow) -> str:
    if own.at_least and not own.value:
        return f"{what} unpriced"
    text = f"{amount_text(own, size)} {unit}" + (f" of {what}" if what == "memory" else "")
    if what == "added latency":
        text = f"{what} {text}"
    if own.at_least or mesh.at_least:
        # Without the whole sum there is no share to show.
        return f"{text} (a full mesh: {amount_text(mesh, size)})"
    if not mesh.value:
        return text
    return f"{text}, {fixed(100 * own.value / mesh.value, 0)}% of a full mesh"


def amount_text(amount: AmountRow, size: int) -> str:
    """The amount in units of `size`."""
    shown = significant(amount.value / size, _DIGITS)
    return f"at least {shown}" if amount.at_least else shown
