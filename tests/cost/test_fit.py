"""Raw runs to a profile: known costs come back, noise is handled openly, and each mistake in the table has a line."""

from __future__ import annotations

import json
import random
import time
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.cost.profile_import.estimates import CONFIDENCE, certainties, interval
from admc.cost.profile_import.fit import Fitted, fit
from admc.cost.profile_import.runs import COLUMNS, read_runs
from admc.cost.profiles.law import function
from admc.cost.profiles.profile import CPU, LATENCY, Law, Platform, Proxy
from admc.cost.profiles.read import read_profile
from admc.cost.profiles.write import to_json
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.text import SourceText
from tests.cli.command import Admc
from tests.work import function_calls

RATES = (5, 100, 1600)
SIZES = (100, 4000, 16000)
IDLE = Fraction(2, 1000)
SECONDS = {5: Fraction("0.00144"), 100: Fraction("0.00064"), 1600: Fraction("0.00022")}
MICROS = {5: Fraction(800), 100: Fraction(400), 1600: Fraction(200)}
PER_BYTE = Fraction(1, 500)
CPU_PER_BYTE = Fraction(1, 10**9)
HEADER = ",".join(COLUMNS)


def line(turn: int, arm: str, rate: object = "", size: object = "", **cells: object) -> str:
    protocol = "" if arm == "idle" else "http"
    row = {"turn": turn, "arm": arm, "protocol": protocol, "rate": rate, "size": size, **cells}
    return ",".join(str(row.get(column, "")) for column in COLUMNS)


def number(value: Fraction) -> str:
    return f"{float(max(value, Fraction(0))):.9f}"


def table(turns: int = 9, noise: float = 0.0, seed: int = 1) -> str:
    """Runs of a machine with known costs, which also drifts: all latencies of one turn are slower by the same share."""
    draw = random.Random(seed)  # noqa: S311
    lines = [HEADER]
    for turn in range(turns):
        drift = Fraction(draw.randrange(0, 200))
        lines.append(line(turn, "idle", cpu_cores=number(IDLE), memory_bytes=30_000_000))
        for rate in RATES:
            for size in SIZES:
                shake = Fraction(1) + Fraction(draw.gauss(0, noise)).limit_denominator(10**6)
                base = 1000 + drift
                latency = (MICROS[rate] + PER_BYTE * (size - 100)) * shake
                cores = IDLE + (SECONDS[rate] + CPU_PER_BYTE * (size - 100)) * rate * shake
                lines.append(line(turn, "none", rate, size, latency_us=number(base)))
                lines.append(
                    line(
                        turn,
                        "hop",
                        rate,
                        size,
                        latency_us=number(base + latency),
                        cpu_cores=number(cores),
                        memory_bytes=5,
                    )
                )
                lines.append(
                    line(
                        turn,
                        "compressor",
                        rate,
                        size,
                        arguments="algorithm=gzip",
                        latency_us=number(base + latency + 50),
                        cpu_cores=number(cores + Fraction(rate, 10_000)),
                        memory_bytes=1005,
                    )
                )
    return "\n".join(lines) + "\n"


def made(text: str) -> Fitted:
    diagnostics = Diagnostics()
    runs = read_runs(SourceText("runs.csv", text), diagnostics)
    assert runs is not None, diagnostics.items
    return fit(runs, "node", Platform("machine", "system"), Proxy("envoy", "1.40"), Decimal("0.7"))


def mistakes(text: str) -> list[tuple[str, int, str]]:
    diagnostics = Diagnostics()
    assert read_runs(SourceText("runs.csv", text), diagnostics) is None
    return [(item.code, item.span.line if item.span else 0, item.message) for item in diagnostics.items]


def value(quantity: str, law: Law | None, fitted: Fitted, rate: int, size: int) -> Fraction:
    assert law is not None
    return function(quantity, law, fitted.profile.hops[0].sizes).estimate(Fraction(rate), size).amount.value


