"""From predictions and measurements to errors, goals and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import geometric_mean, median
from typing import NamedTuple

from tests.bench.overhead.measure import Half
from tests.bench.overhead.predict import Cost, Prediction

MEDIAN = 0.10
OF_NAIVE = 2 / 3
NINETIETH = 0.25
SPAN = 5.0
HELD = 19 / 24
HALVES = 0.05
"""The two halves may differ by so much, in the median."""


class Row(NamedTuple):
    """One sidecar. `naive` is what each naive predictor says of it."""

    title: str
    halves: tuple[Half, ...]
    predicted: Prediction
    naive: Mapping[str, Cost]

    def measured(self, quantity: str) -> float:
        return sum(float(getattr(half.sidecar, quantity)) for half in self.halves) / len(self.halves)


class Factors(NamedTuple):
    """What the reference took, through what a predictor says of it: one factor for a run, the mean over its rates."""

    own: Cost
    naive: Mapping[str, Cost]


def factors(rows: Sequence[Row], predicted: Sequence[Cost], naive: Mapping[str, Sequence[Cost]]) -> Factors:
    """`predicted` and `naive` say what each reference takes, in the order of `Half.references`."""
    halves = [half for row in rows for half in row.halves]
    taken = [
        Cost(*(median(getattr(half.references[at], name) for half in halves) for name in Cost._fields))
        for at in range(len(predicted))
    ]
    return Factors(_through(taken, predicted), {name: _through(taken, each) for name, each in naive.items()})


def _through(taken: Sequence[Cost], said: Sequence[Cost]) -> Cost:
    return Cost(*(_mean_ratio([(one[at], other[at]) for one, other in zip(taken, said, strict=True)]) for at in (0, 1)))


def _mean_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """The geometric mean; what is measured as nothing, or predicted as nothing, has no ratio."""
    ratios = [one / other for one, other in pairs if one > 0 and other > 0]
    return geometric_mean(ratios) if ratios else 1.0


def error(predicted: float, measured: float) -> float:
    return abs(predicted - measured) / measured if measured > 0 else float("inf")


class Judged(NamedTuple):
    """The result for one quantity: `cpu` or `latency`."""

    median: float
    ninetieth: float
    uncorrected: float
    """The median error without the factor."""
    naive: Mapping[str, float]
    """The median error of each naive predictor, with a factor of its own."""
    held: int
    of: int
    span: float
    halves: float
    """By how much the halves differ, in the median."""

    @property
    def conclusive(self) -> bool:
        return self.halves <= HALVES

    @property
    def goals(self) -> Mapping[str, bool]:
        best = min(self.naive.values())
        return {
            f"median error {self.median:.1%}, at most {MEDIAN:.0%}": self.median <= MEDIAN,
            f"and at most two thirds of the best naive one ({best:.1%})": self.median <= OF_NAIVE * best,
            f"90th percentile {self.ninetieth:.1%}, at most {NINETIETH:.0%}": self.ninetieth <= NINETIETH,
            f"measured costs span {self.span:.1f}x, at least {SPAN:g}x": self.span >= SPAN,
            f"the interval holds {self.held} of {self.of}, at least {HELD * self.of:.0f}": self.held >= HELD * self.of,
        }

    @property
    def verdict(self) -> str:
        if not self.conclusive:
            return "inconclusive"
        return "passed" if all(self.goals.values()) else "failed"


def judged(rows: Sequence[Row], quantity: str, found: Factors) -> Judged:
    factor = getattr(found.own, quantity)
    values = [getattr(row.predicted.value, quantity) for row in rows]
    costs = [row.measured(quantity) for row in rows]
    errors = sorted(error(value * factor, cost) for value, cost in zip(values, costs, strict=True))
    positive = [cost for cost in costs if cost > 0]
    return Judged(
        median=median(errors),
        ninetieth=errors[min(len(errors) - 1, int(0.9 * len(errors)))],
        uncorrected=median(error(value, cost) for value, cost in zip(values, costs, strict=True)),
        naive={
            name: median(
                error(getattr(row.naive[name], quantity) * getattr(found.naive[name], quantity), cost)
                for row, cost in zip(rows, costs, strict=True)
            )
            for name in found.naive
        },
        held=sum(_held(row, quantity, factor) for row in rows),
        of=len(rows),
        span=max(positive) / min(positive) if positive else 0.0,
        halves=median(_apart(row, quantity) for row in rows),
    )


def _held(row: Row, quantity: str, factor: float) -> bool:
    low, high = row.predicted.low, row.predicted.high
    if low is None or high is None:
        return False
    return bool(getattr(low, quantity) * factor <= row.measured(quantity) <= getattr(high, quantity) * factor)


def _apart(row: Row, quantity: str) -> float:
    values = [getattr(half.sidecar, quantity) for half in row.halves]
    middle = sum(values) / len(values)
    return (max(values) - min(values)) / middle if middle > 0 else float("inf")
