"""Figures of a component at several rates: chance is taken out of them, and what is more than chance stays."""

from __future__ import annotations

import random
from fractions import Fraction
from statistics import fmean

import pytest

from admc.cost.profile_import.estimates import UNIT, Estimate, estimate
from admc.cost.profile_import.pooled import pooled
from admc.cost.profiles.profile import CPU, LATENCY
from tests.cost.test_fit import HEADER, line, made, value

HOP = [Fraction(700), Fraction(350), Fraction(250)]


def known(median: object, error: object, half: int = 90) -> Estimate:
    """An estimate with a standard error, and an interval of 90%."""
    middle = Fraction(str(median))
    return Estimate(middle, middle - half, middle + half, 7, Fraction(str(error)) ** 2)


def values(found: list[Estimate]) -> list[float]:
    return [round(float(each.value), 3) for each in found]


def test_figures_that_agree_as_parts_of_the_hop_are_their_mean_by_certainty() -> None:
    """By hand: parts 0.1 +- 0.1 and 0.2 +- 0.05, which differ by less than chance; the mean has weights 1 and 4."""
    found = pooled([known(70, 70), known(70, "17.5")], HOP[:2])
    assert values(found) == [126.0, 63.0]


def test_figures_that_differ_by_more_than_chance_stay_near_what_was_measured() -> None:
    """By hand: parts 0.1 and 0.9, each +- 0.1. The squares sum up to 32 where chance gives 1, so the variance between
    rates is 0.31, and each part keeps 31/32 of its distance from the mean, which is 0.5."""
    found = pooled([known(70, 70), known(315, 35)], HOP[:2])
    assert values(found) == [round(700 * (0.5 - 0.4 * 31 / 32), 3), round(350 * (0.5 + 0.4 * 31 / 32), 3)]


def test_a_figure_moves_to_the_certain_one_and_not_the_other_way() -> None:
    """By hand: parts 0.1 +- 0.1 and 0.02 +- 0.02, so the mean has weights 1 and 25 and is 0.6 / 26."""
    low, high = values(pooled([known(70, 70), known(5, 5)], [HOP[0], HOP[2]]))
    assert (low, high) == (round(700 * 0.6 / 26, 3), round(250 * 0.6 / 26, 3))


def test_the_interval_stays_and_holds_the_new_value() -> None:
    first, _ = pooled([known(118, 50, half=10), known(0, 1)], HOP[:2])
    assert first.high == 128
    assert first.low == first.value < 108
    unknown = known(118, 50)._replace(low=None, high=None)
    assert pooled([unknown, known(0, 1)], HOP[:2])[0].low is None


def test_a_figure_below_zero_counts_in_the_mean_and_not_in_the_profile() -> None:
    """Were it zero there, the mean over rates would be too high for each component that costs nothing."""
    assert values(pooled([known(28, 70), known(-35, 35)], HOP[:2])) == [0.0, 0.0]


@pytest.mark.parametrize(
    ("measured", "hop"),
    [
        ([known(70, 70)], HOP[:1]),
        ([known(70, 70), known(70, 0)], HOP[:2]),  # no chance at all
        ([known(70, 70), known(70, 9)._replace(variance=None)], HOP[:2]),  # too few turns
        ([known(70, 70), known(70, 9)], [HOP[0], None]),  # the hop was not measured at that rate
        ([known(70, 70), known(70, 9)], [Fraction(0), HOP[1]]),
        ([], []),
    ],
)
def test_what_cannot_be_compared_stays_as_measured(measured: list[Estimate], hop: list[Fraction | None]) -> None:
    assert pooled(measured, hop) == measured


def test_a_rate_that_the_hop_lacks_stays_and_the_others_are_drawn_together() -> None:
    found = pooled([known(70, 70), known(999, 9), known(70, "17.5")], [HOP[0], None, HOP[1]])
    assert values(found) == [126.0, 999.0, 63.0]


def test_the_variance_of_a_median_is_what_repeated_medians_vary_by() -> None:
    draw = random.Random(4)  # noqa: S311
    found = [estimate([round(draw.gauss(1000, 50) * UNIT) for _ in range(9)]) for _ in range(2000)]
    medians = [float(each.median) for each in found if each is not None]
    said = fmean(float(each.variance) for each in found if each is not None and each.variance is not None)
    assert fmean((each - 1000) ** 2 for each in medians) == pytest.approx(said, rel=0.15)
    few = estimate([UNIT, 2 * UNIT])
    assert few is not None
    assert few.variance is None


# ---- in a fitted profile ----

RATES = {10: 800, 100: 500, 1000: 250}
"""By rate, what a bare hop takes."""


def runs(part: dict[int, float], seed: int) -> str:
    """Seven turns. A component takes some part of the hop at each rate; each slice is off by a tenth."""
    draw = random.Random(seed)  # noqa: S311
    rows = [HEADER]
    for turn in range(7):
        rows.append(line(turn, "idle", cpu_cores="0.001"))
        for rate, cost in RATES.items():
            for arm, times in (("hop", 1.0), ("rbac", 1.0 + part[rate])):
                taken = cost * times * draw.gauss(1, 0.1)
                rows.append(
                    line(turn, arm, rate, 100, latency_us=f"{taken:.3f}", cpu_cores=f"{0.001 + taken * rate / 1e6:.9f}")
                )
            rows.append(line(turn, "none", rate, 100, latency_us=0))
    return "\n".join(rows) + "\n"


def errors(part: dict[int, float], rate: int) -> dict[str, float]:
    """The root of the mean square over 60 measurements, as a part of the hop."""
    found: dict[str, list[float]] = {LATENCY: [], CPU: []}
    for seed in range(60):
        fitted = made(runs(part, seed))
        (cost,) = fitted.profile.components
        for quantity, law, scale in ((LATENCY, cost.latency, 1.0), (CPU, cost.cpu, 1e6 / rate)):
            assert law is not None
            knot = next(each for each in law.base if each.rate == rate)
            found[quantity].append(float(knot.figure.value) * scale / RATES[rate] - part[rate])
    return {quantity: fmean(each**2 for each in all_) ** 0.5 for quantity, all_ in found.items()}


def test_a_component_with_one_part_of_the_hop_is_known_better_than_at_each_rate_alone() -> None:
    """Alone, its median of seven differences is off by 0.06 of the hop here."""
    for quantity, error in errors(dict.fromkeys(RATES, 0.3), 10).items():
        assert error < 0.054, quantity


def test_a_component_whose_part_changes_with_the_rate_keeps_what_was_measured() -> None:
    part = {10: 1.2, 100: 0.6, 1000: 0.1}
    for rate in RATES:
        for quantity, error in errors(part, rate).items():
            assert error < 0.11, (rate, quantity)


def test_a_hop_itself_is_not_drawn_together() -> None:
    fitted = made(runs(dict.fromkeys(RATES, 0.5), 3))
    for rate, cost in RATES.items():
        found = value(LATENCY, fitted.profile.hops[0].parts[0].latency, fitted, rate, 100)
        assert float(found) == pytest.approx(cost, rel=0.12)