def test_known_costs_come_back() -> None:
    fitted = made(table())
    assert fitted.notes == ()
    (hop,) = fitted.profile.hops
    assert hop.runs == 9
    for rate in RATES:
        for size in SIZES:
            latency = value(LATENCY, hop.parts[0].latency, fitted, rate, size)
            assert abs(latency - MICROS[rate] - PER_BYTE * (size - 100)) < Fraction(1, 10**4)
            seconds = value(CPU, hop.parts[0].cpu, fitted, rate, size)
            assert abs(seconds - SECONDS[rate] - CPU_PER_BYTE * (size - 100)) < Fraction(1, 10**8)
    (compressor,) = fitted.profile.components
    assert compressor.arguments == {"algorithm": "gzip"}
    assert value(LATENCY, compressor.latency, fitted, 100, 4000) == 50
    assert abs(value(CPU, compressor.cpu, fitted, 100, 4000) - Fraction(1, 10_000)) < Fraction(1, 10**8)
    assert compressor.memory is not None
    assert compressor.memory.value == 1000
    assert fitted.profile.sidecar.idle_cpu is not None
    assert fitted.profile.sidecar.idle_cpu.value == Decimal("0.002")


def test_what_is_made_can_be_read() -> None:
    fitted = made(table(noise=0.2, seed=5))
    diagnostics = Diagnostics()
    assert read_profile(SourceText("node.json", to_json(fitted.profile)), diagnostics) == fitted.profile
    assert not diagnostics.items


@pytest.mark.parametrize("seed", range(20))
def test_noise_never_makes_a_profile_that_is_refused(seed: int) -> None:
    """CPU of a request that rises by noise is merged, and the notes say so."""
    fitted = made(table(turns=5, noise=0.8, seed=seed))
    diagnostics = Diagnostics()
    assert read_profile(SourceText("node.json", to_json(fitted.profile)), diagnostics) is not None, diagnostics.items


def test_figures_that_rise_are_merged_and_named() -> None:
    lines = [HEADER]
    for turn in range(5):
        for rate, cores in ((10, "0.01"), (20, "0.03"), (40, "0.02")):
            lines.append(line(turn, "none", rate, 100, latency_us=1))
            lines.append(line(turn, "hop", rate, 100, latency_us=2, cpu_cores=cores))
    fitted = made("\n".join(lines))
    law = fitted.profile.hops[0].parts[0].cpu
    assert law is not None
    assert [knot.figure.value / (knot.rate or 1) for knot in law.base] == [
        Decimal("0.00125"),
        Decimal("0.00125"),
        Decimal("0.0005"),
    ]
    assert fitted.notes == (
        "hop http: CPU of a request rises with the rate at 10/s, 20/s: these are merged into their mean",
    )


def test_a_cost_below_zero_is_zero_within_its_interval() -> None:
    lines = [HEADER]
    for turn, added in enumerate((-3, -2, -1, 1, -2, -1, 2)):
        lines.append(line(turn, "none", 10, 100, latency_us=100))
        lines.append(line(turn, "hop", 10, 100, latency_us=100 + added))
    law = made("\n".join(lines)).profile.hops[0].parts[0].latency
    assert law is not None
    figure = law.base[0].figure
    assert (figure.value, figure.low, figure.high) == (0, -3, 2)


def test_turns_that_cannot_be_compared_are_named() -> None:
    lines = [HEADER, line(1, "none", 10, 100, latency_us=1), line(2, "hop", 10, 100, latency_us=2)]
    fitted = made("\n".join(lines))
    assert fitted.profile.hops == ()
    assert fitted.notes == ("hop http: no turn has both `hop` and `none`",)


def test_a_burst_in_one_slice_spoils_no_other_size_of_its_turn() -> None:
    """Each turn has one slice that takes ten times as much, each time of another size."""
    sizes = (100, 1100, 2100, 3100, 4100)
    lines = [HEADER]
    for turn in range(5):
        for at, size in enumerate(sizes):
            latency = (100 + Fraction(size - 100, 100)) * (10 if at == turn else 1)
            lines.append(line(turn, "none", 10, size, latency_us=0))
            lines.append(line(turn, "hop", 10, size, latency_us=float(latency)))
    law = made("\n".join(lines)).profile.hops[0].parts[0].latency
    assert law is not None
    assert law.per_byte is not None
    assert (law.base[0].figure.value, law.per_byte[0].figure.value) == (100, Decimal("0.01"))


