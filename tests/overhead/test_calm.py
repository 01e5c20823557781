"""Turns from which the host took time away do not move a figure, and are still in its interval."""

from __future__ import annotations

import random

import pytest

from admc.overhead.profile_import.calm import LEAST, UNDISTURBED, calmest
from admc.overhead.profiles.profile import CPU, LATENCY, law
from tests.overhead.test_fit import HEADER, MICROS, PER_BYTE, SECONDS, line, made, mistakes, table, value


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ([0.0] * 7, 7),
        ([UNDISTURBED] * 4, 4),
        ([0.3, 0.02, 0.2, 0.03, 0.1, 0.05, 0.4], 4),  # the half, rounded up
        ([0.3, 0.02, 0.2, 0.1], 3),  # at least so many
        ([0.2, 0.005, 0.3, 0.0, 0.001, 0.4, 0.01, 0.009], 5),  # all that were not disturbed
        ([0.2, 0.1], 2),
        ([], 0),
    ],
)
def test_the_calmest_are_kept(shares: list[float], kept: int) -> None:
    found = calmest(shares, lambda share: share)
    assert sorted(found) == sorted(shares)[:kept]
    assert LEAST == 3


def test_equal_turns_are_kept_together_so_that_their_order_means_nothing() -> None:
    values = [("a", 0.1), ("b", 0.2), ("c", 0.2), ("d", 0.2), ("e", 0.3), ("f", 0.4)]
    assert [name for name, _ in calmest(values, lambda each: each[1])] == ["a", "b", "c", "d"]


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
            rated = cost * (rate if quantity == CPU else 1)
            assert float(value(quantity, found, fitted, rate, 100)) == pytest.approx(float(rated), rel=1e-3)
    latency = law(part, LATENCY)
    assert latency is not None
    assert latency.base[0].figure.high is not None
    assert latency.base[0].figure.high > 3 * MICROS[5]
    unknown = made("\n".join([HEADER, *(row.rsplit(",", 1)[0] + "," for row in text.splitlines()[1:])]))
    assert float(value(LATENCY, unknown.profile.hops[0].parts[0].latency, unknown, 5, 100)) > 3 * MICROS[5]


def test_each_size_has_calm_turns_of_its_own() -> None:
    """A burst is shorter than a turn: it falls into the slices of one size, and of another one in another turn."""
    text = disturbed(table(turns=6), set(range(6)))
    rows = text.splitlines()
    head = rows[0].split(",")
    size, stolen = head.index("size"), head.index("stolen")
    calm = table(turns=6).splitlines()
    draw = random.Random(5)  # noqa: S311
    burst = {(turn, each) for each in ("100", "4000", "16000") for turn in draw.sample(range(6), 3)}
    mixed = [rows[0]]
    for row, clean in zip(rows[1:], calm[1:], strict=True):
        cells = row.split(",")
        if (int(cells[0]), cells[size]) not in burst:
            cells = clean.split(",")
            cells[stolen] = "0"
        mixed.append(",".join(cells))
    fitted = made("\n".join(mixed) + "\n")
    latency = fitted.profile.hops[0].parts[0].latency
    assert float(value(LATENCY, latency, fitted, 5, 4000)) == pytest.approx(
        float(MICROS[5] + PER_BYTE * 3900), rel=1e-3
    )


def test_a_table_of_another_tool_lacks_the_column() -> None:
    lacking = "\n".join(row.removesuffix(",") for row in table().replace(",stolen", ",").splitlines())
    assert made(lacking) == made(table())


@pytest.mark.parametrize(("share", "said"), [("1.5", "between 0 and 1"), ("-0.1", "plain number"), ("3%", "plain")])
def test_what_is_no_share_of_the_time_has_its_line(share: str, said: str) -> None:
    ((code, at, message),) = mistakes("\n".join([HEADER, line(1, "hop", 10, 100, latency_us=1, stolen=share)]))
    assert (code, at) == ("ADM869", 2)
    assert said in message
