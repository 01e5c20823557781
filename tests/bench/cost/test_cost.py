"""The parts of the cost bench whose mistakes would not show in a figure."""

from __future__ import annotations

import io
import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

import dsl
from dsl.program import Place
from tests import golang
from tests.bench.cost import report, suite, usage
from tests.bench.cost.__main__ import WIDTH
from tests.bench.cost.arm import CostError, Load, _marked, read_outcomes
from tests.bench.cost.figures import COMPILED, Arm, Outcome, Use, Window, added, percentile, ratio
from tests.bench.cost.schedule import PREMIUM, schedule
from tests.bench.cost.suite import HOTEL, order, textbook
from tests.bench.cost.walk import PAGES, Page, UndeclaredError, Visit, calls_made, configurations, reached
from tests.bench.errors import SkippedError
from tests.testbed.mesh import Mode

MS = 1_000_000
LOAD = Load(10, 1, 10)


def _window(milliseconds: int, proxies: float = 0.0, late: int = 0, status: str = "200") -> Window:
    outcomes = (Outcome(late * MS, milliseconds * MS, False, "200"),) * 99 + (Outcome(late * MS, 2**40, False, status),)
    used = Use(int(proxies > 0), proxies, 10_000_000, 20_000_000)
    return Window(outcomes, 10.0, used, Use(0, 0, 0, 0), Use(17, 1.0, 1, 1), 0.5, 3.0 + proxies, 0.0)


ROUNDS = [
    {
        Arm.NONE: _window(2),
        Arm.FULL: _window(6, 4.0),
        Arm.ADMS: _window(4, 1.0),
        Arm.CPU: _window(4, 0.8),
        Arm.LATENCY: _window(3, 2.0),
        Arm.NETWORK: _window(4, 1.5),
    },
    {
        Arm.NONE: _window(4),
        Arm.FULL: _window(8, 2.0),
        Arm.ADMS: _window(5, 1.0),
        Arm.CPU: _window(6, 0.4),
        Arm.LATENCY: _window(5, 1.0),
        Arm.NETWORK: _window(6, 0.6),
    },
]


def test_requests_are_at_even_distances_whatever_happens() -> None:
    planned = schedule(PAGES, 250, 2)
    assert [each.after for each in planned] == [index * 4000 for index in range(500)]


def test_a_distance_that_is_no_whole_number_adds_up() -> None:
    planned = schedule(PAGES, 300, 10)
    assert planned[-1].after == round(2999 * 1_000_000 / 300)
    assert {b.after - a.after for a, b in pairwise(planned)} == {3333, 3334}


def test_every_mode_and_round_gets_the_same_requests_in_the_benchmarks_mixture() -> None:
    planned = schedule(PAGES, 1000, 20)
    assert planned == schedule(PAGES, 1000, 20)
    assert planned != schedule(PAGES, 1000, 20, seed=2)
    counts = Counter(each.path for each in planned)
    whole = sum(page.share for page in PAGES)
    for page in PAGES:
        wanted = 20_000 * page.share / whole
        assert abs(counts[page.path] - wanted) < 5 * wanted**0.5, page.path
    premium = sum(each.membership == "premium" for each in planned)
    assert abs(premium - 20_000 / PREMIUM) < 250


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [
        ([5], 0.5, 5),
        ([4, 1, 3, 2], 0.5, 2),
        (range(1, 101), 0.99, 99),
        (range(1, 1001), 0.999, 999),
        (range(1, 1002), 0.999, 1000),
        (range(1, 11), 0.99, 10),
        (range(1, 11), 1, 10),
        (range(1, 11), 0.01, 1),
    ],
)
def test_a_percentile_is_the_smallest_value_that_the_part_does_not_exceed(
    values: list[int], part: float, expected: int
) -> None:
    assert percentile(list(values), part) == expected


@pytest.mark.parametrize(("values", "part"), [([], 0.5), ([1], 0), ([1], 1.1)])
def test_there_is_no_percentile_of_nothing_and_none_outside(values: list[int], part: float) -> None:
    with pytest.raises(ValueError, match=r"nothing|no part"):
        percentile(values, part)


