"""Computes the longest path of a request, exactly, for all outcomes of its chances.

    Step of a request, latencies of calls -> [Outcomes]

The times of steps that follow each other add up; among steps that run together, the longest time counts;
asynchronous steps take no time. The longest
path with ADMs may be another path than the longest one without them, and both depend on the same chances. So each
outcome has a time without ADMs and one or more times with them. The added latency is their difference within one
outcome, and never a difference of means or of maxima.

Outcomes with equal times are merged. `dsl.requests.outcomes` bounds the number of outcomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import comb
from operator import add
from typing import NamedTuple

from dsl.requests import Grouping, Step

Times = tuple[int, ...]
"""Nanoseconds of one outcome: first without ADMs, then with each of the given latencies of ADMs."""


class Outcomes(NamedTuple):
    """The times of all outcomes with their weights. The probability of an outcome is its weight divided by `total`."""

    weights: Mapping[Times, int]
    total: int

    def mean_added(self, at: int) -> float:
        """The mean of the time at index `at` less the time without ADMs: a sum of whole numbers, divided once."""
        return sum(weight * (times[at] - times[0]) for times, weight in self.weights.items()) / self.total

    def worst_added(self, at: int) -> int:
        return max(times[at] - times[0] for times in self.weights)


def outcomes(step: Step, latencies: Mapping[tuple[str, str, int], Sequence[int]]) -> Outcomes:
    """The outcomes of a step. `latencies` has one or more latencies of ADMs for each call, and each makes one time."""
    once = [_constant((step.work, *(step.work + latency for latency in latencies[step.call])))]
    for group in step.groups:
        inner = [outcomes(inner_step, latencies) for inner_step in group.steps if group.grouping is not Grouping.ASYNC]
        if group.grouping is Grouping.TOGETHER:
            once.append(_combined(inner, _longest))
        else:
            once += inner
    return _with_chance(_repeated(_combined(once, _added), step.times), step.chance)


def _constant(times: Times) -> Outcomes:
    return Outcomes({times: 1}, 1)


def _added(one: Times, other: Times) -> Times:
    return tuple(map(add, one, other))


def _longest(one: Times, other: Times) -> Times:
    return tuple(map(max, one, other))


def _combined(parts: Sequence[Outcomes], combine: Callable[[Times, Times], Times]) -> Outcomes:
    """All combinations of the outcomes of independent parts."""
    fixed = [next(iter(part.weights)) for part in parts if len(part.weights) == 1]
    # Parts without a chance come first, so that each of them is combined once, and not once for every outcome.
    ordered = [_constant(reduce(combine, fixed))] if fixed else []
    ordered += [part for part in parts if len(part.weights) > 1]
    return reduce(lambda one, other: _pairs(one, other, combine), ordered)


def _pairs(one: Outcomes, other: Outcomes, combine: Callable[[Times, Times], Times]) -> Outcomes:
    weights: dict[Times, int] = {}
    for times, weight in one.weights.items():
        for more, share in other.weights.items():
            both = combine(times, more)
            weights[both] = weights.get(both, 0) + weight * share
    return Outcomes(weights, one.total * other.total)


def _repeated(once: Outcomes, times: int) -> Outcomes:
    """The sums over independent repetitions. Only the number of repetitions with each outcome counts, not the order."""
    if times == 1:
        return once
    width = len(next(iter(once.weights)))
    partial_sums: list[tuple[int, Times, int]] = [(times, (0,) * width, 1)]
    for position, (path, weight) in enumerate(once.weights.items(), 1):
        last = position == len(once.weights)
        partial_sums = [
            (left - some, _added(before, tuple(some * time for time in path)), share * comb(left, some) * weight**some)
            for left, before, share in partial_sums
            for some in ((left,) if last else range(left + 1))
        ]
    weights: dict[Times, int] = {}
    for _, path, weight in partial_sums:
        weights[path] = weights.get(path, 0) + weight
    return Outcomes(weights, once.total**times)


def _with_chance(certain: Outcomes, chance: Fraction) -> Outcomes:
    if chance == 1:
        return certain
    weights = {times: weight * chance.numerator for times, weight in certain.weights.items()}
    absent = (0,) * len(next(iter(certain.weights)))
    weights[absent] = weights.get(absent, 0) + certain.total * (chance.denominator - chance.numerator)
    return Outcomes(weights, certain.total * chance.denominator)


def sync_calls(step: Step) -> Iterable[tuple[str, str, int]]:
    """The calls that a request waits for; a call may occur several times."""
    yield step.call
    for group in step.groups:
        for inner in group.steps if group.grouping is not Grouping.ASYNC else ():
            yield from sync_calls(inner)
