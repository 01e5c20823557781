"""Which loads a slice has, and what its rows say. The bed is a stand-in: a real one cannot saturate one arm at will."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from admc.cost.measurement import design
from admc.cost.measurement.bed import Bed, Load, Measured, Received, Tools
from admc.cost.measurement.design import Grid, Highest
from admc.cost.measurement.layout import Layout
from admc.cost.measurement.session import Task, _Session, arms
from admc.cost.measurement.stack_slices import StackSlices
from admc.cost.measurement.table import Channel, Row
from admc.cost.measurement.uses import of_prelude
from dsl.program import Protocol
from emitters.envoy import Mode

GRID = Grid((100, 4096), 2, 40.0, 0.1, 0.1, 10, 0.02, 1)
USE = next(use for use in of_prelude() if use.kind.name == "set_request_header" and use.protocol is Protocol.HTTP)


class Slice(NamedTuple):
    loads: tuple[Load, ...]
    pods: tuple[str, ...]


class StandIn:
    """A bed in which each request through a sidecar takes 2 ms of CPU and 900 us, and one past it 400 us."""

    def __init__(self, layout: Layout, change: Callable[[Load, Received], Received]) -> None:
        self.layout = layout
        self.slices: list[Slice] = []
        self.change = change

    def measure(self, loads: Sequence[Load], seconds: float, warm: float, pods: Sequence[str]) -> Measured:
        self.slices.append(Slice(tuple(loads), tuple(pods)))
        found = []
        cpu = 0.0
        for load in loads:
            sent = round(load.rate)
            through = self.through(load)
            found.append(self.change(load, Received(sent, 0, "", 900.0 if through else 400.0, 10.0)))
            cpu += 0.002 * sent if through else 0.0
        return Measured(tuple(found), seconds, dict.fromkeys(pods, cpu), 0.07)

    def through(self, load: Load) -> bool:
        return load.to in [self.layout.through(arm) for arm in self.layout.arms]

    def forget_taps(self) -> None:
        pass


class Stacks:
    """Where stacks can be sampled."""

    allowed = True

    def __init__(self) -> None:
        self.under_loads: list[tuple[str, tuple[Load, ...]]] = []

    def idle(self, turn: str) -> None:
        pass

    def under(self, pod: str, loads: Sequence[Load], *_: object) -> None:
        self.under_loads.append((pod, tuple(loads)))


class Run(NamedTuple):
    bed: StandIn
    stacks: Stacks
    rows: list[Row]
    notes: list[str]

    def of(self, arm: str, rate: float) -> list[Row]:
        """Of the bare hop that is measured against no proxy."""
        return [row for row in self.rows if row.arm.name == arm and row.arm.side is None and row.rate == rate]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def made(highest: float = 200.0, change: Callable[[Load, Received], Received] = lambda _, found: found) -> Run:
        monkeypatch.setattr(design, "ceiling", lambda _: Highest(highest, "of the test"))
        task = Task((USE,), USE, (Protocol.HTTP,), GRID, 60.0, Tools("", ""), tmp_path)
        layout = Layout(arms(task.protocols, task.uses), Mode.EXPLICIT, GRID.sizes, tmp_path)
        found = Run(StandIn(layout, change), Stacks(), [], [])
        channel = Channel(lambda _: None, found.rows.append, found.notes.append, lambda *_: None)
        bed, stacks = cast("Bed", found.bed), cast("StackSlices", cast("Any", found.stacks))
        session = _Session(task, channel, bed, time.monotonic() + 60, stacks)
        groups = session.groups()
        found.bed.slices.clear()
        for turn in range(2):
            for group in groups:
                session._turn(group, turn)
        return found

    return made


def streams(found: Run, rate: float) -> list[list[bool]]:
    """For each slice of bare hops, whether each of its streams passes the sidecar."""
    return [
        [found.bed.through(load) for load in each.loads]
        for each in found.bed.slices
        if each.pods == ("http_hop",) and each.loads[0].rate == rate
    ]


def test_requests_through_a_hop_and_past_it_alternate_at_low_rates_alone(run: Callable[..., Run]) -> None:
    found = run()
    assert streams(found, 40.0) == [[False, True], [False, True], [True, False], [True, False]]
    assert sorted(streams(found, 200.0)) == [[False]] * 4 + [[True]] * 4
    assert all(len(each.loads) == 1 for each in found.bed.slices if each.pods != ("http_hop",))


def test_a_machine_that_takes_no_more_than_a_low_rate_gets_no_more_than_that(run: Callable[..., Run]) -> None:
    found = run(highest=100.0)
    assert all(len(each) == 2 for each in streams(found, 40.0))
    assert all(len(each) == 1 for each in streams(found, 100.0))
    assert all(sum(load.rate for load in each.loads) <= 100 for each in found.bed.slices)


def test_each_turn_measures_bare_hops_at_both_sides_and_each_size_at_both_in_two_turns(run: Callable[..., Run]) -> None:
    found = run()
    measured = [
        (index // 2, load.size, next(arm.side for arm in found.bed.layout.arms if arm.name == name))
        for index, each in enumerate(each for each in found.bed.slices if each.loads[0].rate == 40.0)
        for load in each.loads
        if each.pods == ("http_hop",)
        for name in [arm.name for arm in found.bed.layout.arms if found.bed.layout.through(arm) == load.to]
    ]
    for turn in range(2):
        assert len({side for at, _, side in measured if at == turn}) == 2
    for size in GRID.sizes:
        assert len({side for _, each, side in measured if each == size}) == 2


def test_the_sidecar_takes_cpu_for_its_own_requests_whichever_stream_comes_first(run: Callable[..., Run]) -> None:
    found = run()
    assert [row.cores for row in found.of("hop", 40.0)] == pytest.approx([0.08] * 4)
    assert {row.cores for row in found.of("none", 40.0)} == {None}
    assert {row.latency for row in found.of("hop", 40.0)} == {900.0}
    assert {row.latency for row in found.of("none", 40.0)} == {400.0}
    assert {row.stolen for row in found.rows} == {0.07}


def test_a_stream_that_fails_is_left_out_and_the_other_one_stays(run: Callable[..., Run]) -> None:
    found = run(change=lambda _, one: one._replace(failed=1, error="refused") if one.latency == 900.0 else one)
    assert not found.of("hop", 40.0)
    assert len(found.of("none", 40.0)) == 4
    assert "hop at 40/s, 100 bytes: a slice is left out (refused)" in found.notes


def test_a_saturated_hop_has_no_latency_and_no_proxy_has_one(run: Callable[..., Run]) -> None:
    found = run(change=lambda load, one: one._replace(sent=1) if load.rate == 40.0 and one.latency == 900.0 else one)
    assert {row.latency for row in found.of("hop", 40.0)} == {None}
    assert {row.latency for row in found.of("none", 40.0)} == {400.0}


def test_stacks_are_sampled_under_the_loads_whose_cpu_they_share(run: Callable[..., Run]) -> None:
    found = run()
    sampled = found.stacks.under_loads
    assert {pod for pod, _ in sampled} == {"http_hop"}
    by_rate = {load.rate: [found.bed.through(each) for each in loads] for _, loads in sampled for load in loads}
    assert by_rate == {40.0: [True, False], 200.0: [True]}
