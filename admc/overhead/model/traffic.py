"""What passes a hop: rates by size, the weights of calls, and connections."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache
from math import lcm

from admc.overhead.model.layout import LoadedHop
from admc.overhead.model.prices import Traffic
from dsl.program import Program


def traffic(program: Program, calls: Iterable[int]) -> Traffic:
    """What some calls carry together."""
    by_size: dict[int | None, Fraction] = {}
    number = unrated = 0
    for index in calls:
        call = program.calls[index]
        number += 1
        if call.rate is None:
            unrated += 1
        else:
            rate = exact_rate(call.rate)
            by_size[call.size] = by_size[call.size] + rate if call.size in by_size else rate
    return Traffic(sum(by_size.values(), Fraction(0)), by_size, number, unrated)


def connections(program: Program, hop: LoadedHop) -> int:
    """Connections of callers to all replicas, one for each replica of a caller: the fewest that there are."""
    sources = [program.calls[index].source for index in hop.calls]
    return sum(program.services[name].replicas if name in program.services else 1 for name in sources)


@cache
def exact_rate(rate: float) -> Fraction:
    """The shortest decimal of a rate: 6/m is 0.1, and not the binary fraction next to it."""
    return Fraction(repr(rate))


def weights_of(program: Program, calls: Iterable[int]) -> list[int]:
    """Rates as whole weights; a call without a rate counts as 1/s."""
    rates = [Fraction(1) if (rate := program.calls[index].rate) is None else exact_rate(rate) for index in calls]
    over = lcm(*(rate.denominator for rate in rates))
    return [rate.numerator * (over // rate.denominator) for rate in rates]
