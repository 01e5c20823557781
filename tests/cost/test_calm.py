"""Turns from which the host took time away do not move a figure, and are still in its interval."""

from __future__ import annotations

import random

import pytest

from admc.cost.profile_import.calm import UNDISTURBED, calmest
from admc.cost.profile_import.estimates import CONFIDENCE, UNIT, weighted
from admc.cost.profiles.profile import CPU, LATENCY, law
from tests.cost.test_fit import HEADER, MICROS, SECONDS, line, made, mistakes, table, value


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ([0.0] * 7, 7),
        ([UNDISTURBED] * 4, 4),
        ([0.3, 0.03, 0.2, 0.04, 0.1, 0.05, 0.4], 4),  # the half, rounded up
        ([0.3, 0.03, 0.2, 0.1], 3),  # at least so many
        ([0.2, 0.005, 0.3, 0.0, 0.001, 0.4, 0.02, 0.009], 5),  # all that were not disturbed
        ([0.2, 0.1], 2),
        ([], 0),
    ],
)
def test_the_calmest_are_kept(shares: list[float], kept: int) -> None:
    found = calmest(shares, lambda share: share)
    assert sorted(found) == sorted(shares)[:kept]


def test_equal_turns_are_kept_together_so_that_their_order_means_nothing() -> None:
    values = [("a", 0.1), ("b", 0.2), ("c", 0.2), ("d", 0.2), ("e", 0.3), ("f", 0.4)]
    assert [name for name, _ in calmest(values, lambda each: each[1])] == ["a", "b", "c", "d"]
    values += [("g", 0.1), ("h", 0.1)]  # enough without those that share the last place of the half
    assert [name for name, _ in calmest(values, lambda each: each[1])] == ["a", "g", "h"]


def disturbed(text: str, turns: set[int]) -> str:
    """In some turns requests wait for the host: latencies are five times, and CPU twice as high."""
    rows = [row.split(",") for row in text.splitlines()]
    head, *rest = rows
    stolen, latency, cores = (head.index(name) for name in ("stolen", "latency_us", "cpu_cores"))
    for row in rest:
        row[stolen] = "0.2" if int(row[0]) in turns else "0.004"
        for column, times in ((latency, 5), (cores, 2)):
            if int(row[0]) in turns and row[column] and row[1] != "idle":
                row[column] = f"{float(row[column]) * times:.9f}"
    return "\n".join(",".join(row) for row in rows) + "\n"


def test_disturbed_turns_do_not_move_a_figure_and_are_in_its_interval() -> None:
    """Five of nine turns are disturbed, so a median over all turns is that of a disturbed one."""
    text = disturbed(table(), {0, 2, 3, 5, 8})
    fitted = made(text)
    (part,) = fitted.profile.hops[0].parts
    for quantity, known in ((LATENCY, MICROS), (CPU, SECONDS)):
        found = law(part, quantity)
        assert found is not None
        for rate, cost in known.items():
            assert float(value(quantity, found, fitted, rate, 100)) == pytest.approx(float(cost), rel=1e-3)
    latency = law(part, LATENCY)
    assert latency is not None
    assert latency.base[0].figure.high is not None
    assert latency.base[0].figure.high > 3 * MICROS[5]
    unknown = made("\n".join([HEADER, *(row.rsplit(",", 1)[0] + "," for row in text.splitlines()[1:])]))
    assert float(value(LATENCY, unknown.profile.hops[0].parts[0].latency, unknown, 5, 100)) > 3 * MICROS[5]


def fitted_latency(rows: list[str], rate: int, size: int = 100) -> float:
    fitted = made("\n".join([HEADER, *rows]) + "\n")
    return float(value(LATENCY, fitted.profile.hops[0].parts[0].latency, fitted, rate, size))


def slices(turn: int, none: tuple[int, object], hop: tuple[int, object]) -> list[str]:
    """Latency and `stolen` of one slice without a proxy, and of one with a hop."""
    return [
        line(turn, arm, 10, 100, latency_us=latency, stolen=stolen)
        for arm, (latency, stolen) in (("none", none), ("hop", hop))
    ]


@pytest.mark.parametrize("spoilt", ["none", "hop"])
def test_of_two_slices_that_are_compared_the_more_disturbed_counts(spoilt: str) -> None:
    bad = {"none": ((900, 0.3), (1000, 0)), "hop": ((100, 0), (1900, 0.3))}[spoilt]
    rows = [row for turn in range(7) for row in slices(turn, *(bad if turn < 4 else ((100, 0), (300, 0))))]
    assert fitted_latency(rows, 10) == 200