def slow_and_fast(slow: int) -> Fitted:
    """Ten turns, some of which take nine times as much and lack the largest size: it saturated the machine in these."""
    lines = [HEADER]
    for turn in range(10):
        for size in (100, 600, 1100):
            latency = (100 + Fraction(size - 100, 5)) * (9 if turn < slow else 1)
            lines.append(line(turn, "none", 10, size, latency_us=0))
            if turn >= slow or size < 1100:
                lines.append(line(turn, "hop", 10, size, latency_us=float(latency)))
    return made("\n".join(lines))


@pytest.mark.parametrize(
    ("slow", "base", "per_byte", "largest", "notes"),
    [
        (5, 100, Decimal("0.2"), 1100, ("hop http at 10/s: 5 of 10 turns are left out, since they lack a size",)),
        (6, 900, Decimal("1.8"), 600, ("hop http at 10/s: 1100 bytes are left out, since too many turns lack them",)),
    ],
)
def test_a_line_joins_no_sizes_of_different_turns(
    slow: int, base: int, per_byte: Decimal, largest: int, notes: tuple[str, ...]
) -> None:
    fitted = slow_and_fast(slow)
    (hop,) = fitted.profile.hops
    law = hop.parts[0].latency
    assert law is not None
    assert law.per_byte is not None
    assert (law.base[0].figure.value, law.per_byte[0].figure.value) == (base, per_byte)
    assert law.base[0].figure.low is not None
    assert law.base[0].figure.low <= base
    assert fitted.notes == notes
    assert hop.sizes is not None
    assert hop.sizes.high == largest


def test_a_size_that_saturates_the_machine_does_not_pull_the_others_to_zero() -> None:
    """A straight line to which all sizes count alike has -480 us for the smallest message, so zero."""
    rows = [HEADER]
    for turn in range(5):
        for size, latency in ((100, 600), (4096, 610), (16384, 640), (65536, 9000)):
            rows.append(line(turn, "none", 10, size, latency_us=100))
            rows.append(line(turn, "hop", 10, size, latency_us=100 + latency))
    latency = made("\n".join(rows)).profile.hops[0].parts[0].latency
    assert latency is not None
    assert 400 < latency.base[0].figure.value < 650


