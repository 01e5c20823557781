"""Gates, resolved.

text -> syntax tree -> [Gate] -> result

`docs/diff.md` says what each measure counts.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from dsl.text import Span


class Measure(StrEnum):
    """What is measured of a difference besides findings."""

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
"""Names that count findings of `admc.review.diff.model.Word`; `weaker` and `stricter` stand for all that follow them,
and `gone` for policies that go with their call."""
MEASURES: Final = (*FINDINGS, *Measure)
COSTS: Final = (Measure.CPU, Measure.MEMORY, Measure.LATENCY)
OF_THE_CHANGE: Final = frozenset((*FINDINGS, Measure.RESTARTS))
"""Measures of the change itself, which have no value in BASE."""


class Limit(NamedTuple):
    value: Fraction
    """In the unit of the measure: nano-cores, bytes, nanoseconds, or a number; of a percentage, hundredths. A limit of
    `gap` is in hundredths, too."""
    added: bool
    """It limits the change, and not what HEAD has."""
    percent: bool
    """It is a share of what BASE has."""
    text: str
    """As the gate has it."""


class Gate(NamedTuple):
    name: str
    fails: bool
    measure: str
    limit: Limit | None
    """None: any."""
    span: Span

    @property
    def condition(self) -> str:
        return self.measure if self.limit is None else f"{self.measure} > {self.limit.text}"
