"""Explains a choice of the objective by the cost of another place, according to the profile."""

from __future__ import annotations

from typing import Final

from admc.base.decimals import significant
from dsl.program import Metric, Place
from solver.alternatives import Alternatives
from solver.placement import Decision

_NANO: Final = 10**9
_MILLI: Final = 10**6
_DIGITS: Final = 3


def cost_of_choice(alternatives: Alternatives, decision: Decision, place: Place) -> str | None:
    """The additional cost of `place` as the end of a sentence, or None if another level of the objective decided."""
    difference = alternatives.difference(decision, place)
    if difference is None or difference.more <= 0:
        return None
    if difference.metric in (Metric.CPU, Metric.OVERHEAD):
        return f"it would cost {significant(difference.more / _NANO, _DIGITS)} cores more"
    if difference.metric == Metric.LATENCY:
        return f"it would add {significant(difference.more / _MILLI, _DIGITS)} ms of latency in each second"
    return None