@pytest.mark.parametrize(
    ("figures", "certain"),
    [
        ([10, 20, 40], [1600, 400, 100]),
        ([10, 0, -10], [100, 2500, 100]),
        ([1000, 1], [100, 9801]),
        ([0, 0], [1, 1]),
        ([7], [100]),
    ],
)
def test_a_figure_counts_by_one_over_its_square_within_bounds(figures: list[int], certain: list[int]) -> None:
    assert certainties(figures) == certain


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_an_interval_contains_the_median(values: list[int]) -> None:
    fractions = [Fraction(value) for value in values]
    low, high = interval(fractions)
    assert (low is None) == (len(values) < 5)
    if low is not None and high is not None:
        assert low <= sorted(fractions)[len(fractions) // 2] <= high


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    draw = random.Random(7)  # noqa: S311
    held = 0
    for _ in range(1000):
        low, high = interval([Fraction(draw.random()).limit_denominator(10**6) for _ in range(9)])
        assert low is not None
        assert high is not None
        held += low <= Fraction(1, 2) <= high
    assert held / 1000 > CONFIDENCE


GOOD = line(1, "hop", 10, 100, latency_us=1)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (line(1, "hop", 10, 100, latency_us=-1), "not negative"),
        (line(1, "hop", 10, 100, latency_us="nan"), "plain number"),
        (line(1, "hop", 10, 100, latency_us="inf"), "plain number"),
        (line(1, "hop", 10, 100, latency_us="1e9"), "plain number"),
        (line(1, "hop", 10, 100, latency_us="12 ms"), "plain number"),
        (line(1, "hop", 10, 100, latency_us="9" * 16), "plain number"),
        (line(1, "hop", "", 100), "the rate is missing"),
        (line(1, "hop", 0, 100), "the rate is missing"),
        (line(1, "hop", 10, ""), "the size is missing"),
        (line(1, "hop", 10, "0.5"), "whole number of bytes"),
        (line(1, "hop", "0.0001", 5), "at most three digits"),
        (line(1, "none", 10, 100), "has a latency"),
        (line(1, "hopp", 10, 100), "no arm `hopp`"),
        (line(1, "hop", 10, 100, protocol="htpp"), "no protocol `htpp`"),
        (line(1, "tap", 10, 100, side="ingres"), "no side `ingres`"),
        (line(1, "fault", 10, 100, kind="fault_dely"), "no kind `fault_dely`"),
        (line(1, "compressor", 10, 100, arguments="algorithm"), "no argument"),
        (line(1, "hop", 10, 100, arguments="a=b"), "has no policy"),
        (line(1, "idle", 10), "an idle sidecar"),
        (line(1, "hop", 10, 100).replace("1,", ",", 1), "the turn is missing"),
        (line(1, "hop", 10, 100) + ",", "13 cells"),
        ('"1', "no CSV"),
        (line(1, "x" * 600, 10, 100), "more than 500 characters"),
    ],
)
def test_each_mistake_has_a_line(row: str, said: str) -> None:
    ((code, at, message),) = mistakes("\n".join([HEADER, GOOD, row, GOOD]))
    assert (code, at) == ("ADM869", 3)
    assert said in message


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (HEADER.replace("latency_us", "latency_ms"), "no column `latency_ms`"),
        (HEADER.replace(",latency_us", ""), "`latency_us` is missing"),
        (HEADER + ",turn", "given twice"),
        ("", "has no run"),
    ],
)
def test_a_wrong_header(head: str, said: str) -> None:
    ((code, _, message),) = mistakes(f"{head}\n{GOOD}\n" if head else "")
    assert code == "ADM869"
    assert said in message


def test_columns_may_stand_in_any_order() -> None:
    rows = [row.split(",") for row in table(turns=5).splitlines()]
    turned = "\n".join(",".join(reversed(row)) for row in rows)
    assert made(turned) == made(table(turns=5))


def test_the_order_of_lines_means_nothing() -> None:
    head, *rows = table(turns=5, noise=0.1).splitlines()
    random.Random(3).shuffle(rows)  # noqa: S311
    assert made("\n".join([head, *rows])).profile == made(table(turns=5, noise=0.1)).profile


ABOUT = ("--name", "node", "--machine", "two cores", "--system", "Linux", "--proxy", "envoy 1.40")


def test_the_command(admc: Admc, tmp_path: Path) -> None:
    runs, output = tmp_path / "runs.csv", tmp_path / "node.json"
    runs.write_text(table())
    run = admc("profile", "fit", runs, *ABOUT, "-o", output)
    assert (run.code, run.err) == (0, "")
    assert run.out == f"wrote `{output}`: http; 1 component\n"
    assert admc("profile", "validate", output).code == 0
    assert admc("profile", "fit", runs, *ABOUT).out == output.read_text()
    document = json.loads(admc("profile", "fit", runs, *ABOUT, "--format", "json").out)
    assert document["profile"]["saturation"] == 0.7


