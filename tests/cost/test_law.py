"""The arithmetic of a law: figures as measured, others between them, and no request dearer at a higher rate."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.base import decimals
from admc.cost.profile_import import estimates
from admc.cost.profiles import amounts, vocabulary, write
from admc.cost.profiles.law import ROUNDING, Amount, Function, function, independent, logarithm, of_knots, total
from admc.cost.profiles.profile import CPU, LATENCY, law
from tests.cost.documents import profile

HOP = profile().hops[0]


def _function(quantity: str, part: int = 0) -> Function:
    found = law(HOP.parts[part], quantity)
    assert found is not None
    return function(quantity, found, HOP.sizes)


def test_cpu_of_a_request_is_cores_divided_by_the_rate() -> None:
    found = _function(CPU)
    measured = {5: "0.00144", 20: "0.0009", 100: "0.00064", 400: "0.00029", 1600: "0.00022"}
    for rate, seconds in measured.items():
        assert found.estimate(rate, 100).amount.value == pytest.approx(float(seconds), rel=1e-15)


@pytest.mark.parametrize("quantity", [CPU, LATENCY])
def test_a_figure_is_linear_in_the_logarithm_of_the_rate_between_two_knots(quantity: str) -> None:
    found = _function(quantity)
    low, middle, high = (found.estimate(rate, 100).amount.value for rate in (20, 60, 100))
    assert high < low
    share = math.log(60 / 20) / math.log(100 / 20)
    assert middle == pytest.approx(low + (high - low) * share)


@given(st.floats(0.001, 1e9), st.floats(0.001, 1e9))
def test_logarithms_rise_with_the_rate(one: float, other: float) -> None:
    low, high = (logarithm(rate) for rate in sorted((one, other)))
    assert low <= high
    assert low == pytest.approx(math.log(min(one, other)), rel=1e-14)


def test_rates_that_are_nearly_the_same_have_a_figure_between_them() -> None:
    near = math.nextafter(math.nextafter(100, math.inf), math.inf)
    line = of_knots((100.0, near), (Amount(7.0, 6.0, 8.0), Amount(5.0, 4.0, 6.0)))
    for rate in (100.0, math.nextafter(100, math.inf), near):
        amount, outside = line.at(rate)
        assert 5 <= amount.value <= 7
        assert not outside


@pytest.mark.parametrize(("rate", "expected", "outside"), [(4, 800, True), (5, 800, False), (1600, 200, False)])
def test_outside_the_knots_the_nearest_one_stands(rate: int, expected: int, outside: bool) -> None:
    found = _function(LATENCY).estimate(rate, None)
    assert (found.amount.value, found.rate_outside) == (expected, outside)


def test_bytes() -> None:
    found = _function(LATENCY)
    rate = 5.0
    assert found.estimate(rate, 1100).amount.value == 802
    assert not found.estimate(rate, 65_536).size_outside
    assert found.estimate(rate, 65_537).size_outside
    # Below the smallest measured size, a request costs as much as one of that size.
    small = found.estimate(rate, 1)
    assert (small.amount.value, small.size_outside) == (800, True)
    flat = _function(LATENCY, 1)
    assert (flat.estimate(rate, 100).no_slope, flat.estimate(rate, 101).no_slope) == (False, True)


def test_a_size_below_the_reference_turns_the_interval_of_the_slope_round() -> None:
    def change(document: dict[str, object]) -> None:
        hops = document["hops"]
        assert isinstance(hops, list)
        hops[0]["sizes"] = {"low": 100, "high": 65536, "reference": 1100}

    hop = profile(change).hops[0]
    found = law(hop.parts[0], LATENCY)
    assert found is not None
    amount = function(LATENCY, found, hop.sizes).estimate(5, 100).amount
    assert amount.value == 798
    # 80 us of the base and 0.2 us of 1,000 bytes
    assert amount.low is not None
    assert amount.high is not None
    error = (80**2 + 0.2**2) ** 0.5
    assert amount.low == pytest.approx(798 - error)
    assert amount.high == pytest.approx(798 + error)


def test_squares_of_independent_errors_add_up() -> None:
    found = independent((Amount(10, 7, 14), Amount(20, 16, 23)))
    assert (found.value, found.low, found.high) == (30, 25, 35)
    # What is taken away errs the other way round.
    less = independent((Amount(10, 7, 22),), (Amount(5, 0, 9),))
    assert (less.value, less.low, less.high) == (5, 0, 18)
    assert independent((Amount(1, 0, 2), Amount(2))).low is None


def test_intervals_add_up_by_their_ends() -> None:
    one, other = Amount(2, 1, 4), Amount(5 / 3, -1, 6)
    found = total((one, other))
    assert (found.value, found.low, found.high) == (pytest.approx(11 / 3), 0, 10)
    found = total((one, Amount(1)))
    assert (found.value, found.low, found.high) == (3, None, None)


@given(st.floats(1, 5000), st.floats(1, 5000), st.integers(0, 200_000))
def test_a_higher_rate_never_costs_a_request_more(one: float, other: float, size: int) -> None:
    """On this the solver relies, which takes each hop at its own rate instead of that of its sidecar."""
    low, high = sorted((one, other))
    functions = [_function(CPU, part) for part in (0, 1)]
    costs = [sum(each.estimate(rate, size).amount.value for each in functions) for rate in (low, high)]
    assert costs[0] >= costs[1] * (1 - ROUNDING)


@given(st.floats(1, 3000), st.integers(0, 200_000))
def test_values_lie_in_their_intervals(rate: float, size: int) -> None:
    for quantity in (LATENCY, CPU):
        amount = _function(quantity).estimate(rate, size).amount
        assert amount.low is not None
        assert amount.high is not None
        assert amount.low <= amount.value <= amount.high


@pytest.mark.parametrize("module", [amounts, estimates, vocabulary, write, decimals])
def test_examples_in_docstrings(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted
    assert not result.failed
