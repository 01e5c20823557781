"""The arithmetic of a law: exact, between its neighbours, and never more CPU for a request at a higher rate."""

from __future__ import annotations

import doctest
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc import decimals
from admc.overhead.profile_import import estimates
from admc.overhead.profiles import amounts, vocabulary, write
from admc.overhead.profiles.law import Amount, Function, function, independent, logarithm, of_knots, total
from admc.overhead.profiles.profile import CPU, LATENCY, law
from tests.overhead.documents import profile

HOP = profile().hops[0]


def _function(quantity: str, part: int = 0) -> Function:
    found = law(HOP.parts[part], quantity)
    assert found is not None
    return function(quantity, found, HOP.sizes)


def test_cpu_of_a_request_is_cores_divided_by_the_rate() -> None:
    found = _function(CPU)
    measured = {5: "0.00144", 20: "0.0009", 100: "0.00064", 400: "0.00029", 1600: "0.00022"}
    for rate, seconds in measured.items():
        assert found.estimate(Fraction(rate), 100).amount.value == Fraction(seconds)


@pytest.mark.parametrize("quantity", [CPU, LATENCY])
def test_a_figure_is_linear_in_the_logarithm_of_the_rate_between_two_knots(quantity: str) -> None:
    found = _function(quantity)
    low, middle, high = (found.estimate(Fraction(rate), 100).amount.value for rate in (20, 60, 100))
    assert high < low
    share = math.log(60 / 20) / math.log(100 / 20)
    assert float(middle) == pytest.approx(float(low) + float(high - low) * share)


@given(st.fractions(Fraction(1, 1000), 10**9), st.fractions(Fraction(1, 1000), 10**9))
def test_logarithms_rise_with_the_rate(one: Fraction, other: Fraction) -> None:
    low, high = (logarithm(rate.numerator, rate.denominator) for rate in sorted((one, other)))
    assert low <= high
    assert low / 1e9 == pytest.approx(math.log(min(one, other)), abs=1e-8)


def test_rates_that_are_nearly_the_same_have_a_figure_between_them() -> None:
    near = Fraction(100) + Fraction(1, 10**12)
    line = of_knots((Fraction(100), near), (Amount.of(7, 6, 8), Amount.of(5, 4, 6)))
    value = line.at((100 + near) / 2)[0].value
    assert 5 <= value <= 7


@pytest.mark.parametrize(("rate", "expected", "outside"), [(4, 800, True), (5, 800, False), (1600, 200, False)])
def test_outside_the_knots_the_nearest_one_stands(rate: int, expected: int, outside: bool) -> None:
    found = _function(LATENCY).estimate(Fraction(rate), None)
    assert (found.amount.value, found.rate_outside) == (expected, outside)


def test_bytes() -> None:
    found = _function(LATENCY)
    rate = Fraction(5)
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
    amount = function(LATENCY, found, hop.sizes).estimate(Fraction(5), 100).amount
    assert amount.value == 798
    # 80 us of the base and 0.2 us of 1,000 bytes
    assert amount.low is not None
    assert amount.high is not None
    error = (80**2 + 0.2**2) ** 0.5
    assert float(amount.low) == pytest.approx(798 - error, abs=1e-8)
    assert float(amount.high) == pytest.approx(798 + error, abs=1e-8)
    assert (798 - amount.low) ** 2 >= 80**2 + Fraction("0.04")  # rounded outwards


def test_squares_of_independent_errors_add_up() -> None:
    found = independent((Amount.of(10, 7, 14), Amount.of(20, 16, 23)))
    assert (found.value, found.low, found.high) == (30, 25, 35)
    # What is taken away errs the other way round.
    less = independent((Amount.of(10, 7, 22),), (Amount.of(5, 0, 9),))
    assert (less.value, less.low, less.high) == (5, 0, 18)
    assert independent((Amount.of(1, 0, 2), Amount.of(2))).low is None
    # Amounts with a small divisor keep their precision.
    coarse = independent((Amount.of(1, 0, 2), Amount.of(1, 0, 2)))
    assert float(coarse.value - (coarse.low or 0)) == pytest.approx(2**0.5, abs=1e-8)


def test_intervals_add_up_by_their_ends() -> None:
    one, other = Amount.of(2, 1, 4), Amount.of(Fraction(5, 3), -1, 6)
    found = total((one, other))
    assert (found.value, found.low, found.high) == (Fraction(11, 3), 0, 10)
    found = total((one, Amount.of(1)))
    assert (found.value, found.low, found.high) == (3, None, None)


@given(st.fractions(1, 5000), st.fractions(1, 5000), st.integers(0, 200_000))
def test_a_higher_rate_never_costs_a_request_more(one: Fraction, other: Fraction, size: int) -> None:
    """On this the solver relies, which takes each hop at its own rate instead of that of its sidecar."""
    low, high = sorted((one, other))
    functions = [_function(CPU, part) for part in (0, 1)]
    costs = [sum(each.estimate(rate, size).amount.value for each in functions) for rate in (low, high)]
    assert costs[0] >= costs[1]


@given(st.fractions(1, 3000), st.integers(0, 200_000))
def test_values_lie_in_their_intervals(rate: Fraction, size: int) -> None:
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
