"""Checks the figures of one hop or component, so that the estimates of the solver err on the safe side.

    HopCost or ComponentCost -> [Problem], or None

The CPU of a request must not rise with the rate. The solver takes each hop at the hop's own rate, and the sidecar works
at the sum of the rates of its hops. So the solver's figure is an upper bound of the model's, and rule R9 (capacity)
relies on that. The parts of a hop also have to add up to `whole`, no cost is negative for the smallest messages, and
there are at most `MAX_RATES` rates. Only the first problem is returned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal, localcontext
from itertools import pairwise
from math import fsum
from typing import Final, NamedTuple

from admc.cost.profiles.law import ROUNDING, Function, function
from admc.cost.profiles.profile import (
    CPU,
    MAX_RATES,
    QUANTITIES,
    WHOLE,
    ComponentCost,
    Curve,
    HopCost,
    Law,
    Sizes,
    law,
)

_EXACT: Final = Context(prec=200)


class Problem(NamedTuple):
    code: str
    message: str
    hint: str | None = None
    cause: str | None = None


def hop_problem(hop: HopCost) -> Problem | None:
    for quantity in QUANTITIES:
        laws = [part_law for part in hop.shares(quantity) if (part_law := law(part, quantity)) is not None]
        problem = _sum_problem(hop, quantity) or _problem(hop.title, quantity, laws, hop.sizes)
        if problem is not None:
            return problem
    return None


def _sum_problem(hop: HopCost, quantity: str) -> Problem | None:
    """A problem if the other parts do not add up to `whole` at each rate, to the last digit."""
    whole = None if hop.whole is None else law(hop.whole, quantity)
    parts = hop.shares(quantity)
    if whole is None or hop.whole in parts:
        return None
    laws = [law(part, quantity) for part in parts]
    for subject, curve, others in (
        ("", whole.base, [None if part_law is None else part_law.base for part_law in laws]),
        ("a byte in ", whole.per_byte, [None if part_law is None else part_law.per_byte for part_law in laws]),
    ):
        if curve is None and not any(others):
            continue
        if _knots(curve) != _sum_of_knots(others):
            return Problem(
                "ADM862",
                f"the parts of {subject}the {_noun(quantity)} of {hop.title} do not add up to its part `{WHOLE}`",
                f"`{WHOLE}` stands for all parts together: give each the same rates, and figures that add up exactly",
            )
    return None


def _knots(curve: Curve | None) -> dict[Decimal | None, Decimal]:
    return {knot.rate: knot.value for knot in curve or ()}


def _sum_of_knots(curves: Sequence[Curve | None]) -> dict[Decimal | None, Decimal] | None:
    """The sum of the curves at each rate; None if the curves have different rates, or if only some parts have one."""
    knots = [_knots(curve) for curve in curves]
    if any(figures.keys() != knots[0].keys() for figures in knots):
        return None
    with localcontext(_EXACT):
        return {rate: sum((figures[rate] for figures in knots), Decimal(0)) for rate in knots[0]}


def component_problem(cost: ComponentCost) -> Problem | None:
    for quantity in QUANTITIES:
        component_law = law(cost, quantity)
        problem = _problem(cost.title, quantity, [] if component_law is None else [component_law], cost.sizes)
        if problem is not None:
            return problem
    return None


def unclear(one: ComponentCost, other: ComponentCost) -> bool:
    """Whether a policy may fit both entries, and neither is more specific: equally many arguments, but others."""
    if (one.component, one.protocol, one.side, one.kind) != (other.component, other.protocol, other.side, other.kind):
        return False
    names, others = (cost.arguments.keys() for cost in (one, other))
    return len(names) == len(others) and names != others


def _problem(what: str, quantity: str, laws: Sequence[Law], sizes: Sizes | None) -> Problem | None:
    if sizes is None and any(cost_law.per_byte is not None for cost_law in laws):
        return Problem("ADM862", f"{what} has a cost of each byte, but no sizes", "give `sizes`")
    functions = [function(quantity, cost_law, sizes) for cost_law in laws]
    rates = _rates(functions)
    if len(rates) > MAX_RATES:
        hint = "give the figures of all parts at the same rates"
        return Problem("ADM862", f"the {_noun(quantity)} of {what} has more than {MAX_RATES} rates", hint)
    smallest = None if sizes is None else int(sizes.low)
    costs, bases = (_costs(functions, rates, size) for size in (smallest, None))
    if any(
        cost < -ROUNDING * base
        for at_rate in zip(costs, bases, strict=True)
        for cost, base in zip(*at_rate, strict=True)
    ):
        return Problem(
            "ADM862",
            f"the {_noun(quantity)} of {what} is negative for messages of {smallest} bytes",
            cause="`per_byte` below the reference size takes more than `base`",
        )
    if quantity != CPU:
        return None
    # If neither the cost at the smallest size nor the cost of a byte rises, then the cost rises at no size.
    slopes = [
        cost_function._replace(base=cost_function.slope, slope=None)
        for cost_function in functions
        if cost_function.slope is not None
    ]
    bytes_ = _costs(slopes, rates, None)
    for subject, values, compared in (("the CPU of a request", costs, bases), ("the CPU of a byte", bytes_, bytes_)):
        risen = _risen(rates, *([fsum(at_rate) for at_rate in by_rate] for by_rate in (values, compared)))
        if risen is not None:
            return Problem(
                "ADM867",
                f"{subject} of {what} rises with the rate, at {risen:g}/s",
                "measure longer; `admc profile fit` merges the figures of neighbouring rates that do so",
                "the solver takes each hop at its own rate, and would then expect less than the cost",
            )
    return None


def _costs(functions: Sequence[Function], rates: Sequence[float], size: int | None) -> list[list[float]]:
    """The costs by all functions, for each rate."""
    return [[priced.estimate(rate, size).amount.value for priced in functions] for rate in rates]


def _risen(rates: Sequence[float], values: Sequence[float], compared: Sequence[float]) -> float | None:
    """The first rate whose value exceeds that of the previous rate by more than the rounding error of `compared`."""
    steps = zip(rates[1:], pairwise(values), compared[1:], strict=True)
    return next((rate for rate, (one, other), scale in steps if other - one > ROUNDING * scale), None)


def _noun(quantity: str) -> str:
    return "CPU" if quantity == CPU else quantity


def _rates(functions: Iterable[Function]) -> list[float]:
    """All rates of the knots, ascending; any one rate if the source states none.

    It is enough to check these rates: between two of them each figure is linear in the logarithm of the rate, and so
    is the sum."""
    lines = [
        line for cost_function in functions for line in (cost_function.base, cost_function.slope) if line is not None
    ]
    return sorted({rate for line in lines for rate in line.rates or ()}) or [1.0]
