"""Suite `overhead`: what is drawn, what is predicted, how it is judged; and one short run."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

import dsl
from admc.base.exits import CommandError
from admc.cost.measurement import programs
from admc.cost.measurement.bed import Tools
from admc.cost.measurement.design import SIZES
from admc.cost.measurement.uses import of_prelude
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from admc.cost.profiles.profile import (
    LATENCY,
    ComponentCost,
    Figure,
    HopCost,
    Knot,
    Law,
    Part,
    Profile,
    Sizes,
    law,
)
from admc.cost.profiles.source import built_in
from dsl.program import Protocol, Side
from emitters.envoy import Mode
from solver.place import place
from tests.bench import __main__ as bench
from tests.bench.cost.suite import HOTEL
from tests.bench.overhead.draw import COSTLY, LOWEST, MOST_POLICIES, Configuration, draw
from tests.bench.overhead.hotel import UNUSED, bound, with_rates
from tests.bench.overhead.judge import Factors, Judged, Row, factors, judged
from tests.bench.overhead.measure import Half, Settings, layout, references, share
from tests.bench.overhead.predict import Cost, Prediction, naive, predictor, training_mean
from tests.bench.overhead.suite import QUANTITIES, compared, print_result, within
from tests.system import go

SMALL, LARGE = Decimal(100), Decimal(65536)


def _figure(value: str) -> Figure:
    return Figure.of(Decimal(value), Decimal(value) * Decimal("0.9"), Decimal(value) * Decimal("1.1"))


def _curve(*points: tuple[int, str]) -> tuple[Knot, ...]:
    return tuple(Knot.of(Decimal(rate), _figure(value)) for rate, value in points)


@cache
def _profile() -> Profile:
    """A hop takes 1 ms of CPU at 10/s and 0.2 ms at 1,000/s; a component a tenth of that."""
    sizes = Sizes(SMALL, LARGE, SMALL)
    hop = Part("whole", Law(_curve((10, "400"), (1000, "200")), None), Law(_curve((10, "0.01"), (1000, "0.2")), None))
    cost = Law(_curve((10, "40"), (1000, "20")), None), Law(_curve((10, "0.001"), (1000, "0.02")), None)
    components = tuple(
        ComponentCost(
            use.key.name,
            use.protocol,
            use.key.side,
            use.key.kind,
            dict(use.key.arguments),
            False,
            sizes,
            5,
            *cost,
            None,
        )
        for use in of_prelude()
    )
    base = built_in("meshinsight").profile
    return replace(
        base,
        parts={"whole": "all"},
        saturation=Decimal("0.7"),
        sidecar=replace(base.sidecar, idle_cpu=_figure("0.001")),
        hops=tuple(HopCost(protocol, sizes, 5, (hop,)) for protocol in Protocol),
        components=components,
    )


def _drawn(seed: int = 7) -> tuple[Configuration, ...]:
    return draw(seed, _profile(), of_prelude(), 24, 8)


# ---- drawing ----


def test_a_seed_repeats_a_run_and_another_one_does_not() -> None:
    assert _drawn() == _drawn()
    assert _drawn() != _drawn(8)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_drawn_is_what_the_suite_says(seed: int) -> None:
    found = _drawn(seed)
    assert len(found) == 24
    assert sum(len(each.hops) > 1 for each in found) == 8
    costly = [any(use.key.name in COSTLY for hop in each.hops for use in hop.uses) for each in found]
    assert sum(costly) == 12
    for each in found:
        assert LOWEST * 0.9 <= each.rate <= 1000
        assert sum(len(hop.uses) for hop in each.hops) <= MOST_POLICIES
        for hop in each.hops:
            assert hop.size not in SIZES
            assert all(hop.side in use.kind.sides for use in hop.uses)
            assert max(Counter(use.key.name for use in hop.uses).values(), default=0) <= 1
    assert {hop.protocol for each in found for hop in each.hops} == set(Protocol)
    assert {each.hops[0].side for each in found} == set(Side)


@pytest.mark.long
def test_envoy_can_be_given_all_that_is_drawn(tmp_path: Path) -> None:
    for seed in range(4):
        layout(_drawn(seed), Mode.REDIRECT, tmp_path).files()


def test_a_saturated_sidecar_gets_a_lower_rate(tmp_path: Path) -> None:
    tight = replace(_profile(), saturation=Decimal("0.1"))
    for each in _drawn():
        found = within(tight, each, tmp_path)
        assert found.rate <= each.rate
        assert [hop.uses for hop in found.hops] == [hop.uses for hop in each.hops]


# ---- predictions ----


def test_a_prediction_is_the_models_for_the_whole_sidecar(tmp_path: Path) -> None:
    use = next(each for each in of_prelude() if each.kind.name == "request_count" and each.protocol is Protocol.HTTP)
    arm = references(_profile())[0].hops[0]
    one = Configuration("a", (replace(arm, name="a_0", pod="a", uses=(use,), rate=10.0, size=100),))
    two = Configuration(
        "b",
        (
            replace(arm, name="b_0", pod="b", rate=600.0, size=100),
            replace(arm, name="b_1", pod="b", rate=400.0, size=100, uses=(use,)),
        ),
    )
    predict = predictor(_profile(), layout((one, two), Mode.REDIRECT, tmp_path))
    found = predict(one)
    assert found.value == Cost(1000 + 100 + 100, 400 + 40)
    # Errors of the hop and of its component are independent; that of the idle sidecar is added.
    assert found.low == Cost(
        pytest.approx(1200 - math.hypot(100, 10) - 10, abs=0.01),  # type: ignore[arg-type]
        pytest.approx(440 - math.hypot(40, 4), abs=0.01),  # type: ignore[arg-type]
    )
    # 0.2 cores for all requests, 0.02 x 0.4 for the policy, 0.001 when idle; by the rate of the whole sidecar.
    assert predict(two).value == Cost(pytest.approx(209), pytest.approx(200 + 0.4 * 20))  # type: ignore[arg-type]


def test_naive_predictors(tmp_path: Path) -> None:
    use = next(each for each in of_prelude() if each.kind.name == "request_count" and each.protocol is Protocol.HTTP)
    one = Configuration(
        "a", (replace(references(_profile())[0].hops[0], name="a_0", pod="a", uses=(use,), rate=10.0, size=100),)
    )
    found = naive(_profile(), layout((one,), Mode.REDIRECT, tmp_path))
    assert found["bare hop"](one) == Cost(1100, 400)
    assert found["constant"](one) == Cost(220, 220)
    assert found["mean"](one) == training_mean(_profile())
    assert 200 < training_mean(_profile()).cpu < 1100


def test_rates_of_hotel_reservation_are_those_of_its_requests() -> None:
    program = with_rates(dsl.load(HOTEL), 200.0)
    rates = {(call.source, call.destination): call.rate for call in program.calls}
    assert rates["internet", "frontend"] == 200
    assert rates["frontend", "search"] == pytest.approx(120)
    assert rates["frontend", "profile"] == pytest.approx(198)
    assert rates["rate", "mongodb-rate"] == pytest.approx(12)
    assert rates["geo", "mongodb-geo"] == UNUSED


def test_the_solvers_coefficients_are_a_bound_of_the_full_model() -> None:
    program = with_rates(dsl.load(HOTEL), 200.0)
    placement = place(program)
    model = estimate(program, of_placement(program, placement), _profile()).totals.cpu.value
    assert model <= bound(program, placement, _profile()) < 2 * model


# ---- judging ----


def _rows(cpu: list[float], said: list[float], apart: float = 0.0, wide: float = 0.2) -> tuple[Row, ...]:
    reference = Cost(50.0, 50.0)
    return tuple(
        Row(
            "x",
            tuple(Half(Cost(cost * (1 + sign * apart / 2), 1.0), (reference, reference)) for sign in (-1, 1)),
            Prediction(Cost(value, 1.0), Cost(value * (1 - wide), 1.0), Cost(value * (1 + wide), 1.0)),
            {"mean": Cost(500.0, 1.0), "bare hop": Cost(value * 0.5, 1.0)},
        )
        for cost, value in zip(cpu, said, strict=True)
    )


def _judged(rows: tuple[Row, ...], *said: float) -> Judged:
    naive_ = {"mean": [Cost(50.0, 50.0)] * 2, "bare hop": [Cost(50.0, 50.0)] * 2}
    return judged(rows, "cpu", factors(rows, [Cost(each, 50.0) for each in said or (50.0, 50.0)], naive_))


COSTS = [100.0, 200.0, 300.0, 400.0, 600.0, 900.0]


def test_a_good_profile_passes() -> None:
    found = _judged(_rows(COSTS, [cost * 1.05 for cost in COSTS]))
    assert found.verdict == "passed"
    assert found.median == pytest.approx(0.05)
    assert (found.span, found.held, found.of) == (9.0, 6, 6)


@pytest.mark.parametrize(
    ("said", "wide", "goal"),
    [
        ([cost * 1.15 for cost in COSTS], 0.2, "median error"),
        ([100, 200, 300, 400, 600, 1900.0], 0.2, "90th percentile"),
        ([cost * 1.05 for cost in COSTS], 0.01, "the interval holds"),
    ],
)
def test_each_goal_can_be_missed(said: list[float], wide: float, goal: str) -> None:
    found = _judged(_rows(COSTS, said, wide=wide))
    assert found.verdict == "failed"
    assert next(text for text, reached in found.goals.items() if not reached).startswith(goal)


def test_a_profile_has_to_beat_the_naive_predictors_and_costs_have_to_differ() -> None:
    same = [500.0, 510.0, 490.0, 505.0]
    found = _judged(_rows(same, [cost * 1.04 for cost in same]))
    missed = [text for text, reached in found.goals.items() if not reached]
    assert found.verdict == "failed"
    assert any("best naive" in text for text in missed)
    assert any("span" in text for text in missed)


def test_halves_that_differ_are_inconclusive_and_not_passed() -> None:
    assert _judged(_rows(COSTS, COSTS, apart=0.06)).verdict == "inconclusive"
    assert _judged(_rows(COSTS, COSTS, apart=0.04)).verdict == "passed"


def test_the_reference_corrects_by_one_factor_and_errors_without_it_are_kept() -> None:
    found = _judged(_rows(COSTS, [cost / 2 for cost in COSTS]), 25.0, 25.0)
    assert found.median == pytest.approx(0)
    assert found.uncorrected == pytest.approx(0.5)


def test_the_factor_is_the_mean_over_the_rates_of_the_reference() -> None:
    """So an error of the profile at one of them counts for less."""
    found = _judged(_rows(COSTS, COSTS), 40.0, 60.0)
    assert found.median == pytest.approx(50 / math.sqrt(40 * 60) - 1)


def test_the_reference_has_the_rates_of_the_profile_but_its_lowest_and_highest() -> None:
    (hop,) = (each for each in built_in("shared_2core_envoy_1_40").profile.hops if each.protocol is Protocol.HTTP)
    latency = law(hop.parts[0], LATENCY)
    assert latency is not None
    found = references(built_in("shared_2core_envoy_1_40").profile)
    assert [each.rate for each in found] == [knot.rate for knot in latency.base[1:-1]]
    assert {each.pod for each in found} == {"reference"}


@pytest.mark.parametrize("sidecars", [1, 2, 3, 8])
def test_each_reference_has_one_slice_a_turn(sidecars: int) -> None:
    beside = references(built_in("shared_2core_envoy_1_40").profile)
    assert [each for at in range(sidecars) for each in share(beside, at, sidecars)] == list(beside)


# ---- the suite ----


def test_without_go_the_suite_is_skipped(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> str:
        raise CommandError(1, ())  # type: ignore[arg-type]

    monkeypatch.setattr(programs, "app", missing)
    monkeypatch.setattr(bench, "SUITES", ("overhead",))
    assert bench.main([]) == 0
    assert "Skipped without it: how well profiles predict" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="how well profiles predict"):
        bench.main(["--only", "overhead"])


@pytest.mark.long
@pytest.mark.skipif(go() is None, reason="this machine lacks Go; `make system` installs what is missing")
def test_a_short_run_has_a_row_for_each_sidecar(tmp_path: Path) -> None:
    tools = Tools(programs.envoy()[0], programs.app())
    slow = replace(_profile(), saturation=Decimal("0.08"))
    found = compared(slow, 3, tools, Settings(3, 1, 1, 0.1, 2), tmp_path, lambda _: None, lambda _: None)
    assert len(found.rows) == 3
    for row in found.rows:
        assert len(row.halves) == 2
        assert all(10 < half.sidecar.cpu < 50_000 for half in row.halves)
    assert isinstance(found.factors, Factors)
    with (tmp_path / "out").open("w") as out:
        print_result(Console(file=out, width=200), found)
    text = (tmp_path / "out").read_text()
    for title in QUANTITIES.values():
        assert title in text
    assert "median error without it" in text
