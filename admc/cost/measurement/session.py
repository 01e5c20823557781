"""Runs one measurement, from the first process to the last slice, in a process of its own (`child`).

    Task -> [run] -> idle sidecar -> arms in one bed -> ceiling of each protocol -> turns until intervals are narrow
        -> rows, notes and facts through the Channel

A row is sent as soon as it is measured (those of the idle sidecar together), so an interrupted measurement keeps its
rows. The budget ends the turns, but for the first turn (with `Grid.strict`: its bare hops).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from admc.cost.measurement import design
from admc.cost.measurement.bed import Bed, Load, Received, Tools
from admc.cost.measurement.design import Cell, Grid, Sample, SliceGroup, Tried
from admc.cost.measurement.layout import Arm, Destination, Layout
from admc.cost.measurement.network import NetworkError, isolate
from admc.cost.measurement.sidecar import Idle, idle
from admc.cost.measurement.stack_slices import IDLE_SECONDS, StackSlices
from admc.cost.measurement.table import Channel, Row
from admc.cost.measurement.uses import Use
from admc.cost.profile_import import runs
from dsl.program import Protocol, Side
from emitters.envoy import Mode

_PROBE_SECONDS = 0.4


@dataclass(frozen=True)
class Task:
    uses: tuple[Use, ...]
    header: Use
    """The policy by which the memory of one more policy is measured."""
    protocols: tuple[Protocol, ...]
    grid: Grid
    seconds: float
    """The budget, from the start of `run`."""
    tools: Tools
    folder: Path


def run(task: Task, channel: Channel) -> None:
    """Raises `ProcessError`, `NetworkError`, `OSError`, `EmitError`."""
    until = time.monotonic() + task.seconds
    mode = _mode(channel)
    idle_costs = idle(mode, task.folder, task.tools, task.header, task.grid.idle, 1.0, channel.progress)
    _report_idle(idle_costs, channel)
    layout = Layout(arms(task.protocols, task.uses), mode, task.grid.sizes, task.folder / "tapped")
    with Bed(layout, task.folder / "bed", task.tools) as bed:
        session = _Session(task, channel, bed, until, StackSlices(bed, _hop_pod(task.protocols[0]), channel))
        session.check()
        session.turns(session.groups())


def _mode(channel: Channel) -> Mode:
    try:
        isolate()
    except NetworkError as error:
        channel.fact("mode", Mode.EXPLICIT.value)
        channel.note(f"connections were not redirected, since {error}: the load dialled the sidecars' own addresses")
        return Mode.EXPLICIT
    channel.fact("mode", Mode.REDIRECT.value)
    return Mode.REDIRECT


def _report_idle(idle_costs: Idle, channel: Channel) -> None:
    for row in idle_costs.rows:
        channel.row(row)
    channel.fact("memory", {"hop": idle_costs.hop, "policy": idle_costs.policy, "connection": idle_costs.connection})


def _hop_pod(protocol: Protocol) -> str:
    """The pod whose sidecar has only bare hops of a protocol: other hops in a sidecar make each request dearer."""
    return f"{protocol}_hop"


def _component_pod(protocol: Protocol, side: Side) -> str:
    """The pod whose sidecar has the hops with a component, and the bare hop that they are compared with."""
    return f"{protocol}_{side}"


def bare(protocol: Protocol, side: Side) -> str:
    """The name of the arm whose bare hop is measured."""
    return f"{protocol} hop at {side}"


def compared(protocol: Protocol, side: Side) -> str:
    """The name of the arm with the bare hop that components are compared with."""
    return f"{protocol} hop beside components at {side}"


def arms(protocols: Sequence[Protocol], uses: Sequence[Use]) -> tuple[Arm, ...]:
    """The arms of all hops that are measured."""
    all_arms = [
        Arm(bare(protocol, side), _hop_pod(protocol), side, protocol) for protocol in protocols for side in Side
    ]
    for protocol, side in dict.fromkeys((use.protocol, use.side) for use in uses):
        all_arms.append(Arm(compared(protocol, side), _component_pod(protocol, side), side, protocol))
    all_arms += [
        Arm(title(use), _component_pod(use.protocol, use.side), use.side, use.protocol, (use,)) for use in uses
    ]
    return tuple(all_arms)


def title(use: Use) -> str:
    """The name of the arm of a use: `compressor (http, compression, algorithm=gzip)`."""
    choices = [f"{name}={value}" for name, value in use.key.arguments]
    return f"{use.key.name} ({', '.join([use.protocol, use.kind.name, *choices])})"


@dataclass
class _Session:
    task: Task
    channel: Channel
    bed: Bed
    until: float
    stacks: StackSlices
    samples: dict[tuple[str, str, Cell], list[Sample]] = field(default_factory=dict)
    """The samples of all turns, by group, arm and cell."""
    broken: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.arms = {arm.name: arm for arm in self.bed.layout.arms}
        self.use = {title(use): use for use in self.task.uses}

    # ---- before the first turn ----

    def check(self) -> None:
        """Note the arms whose requests fail. Those of components are left out."""
        self.channel.progress("checking each arm")
        for arm in self.arms.values():
            size = self.task.grid.sizes[0]
            received = self.bed.measure([Load(self.bed.layout.through(arm), 100, size)], 0.05, 0.0, []).loads[0]
            if received.failed:
                self.broken.add(arm.name)
                self.channel.note(f"{arm.name}: not measured, since its requests fail ({received.error})")

    def groups(self) -> list[SliceGroup]:
        groups: list[SliceGroup] = []
        for protocol in self.task.protocols:
            highest = design.ceiling(lambda rate, protocol=protocol: self._try(protocol, rate))  # type: ignore[misc]
            rates = design.rates(highest.rate, self.task.grid)
            self.channel.fact(f"ceiling_{protocol}", [rates[-1], highest.why])
            name = f"{protocol} hop"
            for rate in rates:
                cells = tuple(Cell(rate, size) for size in self.task.grid.sizes)
                sampled = (cells[0], cells[-1]) if self.stacks.allowed else ()
                arms = (runs.NONE, runs.HOP)
                alternate = rate <= min(design.ALTERNATE_RATE, highest.rate / 2)
                groups.append(
                    SliceGroup(f"{name} at {rate:g}/s", protocol, Side.INGRESS, arms, cells, sampled, alternate)
                )
            for side in Side:
                uses = [use for use in self.task.uses if use.protocol is protocol and use.side is side]
                names = [name for name in map(title, uses) if name not in self.broken]
                for cells in design.component_cells(rates, self.task.grid) if names else ():
                    at = f"{protocol} components at {side}, {cells[0].rate:g}/s"
                    groups.append(SliceGroup(at, protocol, side, (compared(protocol, side), *names), cells))
        # Bare hops come first: without them there is no profile, and an interrupt may come at any time.
        return sorted(groups, key=lambda group: group.arms[0] != runs.NONE)

    def _try(self, protocol: Protocol, rate: float) -> Tried:
        self.channel.progress(f"looking for the highest rate: {protocol}, {rate:.0f}/s")
        arm = self.arms[bare(protocol, Side.INGRESS)]
        load = Load(self.bed.layout.through(arm), rate, self.task.grid.sizes[-1])
        measured = self.bed.measure([load], _PROBE_SECONDS, 0.1, [arm.pod])
        one = measured.loads[0]
        return Tried(_cores(measured.cpu[arm.pod], one, rate), one.latency, one.failed, one.late, measured.stolen)

    # ---- turns ----

    def turns(self, groups: Sequence[SliceGroup]) -> None:
        """Measure all groups turn by turn, until each is narrow or the time is up."""
        done = dict.fromkeys((group.name for group in groups), 0)
        narrow = dict.fromkeys(done, False)
        turn = complete = 0
        in_time = True
        while in_time and not all(narrow.values()):
            if not turn or time.monotonic() + IDLE_SECONDS < self.until:
                self.stacks.idle(f"{turn + 1}")
            for group in groups:
                if narrow[group.name]:
                    continue
                needed = not turn and (group.arms[0] == runs.NONE or not self.task.grid.strict)
                if not needed and time.monotonic() + group.seconds(self.task.grid) > self.until:
                    in_time = False
                    continue  # a shorter group may still be in time
                self._turn(group, turn)
                done[group.name] += 1
                narrow[group.name] = done[group.name] >= design.LEAST_TURNS and self._is_narrow(group)
            turn += 1
            complete += in_time
        self.channel.fact("turns", complete)
        for line in design.unreached(done, narrow):
            self.channel.note(line)

    def _turn(self, group: SliceGroup, turn: int) -> None:
        left = max(0.0, self.until - time.monotonic())
        self.channel.progress(f"turn {turn + 1}: {group.name}; {left / 60:.0f} min left")
        for at, cell in enumerate(group.cells):
            side = _side(group, turn + at)
            of_turn: dict[str, list[Sample]] = {}
            for names in group.slices(turn):
                for name, sample in self._slice(group, names, side, cell, turn):
                    of_turn.setdefault(name, []).append(sample)
            for name, samples in of_turn.items():
                mean = Sample(
                    sum(sample.cores for sample in samples) / len(samples),
                    sum(sample.latency for sample in samples) / len(samples),
                )
                self.samples.setdefault((group.name, name, cell), []).append(mean)
        for cell in group.sampled:
            self._sampled(group, _side(group, turn + group.cells.index(cell)), cell, turn)

    def _slice(
        self, group: SliceGroup, names: Sequence[str], side: Side, cell: Cell, turn: int
    ) -> Iterator[tuple[str, Sample]]:
        """Measure one slice, with the requests of one arm or of two that alternate. Yields the sample of each
        arm without a failed request."""
        hop = self.arms[bare(group.protocol, side)]
        pod = self.arms.get(names[0], hop).pod
        loads = [Load(self._destination(name, hop), cell.rate, cell.size) for name in names]
        seconds = design.slice_seconds(cell.rate, self.task.grid)
        warm = design.warm_seconds(cell.rate, self.task.grid)
        measured = self.bed.measure(loads, seconds, warm, [pod])
        self.bed.forget_taps()
        for name, one in zip(names, measured.loads, strict=True):
            at = f"{name} at {cell.rate:g}/s, {cell.size} bytes"
            if one.failed:
                self.channel.note(f"{at}: a slice is left out ({one.error})")
                continue
            cores = 0.0 if name == runs.NONE else _cores(measured.cpu[pod], one, cell.rate)
            saturated = cores > design.WORKER_SHARE
            if saturated:
                self.channel.note(f"{at}: no latency, since it saturates a worker")
            self.channel.row(
                Row(
                    f"{turn + 1}",
                    self._key(name, side),
                    group.protocol,
                    cell.rate,
                    cell.size,
                    None if saturated else one.latency,
                    None if name == runs.NONE else cores,
                    stolen=measured.stolen,
                )
            )
            yield name, Sample(cores, one.latency)

    def _destination(self, name: str, hop: Arm) -> Destination:
        return self.bed.layout.past(hop) if name == runs.NONE else self.bed.layout.through(self.arms.get(name, hop))

    def _sampled(self, group: SliceGroup, side: Side, cell: Cell, turn: int) -> None:
        """Measure a slice in which stacks are sampled."""
        measured = self.samples.get((group.name, runs.HOP, cell))
        if measured:
            arm = self.arms[bare(group.protocol, side)]
            names = (runs.HOP, runs.NONE) if group.alternate else (runs.HOP,)
            loads = [Load(self._destination(name, arm), cell.rate, cell.size) for name in names]
            seconds = design.slice_seconds(cell.rate, self.task.grid)
            warm = design.warm_seconds(cell.rate, self.task.grid)
            self.stacks.under(arm.pod, loads, seconds, warm, measured[-1].cores, f"{turn + 1}")

    def _key(self, name: str, side: Side) -> runs.Arm:
        """The arm as the table names it. Components are compared with the bare hop that has a side."""
        if name in (runs.NONE, runs.HOP):
            return runs.Arm(name)
        return self.use[name].key if name in self.use else runs.Arm(runs.HOP, side)

    def _is_narrow(self, group: SliceGroup) -> bool:
        first, *others = group.arms
        for name in others:
            for cell in group.cells:
                ours = self.samples.get((group.name, name, cell), [])
                theirs = self.samples.get((group.name, first, cell), [])
                if len(ours) != len(theirs) or not design.is_narrow(ours, theirs):
                    return False
        return True


def _side(group: SliceGroup, number: int) -> Side:
    """The side of a slice. In each turn, bare hops are measured with every second size at one side and with the other
    sizes at the other; the next turn swaps the sides."""
    return group.side if group.arms[0] != runs.NONE else list(Side)[number % 2]


def _cores(seconds: float, load: Received, rate: float) -> float:
    """Cores by the CPU of one request and the rate: a slice ends a little later than its last request."""
    return seconds / load.sent * rate