@pytest.mark.parametrize(
    ("text", "more", "code"),
    [
        ("", (), "ADM869"),
        (HEADER + "\n", (), "ADM869"),
        ("\n".join([HEADER, GOOD]), (), "ADM869"),
        (table(turns=1), ("--proxy", "envoy"), "ADM801"),
        (table(turns=1), ("--saturation", "many"), "ADM801"),
        (table(turns=1), ("--saturation", "-1"), "ADM801"),
        (table(turns=1), ("--name", "\x1b"), "ADM801"),
    ],
)
def test_what_the_command_refuses(admc: Admc, tmp_path: Path, text: str, more: tuple[str, ...], code: str) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(text)
    run = admc("profile", "fit", runs, *ABOUT, *more, "-o", tmp_path / "node.json")
    assert run.code == 1
    assert code in run.err
    assert not (tmp_path / "node.json").exists()


def test_the_table_is_not_overwritten(admc: Admc, tmp_path: Path) -> None:
    runs = tmp_path / "runs.csv"
    runs.write_text(table(turns=1))
    assert admc("profile", "fit", runs, *ABOUT, "-o", runs).code == 1
    assert runs.read_text() == table(turns=1)


def _rows(*cells: dict[str, object]) -> str:
    return "\n".join([HEADER, *(line(**each) for each in cells)]) + "\n"  # type: ignore[arg-type]


def _fit(admc: Admc, content: str) -> Any:
    Path("runs.csv").write_text(content)
    return admc(
        *("profile", "fit", "runs.csv", "--name", "lab", "--machine", "m", "--system", "s", "--proxy", "envoy 1.40")
    )


def test_an_arm_has_a_limited_number_of_rates(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The form of a profile has this limit too, and rates times turns would need much memory."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"turn": turn, "arm": arm, "rate": turn % 500 + 1, "size": 100, "latency_us": us}
        for turn in range(4000)
        for arm, us in (("none", 2), ("hop", 5))
    ]
    tracemalloc.start()
    run = _fit(admc, _rows(*rows))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert run.code == 1
    assert "error[ADM869]: the arm `none` has more than 100 rates" in run.err
    assert "runs.csv:202:1" in run.err
    assert most < 100_000_000


def test_an_arm_has_a_limited_number_of_sizes(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes times turns would need much time."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {"turn": turn, "arm": arm, "rate": 10, "size": turn, "latency_us": us}
        for turn in range(4000)
        for arm, us in (("none", 2), ("hop", 5))
    ]
    run = _fit(admc, _rows(*rows))
    assert run.code == 1
    assert "error[ADM869]: the arm `none` has more than 100 sizes" in run.err
    assert "runs.csv:202:1" in run.err


def test_the_number_of_arms_is_limited(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"turn": 1, "arm": f"own:c{at}", "rate": 10, "size": 100, "latency_us": 5} for at in range(1001)]
    run = _fit(admc, _rows(*rows))
    assert run.code == 1
    assert "error[ADM869]: the file has more than 1,000 arms" in run.err


def test_the_interval_of_many_turns_is_found_quickly() -> None:
    begun = time.process_time()
    low, high = interval([Fraction(value) for value in range(20_000)])
    assert time.process_time() - begun < 10
    assert low is not None
    assert high is not None
    # The normal distribution is close: 1.645 times half the root of the number of values, on each side.
    assert abs((high - low) / 2 - Fraction(1645, 2000) * 141) < 3


def test_the_work_for_a_run_is_bounded() -> None:
    """A table may have 200,000 runs. Calls are counted, since time depends on what else the machine does."""

    one, two = table(turns=20, noise=0.02), table(turns=60, noise=0.02)
    made(one)
    more = function_calls(lambda: made(two)) - function_calls(lambda: made(one))
    assert more < 150 * (two.count("\n") - one.count("\n"))


def test_an_error_in_the_result_names_the_table(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    of = {"turn": 1, "rate": 10, "size": 100}
    rows = [{**of, "arm": "none", "latency_us": 1}, {**of, "arm": "hop", "latency_us": 5}]
    rows.append({**of, "arm": "compressor", "kind": "compression", "arguments": "algoritm=gzip", "latency_us": 9})
    run = _fit(admc, _rows(*rows))
    assert run.code == 1
    assert "no profile can be made of `runs.csv`: `compressor` has no parameter `algoritm`" in run.err
    assert "lab.json" not in run.err
