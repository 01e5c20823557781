"""Groups runs by arm, protocol and turn, since arms are compared within one turn.

Run after Run -> [Runs] -> Differences: a value for each turn, rate and size
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from statistics import median
from typing import NamedTuple

from admc.cost.profile_import.estimates import middles, units
from admc.cost.profile_import.runs import Arm, Run
from admc.cost.profiles.profile import CPU, LATENCY, Sizes
from dsl.program import Protocol

Cell = tuple[Decimal, Decimal]
"""Rate and size."""


class Value(NamedTuple):
    """A measured quantity, or the difference of two."""

    amount: int
    """In units of `1 / UNIT` (`estimates`)."""
    stolen: float | None
    """The part of the time of all cores that the host took away during the slice; None if it was not measured."""


Differences = Mapping[str, Mapping[Cell, Value]]
"""Values, or differences of values, by turn and cell."""


class Runs:
    """Runs by arm and protocol. Several slices of one arm in a turn become their median."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._values: dict[tuple[Arm, Protocol | None, str], dict[str, dict[Cell, list[Value]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )
        self._medians: dict[tuple[Arm, Protocol | None, str], Differences] = {}
        for run in runs:
            cell = (run.rate or Decimal(0), run.size or Decimal(0))
            stolen = None if run.stolen is None else float(run.stolen)
            for quantity, value in ((LATENCY, run.latency), (CPU, run.cpu), ("memory", run.memory)):
                if value is not None:
                    self._values[run.arm, run.protocol, quantity][run.turn][cell].append(Value(units(value), stolen))

    def of(self, arm: Arm, protocol: Protocol | None, quantity: str) -> Differences:
        key = arm, protocol, quantity
        medians = self._medians.get(key)
        if medians is None:
            turns = self._values.get(key, {})
            medians = self._medians[key] = {
                turn: {cell: _middle(values) for cell, values in cells.items()} for turn, cells in turns.items()
            }
        return medians


def _middle(values: Sequence[Value]) -> Value:
    if len(values) == 1:
        return values[0]
    return Value(middles([value.amount for value in values]) // 2, share_of(values, median))


def share_of(values: Sequence[Value], one: Callable[[Sequence[float]], float]) -> float | None:
    """`one` (a mean or a median) of the parts that the host took away; None if one of them was not measured."""
    shares = [value.stolen for value in values if value.stolen is not None]
    return one(shares) if len(shares) == len(values) else None


def turns_of(*differences: Differences) -> set[str]:
    return {turn for by_turn in differences for turn in by_turn}


def range_of(sizes: Collection[Decimal]) -> Sizes | None:
    return Sizes(min(sizes), max(sizes), min(sizes)) if sizes else None
