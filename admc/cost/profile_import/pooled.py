"""Moves the figures of a component at several rates towards their mean, as far as chance explains their differences.

    figures of a component, costs of the bare hop -> [pooled] -> figures of the component

The cost of a cheap component is a small difference of two large figures. At low rates the difference is mostly chance,
since the proxy is cold and a slice has few requests; at high rates it is certain. As a part of the cost of the bare hop
at the same rate, the cost of a component differs far less from rate to rate. So these parts are taken for random draws
around a mean (the random-effects model of DerSimonian and Laird, Controlled Clinical Trials 7, 1986). Each part is
moved towards the mean: the further, the less certain it is, and the better the parts agree. Parts that differ by more
than chance explains stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from admc.cost.profile_import.estimates import Estimate


class _Part(NamedTuple):
    """The cost of a component at one rate, as a part of the cost of the bare hop at this rate."""

    value: Fraction
    variance: Fraction


def pooled(measured: Sequence[Estimate], hop: Sequence[Fraction | None]) -> list[Estimate]:
    """Move the figures of a component at rising rates towards their mean. `hop` has the costs of the bare hop.

    A figure stays if the hop has no cost at its rate. All figures stay if the variance of one is unknown or zero, since
    the runs then do not show how far chance goes, and if fewer than two can be compared."""
    at = [index for index, cost in enumerate(hop) if cost]
    parts = [
        _Part(estimate.median / cost, estimate.variance / cost**2)
        for estimate, cost in zip(measured, hop, strict=True)
        if cost and estimate.variance
    ]
    if len(parts) < max(2, len(at)):
        return list(measured)
    estimates = list(measured)
    for index, part in zip(at, _drawn_together(parts), strict=True):
        estimates[index] = estimates[index].moved(part * (hop[index] or 0))
    return estimates


def _drawn_together(parts: Sequence[_Part]) -> list[Fraction]:
    between = _between(parts)
    mean = _mean(parts, between)
    return [(part.value * between + mean * part.variance) / (between + part.variance) for part in parts]


def _mean(parts: Sequence[_Part], between: Fraction) -> Fraction:
    weights = [1 / (part.variance + between) for part in parts]
    return _sum(weight * part.value for weight, part in zip(weights, parts, strict=True)) / _sum(weights)


def _between(parts: Sequence[_Part]) -> Fraction:
    """The variance of the true parts from rate to rate: that of the measured parts, less the effect of chance."""
    mean = _mean(parts, Fraction(0))
    weights = [1 / part.variance for part in parts]
    apart = _sum(weight * (part.value - mean) ** 2 for weight, part in zip(weights, parts, strict=True))
    scale = _sum(weights) - _sum(weight**2 for weight in weights) / _sum(weights)
    return max(Fraction(0), (apart - (len(parts) - 1)) / scale)


def _sum(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))