def test_ratios_are_taken_within_a_round() -> None:
    found = ratio(ROUNDS, Arm.FULL, Arm.NONE, lambda window: window.latency(0.5))
    assert found is not None
    assert (found.low, found.median, found.high) == (2.0, 2.5, 3.0)
    assert added(ROUNDS, Arm.ADMS, Arm.NONE, 0.5) == [2.0, 1.0]
    assert ratio(ROUNDS, Arm.FULL, Arm.NONE, lambda window: window.proxies.cpu) is None


def test_each_arm_has_each_turn_equally_often() -> None:
    turns = [order(number) for number in range(2 * len(Arm))]
    for place in range(len(Arm)):
        assert Counter(turn[place] for turn in turns) == dict.fromkeys(Arm, 2)


def test_every_step_of_the_application_is_a_declared_call() -> None:
    program = dsl.load(HOTEL)
    declared = {(call.source, call.destination) for call in program.calls}
    assert calls_made() <= declared
    # What these read from their databases at their start stays in their memory.
    assert declared - calls_made() == {(name, f"mongodb-{name}") for name in ("geo", "recommendation", "user")}


def test_what_a_page_reaches_is_known_but_for_what_a_cache_decides() -> None:
    assert reached({"/recommendations"}) == {"frontend", "recommendation", "profile", "memcached-profile"}
    assert reached({page.path for page in PAGES}) == {name for _, name in calls_made()} - {
        "mongodb-rate",
        "mongodb-profile",
    }


def test_each_process_has_the_addresses_of_its_callees() -> None:
    program = dsl.load(HOTEL)
    found = configurations(program, {name: f"<{name}>" for name in program.services})
    assert found.keys() == program.services.keys()
    assert found["mongodb-geo"] == {"listen": [{"port": 27017, "protocol": "tcp"}], "routes": {}}
    assert found["frontend"]["routes"].keys() == {page.path for page in PAGES}
    assert found["search"]["routes"]["/search.Search/Nearby"]["reply"] == 420
    steps = found["rate"]["routes"]["/rate.Rate/GetRates"]["steps"]
    assert [(step["address"], step["protocol"], step["every"]) for step in steps] == [
        ("<memcached-rate>:11211", "tcp", 1),
        ("<mongodb-rate>:27017", "tcp", 10),
    ]


def test_a_call_that_is_not_declared_is_refused() -> None:
    program = dsl.load(HOTEL)
    pages = (Page("/", 1, (Visit("search", "/s", (Visit("user", "/u"),)),)),)
    with pytest.raises(UndeclaredError, match="`search -> user`"):
        configurations(program, dict.fromkeys(program.services, ""), pages)


def test_the_full_mesh_has_every_policy_at_its_textbook_side() -> None:
    wide, placement = textbook(dsl.load(HOTEL))
    assert all(service.hosts_adm for service in wide.services.values())
    sides = {(each.policy, each.destination): each.place.value for each in placement.decisions}
    assert sides["rate_readers", "rate"] == "ingress"
    assert sides["booking_db", "mongodb-reservation"] == "ingress"
    assert sides["flaky_geo", "geo"] == "egress"


def test_cpu_and_memory_are_read_as_the_kernel_writes_them() -> None:
    fields = ["S", "1", "1", "1", "0", "-1", "4194560", "1", "2", "3", "4", "250", "50", "7", "8", "20", "0"]
    assert usage.cpu_of(f"42 (a (strange) name) {' '.join(fields)}\n") == 300 / usage.TICK
    rollup = "00400000-7fff [rollup]\nRss:     1744 kB\nPss:      265 kB\nPss_Dirty:  116 kB\n"
    assert usage.memory_of(rollup) == (265 * 1024, 1744 * 1024)
    found = usage.machine_of("cpu  10 20 30 400 50 6 7 80 3 4\ncpu0 1 2 3\n")
    assert found == (73 / usage.TICK, 80 / usage.TICK)


def test_a_process_that_works_is_seen_to_work() -> None:
    before = usage.cpu(os.getpid())
    while usage.cpu(os.getpid()) < before + 0.05:
        sum(range(10_000))
    assert usage.memory([os.getpid()]).rss >= usage.memory([os.getpid()]).pss > 1_000_000


def test_outcomes_are_read_with_errors_as_they_were_worded() -> None:
    text = '5000\t2000000\ttrue\t200\n0\t9\tfalse\tPost "http://10.2.0.1:80/": connection refused\n'
    first, second = read_outcomes(text)
    assert first == Outcome(5000, 2_000_000, True, "200")
    assert second.status.endswith("connection refused")


