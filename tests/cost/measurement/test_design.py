"""Which slices are measured: rates, the search for the ceiling, order, and when an interval is narrow."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

from admc.cost.measurement.design import (
    FULL,
    HIGHEST_RATE,
    LEAST_TURNS,
    QUICK,
    SIZES,
    Cell,
    Highest,
    Sample,
    SliceGroup,
    Tried,
    ceiling,
    component_cells,
    in_turn,
    is_narrow,
    rates,
    slice_seconds,
    two_digits,
    unreached,
    warm_seconds,
)
from dsl.program import Protocol, Side


def test_rates_go_from_five_to_the_ceiling_by_one_factor() -> None:
    found = rates(1600, FULL)
    assert list(found) == [5, 21, 89, 380, 1600]
    assert len(rates(700, QUICK)) == 3
    assert rates(1, FULL)[-1] == 10  # a machine that takes nothing is tried at little, and not at zero


@pytest.mark.parametrize("most", [120.0, 777.0, 3000.0])
def test_the_ceiling_is_below_the_first_rate_that_does_not_hold_and_near_it(most: float) -> None:
    tried: list[float] = []

    def run(rate: float) -> Tried:
        tried.append(rate)
        return Tried(cores=0.7 * rate / most, latency=200, failed=0, late=20)

    found = ceiling(run)
    assert most / 1.25 <= found.rate <= most
    assert len(tried) < 24


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (Tried(0.1, 200, 1, 20), "requests failed"),
        (Tried(0.8, 200, 0, 20), "the sidecar took 0.80 cores"),
        (Tried(0.1, 90_000, 0, 20), "latency was 90,000 us, after 200 us at a low rate"),
        (Tried(0.1, 200, 0, 9_000), "requests were sent 9,000 us late"),
    ],
)
def test_failures_cpu_latency_and_lateness_each_end_the_search(bad: Tried, why: str) -> None:
    found = ceiling(lambda rate: bad if rate > 400 else Tried(0.1, 200, 0, 20))
    assert 300 <= found.rate <= 400
    # 476/s is the lowest rate that was tried above 400/s: 400 x 2^(1/4).
    assert found.why == f"at 476/s {why}"


def test_a_rate_that_does_not_hold_once_is_tried_again() -> None:
    tried: set[float] = set()

    def run(rate: float) -> Tried:
        burst = rate > 50 and rate not in tried
        tried.add(rate)
        return Tried(0.8 if burst or rate > 1000 else 0.1, 200, 0, 20)

    assert 800 <= ceiling(run).rate <= 1000


def test_a_rate_that_holds_in_one_try_of_three_is_too_high() -> None:
    """By luck, a sidecar at its limit takes less in some slices."""
    tries: Counter[float] = Counter()

    def run(rate: float) -> Tried:
        tries[rate] += 1
        lucky = tries[rate] % 3 == 1
        return Tried(0.8 if rate > 1000 and not lucky else 0.1, 200, 0, 20)

    assert 800 <= ceiling(run).rate <= 1000


def test_a_try_from_which_the_host_took_time_away_does_not_end_the_search() -> None:
    """A burst of ten tries, from the second rate on."""
    tries: list[float] = []

    def run(rate: float) -> Tried:
        tries.append(rate)
        burst = 6 < len(tries) <= 16
        return Tried(0.1, 3000 if burst or rate > 1000 else 200, 0, 20, 0.3 if burst else 0.01)

    assert 800 <= ceiling(run).rate <= 1000


def test_a_machine_that_is_always_disturbed_has_a_highest_rate_all_the_same() -> None:
    tries: list[float] = []

    def run(rate: float) -> Tried:
        tries.append(rate)
        return Tried(0.1, 200 if rate <= 300 else 3000, 0, 20, 0.3)

    assert 250 <= ceiling(run).rate <= 300
    assert len(tries) < 80


def test_the_search_has_an_end() -> None:
    assert ceiling(lambda rate: Tried(0.0, 1, 0, 1)) == Highest(HIGHEST_RATE, "no higher one was tried")


def test_slices_are_two_seconds_at_low_rates_and_shorter_where_requests_are_many() -> None:
    lengths = [slice_seconds(rate, FULL) for rate in (5, 21, 89, 380, 1600)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 2.0
    assert lengths[-1] == 0.4
    assert warm_seconds(5, FULL) * 5 >= 1  # at least one request comes before


def test_an_arm_comes_first_in_turn_and_each_comes_once() -> None:
    arms = ("none", "hop")
    assert {in_turn(arms, turn)[0] for turn in range(2)} == {"none", "hop"}
    assert all(sorted(in_turn(arms, turn)) == sorted(arms) for turn in range(8))


def test_components_have_a_bare_hop_near_them() -> None:
    names = tuple(f"component {number}" for number in range(12))
    group = SliceGroup("x", Protocol.HTTP, Side.INGRESS, ("hop", *names), (Cell(5, 100),))
    for turn in range(6):
        order = group.order(turn)
        counted = Counter(order)
        assert all(counted[name] == 1 for name in names)
        assert order[0] == order[-1] == "hop"
        places = [at for at, name in enumerate(order) if name == "hop"]
        assert max(later - earlier for earlier, later in pairwise(places)) <= 6
    assert group.seconds(FULL) == pytest.approx(len(group.order(0)) * (2 + 0.2 + 0.02))


def test_alternating_arms_share_one_slice_and_each_begins_it_in_turn() -> None:
    arms = SliceGroup("x", Protocol.HTTP, Side.INGRESS, ("none", "hop"), (Cell(5, 100),), alternate=True)
    assert {arms.slices(turn) for turn in range(2)} == {(("none", "hop"),), (("hop", "none"),)}
    assert arms.seconds(FULL) == pytest.approx(2 + 0.2 + 0.02)
    assert arms._replace(alternate=False).slices(0) == (("none",), ("hop",))


def test_components_are_measured_from_the_middle_rate_on_and_there_at_both_ends_of_the_sizes() -> None:
    slow, *faster = component_cells((5, 21, 89, 380, 1600), FULL)
    assert slow == (Cell(89, SIZES[0]), Cell(89, SIZES[-1]))
    assert faster == [(Cell(380, SIZES[0]),), (Cell(1600, SIZES[0]),)]


def test_latency_above_that_of_a_cold_sidecar_ends_the_search() -> None:
    """One of the first slices may be slow by chance."""
    slow = iter((False, True, False, False, True))

    def run(rate: float) -> Tried:
        if rate == 50:
            return Tried(0.1, 9000 if next(slow) else 1000, 0, 20)
        return Tried(0.1, 400 if rate < 500 else 1300, 0, 20)

    assert 400 <= ceiling(run).rate < 500


def test_a_sidecar_that_is_not_cold_at_a_low_rate_is_measured_up_to_its_limit() -> None:
    """Its latency is the same at all rates, but for a tenth of noise."""
    draw = random.Random(1)  # noqa: S311
    for _ in range(50):
        found = ceiling(lambda rate: Tried(0.7 * rate / 4000, draw.uniform(190, 210), 0, 20))
        assert 3000 <= found.rate <= 4000


def test_an_interval_is_narrow_beside_what_the_arm_takes() -> None:
    theirs = [Sample(0.100, 300.0)] * 9
    near = [Sample(0.110 + 0.001 * (turn % 3), 310.0 + turn % 3) for turn in range(9)]
    wide = [Sample(0.110 + 0.010 * (turn % 3), 310.0) for turn in range(9)]
    slow = [Sample(0.110, 310.0 + 40 * (turn % 3)) for turn in range(9)]
    assert is_narrow(near, theirs)
    assert not is_narrow(wide, theirs)
    assert not is_narrow(slow, theirs)
    assert not is_narrow(near[: LEAST_TURNS - 1], theirs[: LEAST_TURNS - 1])


def test_what_the_budget_did_not_reach_is_said() -> None:
    said = unreached({"a": 7, "b": 6, "c": 2}, {"a": True, "b": False, "c": False})
    assert said == (
        "no intervals, since the budget ended before 5 turns: c",
        "intervals wider than 5% of what the sidecar takes, to each side: b (6 turns)",
    )
    assert unreached({"a": 7}, {"a": True}) == ()
    assert unreached({"a": 1, "b": 0}, {"a": False, "b": False}) == (
        "not measured, since the budget ended before: b; a larger `--budget` has them",
        "no intervals, since the budget ended before 5 turns: a",
    )


def test_rates_have_two_digits() -> None:
    assert [two_digits(value) for value in (5.0, 17.35, 1234.0)] == [5.0, 17.0, 1200.0]
