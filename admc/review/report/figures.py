"""Amounts of an estimate as text and as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from admc.base.decimals import significant
from admc.cost.rows import AmountRow
from admc.review.report.model import Bar

DIGITS: Final = 3
_PLACES: Final = 5
"""The digits of the fraction of a bar: enough for a hundredth of a pixel."""


class Unit(NamedTuple):
    name: str
    size: int


CORES: Final = Unit("cores", 10**9)
MEMORY: Final = Unit("MB", 10**6)
LATENCY: Final = Unit("ms in a second", 10**6)
LATENCY_OF_CALL: Final = Unit("us", 1000)


class Measured(NamedTuple):
    """The amount of one bar; None if the profile has no figure."""

    label: str
    amount: AmountRow | None
    look: str = ""
    node: int | None = None


def amount_text(amount: AmountRow | None, unit: Unit) -> str:
    """`0.114 cores [0.1 to 0.13]`, `at least 0.114 cores`. `at least 0` would say nothing: `no figure`."""
    if amount is None or (amount.at_least and not amount.value):
        return "no figure"
    text = f"{_number(amount.value, unit)} {unit.name}".strip()
    if amount.at_least:
        return f"at least {text}"
    if amount.interval is None or amount.interval[0] == amount.interval[1]:
        return text
    low, high = (_number(int(end), unit) for end in amount.interval)
    return f"{text} [{low} to {high}]"


def bars(measured: Sequence[Measured], unit: Unit) -> tuple[Bar, ...]:
    """A bar for each amount, all to one scale. The texts have no unit: the title of the bars has it."""
    longest = max((_end(figure.amount) for figure in measured), default=0)
    return tuple(_bar(figure, Unit("", unit.size), longest) for figure in measured)


def counts(measured: Sequence[tuple[str, int, str]]) -> tuple[Bar, ...]:
    """Bars of whole numbers: label, number, look."""
    longest = max((number for _label, number, _look in measured), default=0)
    return tuple(Bar(label, f"{number:,}", fraction(number, longest), look=look) for label, number, look in measured)


def _bar(measured: Measured, unit: Unit, longest: int) -> Bar:
    amount = measured.amount
    text = amount_text(amount, unit)
    if amount is None:
        return Bar(measured.label, text, 0.0, None, None, measured.look, measured.node)
    low = high = None
    if amount.interval is not None and not amount.at_least and amount.interval[0] != amount.interval[1]:
        low, high = (fraction(int(end), longest) for end in amount.interval)
    return Bar(measured.label, text, fraction(amount.value, longest), low, high, measured.look, measured.node)


def _end(amount: AmountRow | None) -> int:
    if amount is None:
        return 0
    return amount.value if amount.interval is None or amount.at_least else max(amount.value, int(amount.interval[1]))


def fraction(value: int, longest: int) -> float:
    """The share of the longest bar."""
    return round(min(1.0, max(0, value) / longest), _PLACES) if longest else 0.0


def _number(value: int, unit: Unit) -> str:
    return significant(value / unit.size, DIGITS)