@pytest.mark.parametrize(
    ("mode", "marks", "wrong"),
    [
        (Mode.NONE, (False, False), None),
        (Mode.NONE, (False, True), "1 of 2 answers"),
        (Mode.FULL, (True, True), None),
        (Mode.COMPILED, (True, False), "1 of 2 answers"),
    ],
)
def test_figures_of_a_mesh_that_enforces_nothing_are_refused(
    mode: Mode, marks: tuple[bool, ...], wrong: str | None
) -> None:
    outcomes = [Outcome(0, 1, mark, "200") for mark in marks]
    if wrong is None:
        _marked(mode, outcomes)
        return
    with pytest.raises(CostError, match=wrong):
        _marked(mode, outcomes)


def test_nothing_that_was_answered_is_no_figure() -> None:
    with pytest.raises(CostError, match=r"nothing was answered.*refused"):
        _marked(Mode.FULL, [Outcome(0, 1, False, "connection refused")])


def test_the_tables_have_every_figure_once() -> None:
    out = io.StringIO()
    Console(file=out, width=WIDTH).print(*report.tables(ROUNDS), sep="\n")
    assert "6.00 .. 8.00" in out.getvalue()
    lines = report.markdown(ROUNDS).splitlines()
    assert any(
        line.startswith("| latency p50, ms | 3.00 (2.00 .. 4.00) | 7.00 (6.00 .. 8.00) | 4.50 (4.00 .. 5.00) |")
        for line in lines
    )
    (compared,) = (line for line in lines if line.startswith("| latency p50, ms | 2.50"))
    assert compared.startswith("| latency p50, ms | 2.50 (2.00 .. 3.00) | 0.65 (0.62 .. 0.67) | 0.71 (0.67 .. 0.75) |")
    assert "| CPU of proxies, s for 1,000 requests | - | 0.38 (0.25 .. 0.50) | 0.20 (0.20 .. 0.20) | " in "\n".join(
        lines
    )
    assert "| added to p50 by the mesh, ms | - | 0.38 (0.25 .. 0.50) | 0.50 (0.50 .. 0.50) | " in "\n".join(lines)
    assert max(len(line) for line in out.getvalue().splitlines()) <= WIDTH


def test_the_best_arm_is_named_beside_its_goal() -> None:
    said = [line for _, line in report.goals(ROUNDS)]
    assert said == [
        "added p50: the best arm has 0.25 of the full mesh (by latency); goal 0.48: met",
        "CPU of proxies: the best arm has 0.20 of the full mesh (by cpu); goal 0.45: met",
    ]
    worse = [{**found, **dict.fromkeys(COMPILED, found[Arm.FULL])} for found in ROUNDS]
    assert all(line.endswith(": missed") for _, line in report.goals(worse))


def test_each_compiled_arm_minimizes_its_metric() -> None:
    program = dsl.load(HOTEL)
    placements = {arm: suite.compiled(program, arm)[1] for arm in COMPILED}
    for arm, metric in COMPILED.items():
        assert placements[arm].objectives[0].metric == metric
    in_network = {arm for arm, found in placements.items() if Place.NETWORK in {each.place for each in found.decisions}}
    assert in_network == {Arm.NETWORK}
    assert len(placements[Arm.ADMS].adms) == min(len(found.adms) for found in placements.values())


def test_errors_and_a_late_generator_are_reasons_to_doubt() -> None:
    assert not any("error" in line for doubtful, line in report.remarks(ROUNDS, LOAD) if doubtful)
    bad = [{**ROUNDS[0], Arm.FULL: _window(6, 4.0, late=1, status="503")}]
    doubted = [line for doubtful, line in report.remarks(bad, LOAD) if doubtful]
    assert any(line.startswith("full: 100 requests, errors: 1 x 503") for line in doubted)
    assert any(line.startswith("full: the generator sent late by 1.000 ms") for line in doubted)


def test_without_go_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(golang, "go", lambda: None)
    monkeypatch.setattr(suite, "missing", list)
    with pytest.raises(SkippedError, match=r"this machine lacks Go; .*\. Skipped without it: what a mesh costs"):
        suite.cost(Console(), tmp_path, 1)