def test_an_arm_with_several_slices_in_a_turn_was_disturbed_as_their_median() -> None:
    """One burst among the slices of a bare hop moves neither its median nor what was taken away from it."""
    calm = [row for turn in range(3) for row in slices(turn, (100, 0.1), (300, 0.1))]
    burst = line(3, "hop", 10, 100, latency_us=9000, stolen=0.9)
    busy = [row for turn in (4, 5) for row in slices(turn, (100, 0.5), (700, 0.5))]
    one = [*slices(3, (100, 0.05), (300, 0.05)), line(3, "hop", 10, 100, latency_us=300, stolen=0.05), burst]
    assert fitted_latency([*busy, *one, *calm], 10) == 200
    assert fitted_latency([*busy, *slices(3, (100, 0.9), (9000, 0.9)), *calm], 10) == 200


def test_a_component_is_taken_from_calm_turns() -> None:
    rows = []
    for turn in range(7):
        took, stolen = (500, 0.3) if turn < 4 else (20, 0.0)
        rows += slices(turn, (100, 0), (300, 0))
        rows.append(line(turn, "rbac", 10, 100, latency_us=300 + took, stolen=stolen))
    (cost,) = made("\n".join([HEADER, *rows]) + "\n").profile.components
    assert cost.latency is not None
    assert cost.latency.base[0].figure.value == 20


def test_the_turns_of_a_line_are_those_that_are_calm_over_all_its_sizes() -> None:
    rows = []
    for turn in range(5):
        for size in (100, 1100):
            stolen = 0.3 if turn < 3 and size == 1100 else 0.0
            added = 900 if turn < 3 else (200 if size == 100 else 300)
            rows.append(line(turn, "none", 10, size, latency_us=100, stolen=0))
            rows.append(line(turn, "hop", 10, size, latency_us=100 + added, stolen=stolen))
    more = [row.replace("4,", "5,", 1) for row in rows if row.startswith("4,")]
    assert fitted_latency([*rows, *more], 10) == 200
    assert fitted_latency([*rows, *more], 10, 1100) == 300


def test_turns_without_the_share_beside_turns_with_it_all_count() -> None:
    """It is not known whether they were disturbed."""
    rows = [row for turn in range(3) for row in slices(turn, (100, ""), (900, ""))]
    rows += [row for turn in range(3, 5) for row in slices(turn, (100, 0), (300, 0))]
    assert fitted_latency(rows, 10) == 800


def test_an_interval_is_never_narrower_than_that_of_the_calm_turns() -> None:
    """Ten of twenty turns are disturbed and slower: the interval of all begins near the median of the calm ones."""
    rows = []
    for turn in range(20):
        calm = turn < 10
        added = 200 + 10 * turn if calm else 2000
        rows += slices(turn, (100, 0 if calm else 0.3), (100 + added, 0 if calm else 0.3))
    latency = made("\n".join([HEADER, *rows]) + "\n").profile.hops[0].parts[0].latency
    assert latency is not None
    (knot,) = latency.base
    assert knot.figure.value == 245
    assert knot.figure.low == 210
    assert knot.figure.high == 2000


def test_a_table_of_another_tool_lacks_the_column() -> None:
    lacking = "\n".join(row.removesuffix(",") for row in table().replace(",stolen", ",").splitlines())
    assert made(lacking) == made(table())


@pytest.mark.parametrize(("share", "said"), [("1.5", "between 0 and 1"), ("-0.1", "plain number"), ("3%", "plain")])
def test_what_is_no_share_of_the_time_has_its_line(share: str, said: str) -> None:
    ((code, at, message),) = mistakes("\n".join([HEADER, line(1, "hop", 10, 100, latency_us=1, stolen=share)]))
    assert (code, at) == ("ADM869", 2)
    assert said in message


@pytest.mark.parametrize("turns", [6, 8, 9, 12, 20, 40])
def test_intervals_hold_the_cost_of_calm_turns_as_often_as_they_say(turns: int) -> None:
    """Any number of turns up to the half is disturbed, and costs more."""
    draw = random.Random(turns)  # noqa: S311
    held = 0
    for _ in range(400):
        busy = draw.randrange(turns // 2 + 1)
        measured = [(round(draw.gauss(1000, 50) * UNIT), draw.uniform(0, 0.05)) for _ in range(turns - busy)]
        measured += [(round(draw.uniform(1200, 3000) * UNIT), draw.uniform(0.1, 0.4)) for _ in range(busy)]
        calm = calmest(measured, lambda each: each[1])
        found = weighted((1,), [(amount,) for amount, _ in calm], [(amount,) for amount, _ in measured], 1)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 1000 <= found.high
    assert held / 400 >= CONFIDENCE
