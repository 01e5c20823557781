"""Gates, resolved.

text -> syntax tree -> [Gate] -> result

`docs/diff.md` says what each measure counts.
"""

from __future__ import annotations

from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from admc.diff.model import STRICTER, WEAKER, Word
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


FINDINGS: Final[dict[str, tuple[Word, ...]]] = {
    "weaker": WEAKER,
    "stricter": STRICTER,
    **{word.replace(" ", "_"): (word,) for word in Word if word is not Word.GONE_WITH_ITS_CALL},
}
"""Names that count findings -> the words counted."""
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
