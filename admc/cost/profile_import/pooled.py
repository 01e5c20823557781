"""The figures of a component at several rates, drawn together as far as chance explains how they differ.

A component that costs next to nothing is measured as a difference of two large figures. At low rates a proxy is cold
and a slice has few requests, so the difference is chance; at high rates it is small and certain. As a part of what the
bare hop takes at the same rate it differs far less from rate to rate. So these parts are taken as draws around a mean
of the component (the random-effects model of DerSimonian and Laird, Controlled Clinical Trials 7, 1986): each moves
towards the mean, the further the less certain it is and the better the others agree. Parts that differ by more than
chance stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from admc.cost.profile_import.estimates import Estimate


class _Part(NamedTuple):
    """What a component takes at one rate, as a part of what the bare hop takes there."""

    value: Fraction
    variance: Fraction


def pooled(measured: Sequence[Estimate], hop: Sequence[Fraction | None]) -> list[Estimate]:
    """The figures of a component at rising rates, and what a bare hop takes at each.

    A figure stays where the hop has none, and so do all where the variance of one is not known, or zero: then the runs
    do not say how far chance goes."""
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
    """The variance of the true parts from rate to rate: what is left of their differences without chance."""
    mean = _mean(parts, Fraction(0))
    weights = [1 / part.variance for part in parts]
    apart = _sum(weight * (part.value - mean) ** 2 for weight, part in zip(weights, parts, strict=True))
    scale = _sum(weights) - _sum(weight**2 for weight in weights) / _sum(weights)
    return max(Fraction(0), (apart - (len(parts) - 1)) / scale)


def _sum(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))
