"""Gates, resolved.

    text -> syntax tree -> [Gate] -> GateResult

`docs/diff.md` explains each measure.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from dsl.text import Span


class Measure(StrEnum):
    """The measures of a difference that do not count findings."""

    ADMS = "adms"
    SIDECARS = "sidecars"
    RESTARTS = "restarts"
    GAP = "gap"
    CPU = "cpu"
    MEMORY = "memory"
    LATENCY = "latency"


FINDINGS: Final = (
    *("weaker", "lost", "narrowed", "loosened", "rests_on_more", "reordered", "unclear"),
    *("stricter", "refused", "gained", "widened", "tightened", "rests_on_less"),
    "gone",
)
"""Measures that count findings by their word (`admc.review.diff.model.Word`).

`weaker` counts all findings of the words that follow it in the first row, `stricter` those of the second. `gone` counts
policies that are gone with their call.
"""
MEASURES: Final = (*FINDINGS, *Measure)
COSTS: Final = (Measure.CPU, Measure.MEMORY, Measure.LATENCY)
OF_THE_CHANGE: Final = frozenset((*FINDINGS, Measure.RESTARTS))
"""Measures of the change itself, which have no value in BASE."""


class Limit(NamedTuple):
    value: Fraction
    """A figure in the unit of the measure (nano-cores, bytes, nanoseconds or a number), or a share: 0.1 for 10%.

    A limit of `gap` is always a share.
    """
    added: bool
    """True: a limit of the change from BASE to HEAD. False: a limit of HEAD's figure."""
    percent: bool
    """True: `value` is a share of BASE's figure."""
    text: str
    """The limit as it stands in the gate."""


class Gate(NamedTuple):
    name: str
    fails: bool
    measure: str
    limit: Limit | None
    """None: any increase of the measure breaches the gate."""
    span: Span

    @property
    def condition(self) -> str:
        return self.measure if self.limit is None else f"{self.measure} > {self.limit.text}"
