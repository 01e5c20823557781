"""Makes a profile from raw runs.

    Run after Run -> medians in each turn (`run_medians`) -> differences within a turn -> medians over the calmest turns
        (`calm`) -> lines over sizes (`estimates`) -> components drawn together over rates (`pooled`) -> Fitted

The latency of a hop is the difference between a bare hop and no proxy; its CPU is that of the sidecar, less that of an
idle one. The cost of a component is the difference between a hop with one policy and a bare hop: the bare hop of its
own side, if bare hops were measured by side. Arms are compared within one turn, so slow changes of the machine cancel
out.

A straight line through the medians of the sizes gives the figure at the smallest size, and the cost of a byte. Each
size has a median of its own, so a burst of other work on the machine spoils one slice of a turn, and not the turn.
Intervals are order statistics over all turns. Without the column `stolen`, all turns count as calm.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from statistics import fmean
from typing import Final, NamedTuple

from admc.cost.profile_import.calm import calmest
from admc.cost.profile_import.estimates import (
    UNIT,
    Estimate,
    Line,
    certainties,
    estimate,
    mean,
    merged,
    middles,
    rounded,
    weighted,
)
from admc.cost.profile_import.parts import CannotSplitError, split
from admc.cost.profile_import.pooled import pooled
from admc.cost.profile_import.run_medians import Differences, Runs, Value, range_of, share_of, turns_of
from admc.cost.profile_import.runs import HOP, IDLE, NONE, OWN, PART, PARTS, Arm, Run
from admc.cost.profile_import.waiting import waiting
from admc.cost.profiles.profile import (
    CPU,
    LATENCY,
    SCHEMA_VERSION,
    UNITS,
    WHOLE,
    ComponentCost,
    Curve,
    Figure,
    HopCost,
    Knot,
    Law,
    Method,
    Part,
    Platform,
    Profile,
    Proxy,
    SidecarCost,
    Sizes,
    component_order,
)
from dsl.program import Protocol, Side

_PLACES: Final[Mapping[str, int]] = {LATENCY: 6, CPU: 12}
_BYTE_PLACES: Final[Mapping[str, int]] = {LATENCY: 12, CPU: 15}


class Fitted(NamedTuple):
    profile: Profile
    notes: tuple[str, ...]
    """Messages about runs and figures that were left out or merged."""


def fit(runs: Sequence[Run], name: str, platform: Platform, proxy: Proxy, saturation: Decimal | None) -> Fitted:
    """The profile of a measurement; it may have no hop. The notes name hops and components that no turn compares."""
    maker = _Maker(runs)
    arms = sorted({(run.protocol, run.arm) for run in runs if run.protocol is not None}, key=_order)
    hops = [hop for protocol in Protocol if (hop := maker.hop(protocol)) is not None]
    components = [
        cost
        for protocol, arm in arms
        if arm.name not in (NONE, HOP, IDLE)
        and not arm.name.startswith(PART)
        and (cost := maker.component(protocol, arm)) is not None
    ]
    profile = Profile(
        schema_version=SCHEMA_VERSION,
        name=name,
        source="runs of this platform",
        platform=platform,
        proxy=proxy,
        method=Method(
            "median",
            f"differences within a turn, the median over {maker.turns}; intervals of 90% by order statistics; a "
            "straight line through the medians of the sizes; components drawn together over rates, as parts of the hop",
        ),
        units=UNITS,
        saturation=saturation,
        parts={WHOLE: "all parts together", **{name: PARTS[name] for name in PARTS if name in maker.parts}},
        own_components=tuple(sorted({cost.component for cost in components if cost.component in maker.own})),
        sidecar=maker.sidecar(),
        hops=tuple(hops),
        components=tuple(sorted(components, key=component_order)),
    )
    return Fitted(profile, tuple(maker.notes))


def _order(item: tuple[Protocol, Arm]) -> tuple[object, ...]:
    protocol, arm = item
    return list(Protocol).index(protocol), arm.name, arm.side or "", arm.kind or "", arm.arguments


class _Maker:
    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = Runs(runs)
        self.turns = "turns" if all(run.stolen is None for run in runs) else "the calmest turns"
        self.notes: list[str] = []
        self.own: set[str] = set()
        self.parts: set[str] = set()
        self._hops: dict[tuple[Protocol, str], Mapping[Decimal, Fraction]] = {}
        idle = self.runs.of(Arm(IDLE), None, CPU)
        self.idle = estimate([value.amount for cells in idle.values() for value in cells.values()])

    def sidecar(self) -> SidecarCost:
        memory = self.runs.of(Arm(IDLE), None, "memory")
        idle = estimate([value.amount for cells in memory.values() for value in cells.values()])
        return SidecarCost(_figure(self.idle, 9), _figure(idle, 0), None, None, None)

    def hop(self, protocol: Protocol) -> HopCost | None:
        what = f"hop {protocol}"
        turns = turns_of(self.runs.of(Arm(HOP), protocol, LATENCY), self.runs.of(Arm(HOP), protocol, CPU))
        if not turns:
            return None
        latency, of_latency = self._law(LATENCY, what, self._latency(what, protocol, Arm(HOP), Arm(NONE)))
        cpu, of_cpu = self._law(CPU, what, self._idle_less(self.runs.of(Arm(HOP), protocol, CPU)))
        self._hops |= {(protocol, LATENCY): _of_requests(LATENCY, latency), (protocol, CPU): _of_requests(CPU, cpu)}
        sizes = range_of(of_latency | of_cpu)
        if (latency is None and cpu is None) or sizes is None:
            self.notes.append(f"{what}: no turn has both `{HOP}` and `{NONE}`")
            return None
        return HopCost(
            protocol, sizes, len(turns), (Part(WHOLE, latency, cpu), *self._parts(protocol, what, cpu, sizes))
        )

    def _parts(self, protocol: Protocol, what: str, cpu: Law | None, sizes: Sizes) -> Sequence[Part]:
        """The parts of the CPU beside `whole`, if stacks were sampled. Latency has none: a stack shows no waiting."""
        places = _PLACES[CPU], _BYTE_PLACES[CPU]
        try:
            laws = {} if cpu is None else split(self.runs, protocol, cpu, sizes.reference, places)
        except CannotSplitError as error:
            self.notes.append(f"{what}: it has no parts, since {error}")
            return ()
        self.parts |= laws.keys()
        return [Part(name, None, law) for name, law in laws.items()]

    def component(self, protocol: Protocol, arm: Arm) -> ComponentCost | None:
        name = arm.name.removeprefix(OWN)
        if arm.name.startswith(OWN):
            self.own.add(name)
        what = f"component {name} ({protocol})"
        base = self._base(protocol, arm)
        hop = {quantity: self._hops.get((protocol, quantity), {}) for quantity in (LATENCY, CPU)}
        latency, of_latency = self._law(LATENCY, what, self._latency(what, protocol, arm, base), hop[LATENCY])
        cpu, of_cpu = self._law(CPU, what, self._difference(protocol, arm, base, CPU), hop[CPU])
        sizes = range_of(of_latency | of_cpu)
        if latency is None and cpu is None:
            self.notes.append(f"{what}: no turn has both it and `{HOP}`")
            return None
        memory = self._difference(protocol, arm, base, "memory")
        bytes_ = estimate([value.amount for cells in memory.values() for value in cells.values()])
        turns = turns_of(self.runs.of(arm, protocol, LATENCY), self.runs.of(arm, protocol, CPU))
        return ComponentCost(
            name,
            protocol,
            arm.side,
            arm.kind,
            dict(arm.arguments),
            False,
            sizes,
            len(turns),
            latency,
            cpu,
            _figure(bytes_, 0),
        )

    def _base(self, protocol: Protocol, arm: Arm) -> Arm:
        """The bare hop that a component is compared with. A component without a side was measured at ingress."""
        sided = Arm(HOP, arm.side or Side.INGRESS)
        return sided if self.runs.of(sided, protocol, LATENCY) or self.runs.of(sided, protocol, CPU) else Arm(HOP)

    def _latency(self, what: str, protocol: Protocol, arm: Arm, base: Arm) -> Differences:
        """The latency that `arm` adds to `base`, without the rates and sizes at which requests wait for each other."""
        queues = waiting(self.runs.of(arm, protocol, LATENCY))
        for (rate, size), wait in sorted(queues.items()):
            self.notes.append(
                f"{what}: the latency at {rate}/s with {size} bytes is left out, since requests wait for each other: "
                f"they take {wait.latency:,.0f} us, and {wait.without:,.0f} us at a lower rate"
            )
        differences = self._difference(protocol, arm, base, LATENCY)
        return {
            turn: {cell: value for cell, value in cells.items() if cell not in queues}
            for turn, cells in differences.items()
        }

    def _difference(self, protocol: Protocol, arm: Arm, base: Arm, quantity: str) -> Differences:
        ours, theirs = (self.runs.of(compared, protocol, quantity) for compared in (arm, base))
        return {
            turn: {cell: _less(value, theirs[turn][cell]) for cell, value in cells.items() if cell in theirs[turn]}
            for turn, cells in ours.items()
            if turn in theirs
        }

    def _idle_less(self, turns: Differences) -> Differences:
        """CPU of a hop without that of an idle sidecar, which the profile has as a figure of its own."""
        idle = 0 if self.idle is None else int(self.idle.value * UNIT)
        return {
            turn: {cell: value._replace(amount=value.amount - idle) for cell, value in cells.items()}
            for turn, cells in turns.items()
        }

    def _law(
        self, quantity: str, what: str, turns: Differences, hop: Mapping[Decimal, Fraction] | None = None
    ) -> tuple[Law | None, frozenset[Decimal]]:
        """The law, and the sizes that it was made of. For a component, `hop` has the costs of a bare hop by rate."""
        by_rate: dict[Decimal, dict[str, dict[Decimal, Value]]] = {}
        for turn, cells in turns.items():
            for (rate, size), value in cells.items():
                by_rate.setdefault(rate, {}).setdefault(turn, {})[size] = value
        if not by_rate:
            return None, frozenset()
        smallest = min(size for cells in turns.values() for _, size in cells)
        rates = sorted(by_rate)
        lines = [
            self._line(quantity, f"{what} at {rate}/s", rate, smallest, list(by_rate[rate].values())) for rate in rates
        ]
        bases = [base for base, _, _ in lines]
        if hop is not None:
            bases = pooled(bases, [hop.get(rate) for rate in rates])
        sloped = [rate for rate, (_, slope, _) in zip(rates, lines, strict=True) if slope is not None]
        slopes = [slope for _, slope, _ in lines if slope is not None]
        if quantity == CPU:
            bases = self._falling(f"{what}: CPU of a request", rates, bases)
            slopes = self._falling(f"{what}: CPU of a byte", sloped, slopes)
        per_byte = _curve(quantity, sloped, slopes, _BYTE_PLACES[quantity]) if slopes else None
        law = Law(_curve(quantity, rates, bases, _PLACES[quantity]), per_byte)
        return law, frozenset([smallest]).union(*(sizes for _, _, sizes in lines))

    def _line(
        self, quantity: str, what: str, rate: Decimal, smallest: Decimal, turns: Sequence[Mapping[Decimal, Value]]
    ) -> tuple[Estimate, Estimate | None, Sequence[Decimal]]:
        """The figure of one request at the smallest size, that of a byte, and the sizes of the line, at one rate.

        Each of `turns` has values by size. A slow turn may lack a size that was too much for the machine. All sizes are
        taken from the same turns: otherwise large messages would come from fast turns, and small ones from all."""
        times = Counter(size for turn in turns for size in turn)
        sizes = sorted(times)
        complete = _with_all(sizes, turns)
        while 2 * len(complete) < len(turns) and len(sizes) > 1:
            sizes.remove(min(sizes, key=lambda size: (times[size], -size)))
            complete = _with_all(sizes, turns)
        if left_out := sorted(times.keys() - set(sizes)):
            listed = ", ".join(map(str, left_out))
            self.notes.append(f"{what}: {listed} bytes are left out, since too many turns lack them")
        if len(complete) < len(turns):
            lacking = len(turns) - len(complete)
            self.notes.append(f"{what}: {lacking} of {len(turns)} turns are left out, since they lack a size")
        calm, rows = (
            [[turn[size].amount for size in sizes] for turn in some] for some in (_calmest(complete), complete)
        )
        medians = [middles(column) for column in zip(*calm, strict=True)]
        line = Line([size - smallest for size in sizes], certainties(medians))
        over = line.over * (Fraction(rate) if quantity == CPU else 1)
        slope = weighted(line.slope, calm, rows, over) if len(sizes) > 1 else None
        return weighted(line.base, calm, rows, over), slope, sizes

    def _falling(self, what: str, rates: Sequence[Decimal], costs: Sequence[Estimate]) -> list[Estimate]:
        """The nearest figures that do not rise with the rate: neighbours that rise are replaced by their mean."""
        groups: list[list[Estimate]] = []
        for cost in costs:
            groups.append([cost])
            while len(groups) > 1 and mean(groups[-1]) > mean(groups[-2]):
                last = groups.pop()
                groups[-1] += last
        at = 0
        falling: list[Estimate] = []
        for group in groups:
            if len(group) > 1:
                listed = ", ".join(f"{rate}/s" for rate in rates[at : at + len(group)])
                self.notes.append(f"{what} rises with the rate at {listed}: these are merged into their mean")
            at += len(group)
            falling += [merged(group)] * len(group)
        return falling


def _calmest(turns: Sequence[Mapping[Decimal, Value]]) -> Sequence[Mapping[Decimal, Value]]:
    """The calmest turns by the mean over the sizes: a burst of other machines of the host outlasts one slice."""
    return calmest(turns, lambda turn: share_of(list(turn.values()), fmean))


def _of_requests(quantity: str, law: Law | None) -> Mapping[Decimal, Fraction]:
    """The cost of one request at the smallest size, by rate."""
    return {
        knot.rate: Fraction(knot.figure.value) / (Fraction(knot.rate) if quantity == CPU else 1)
        for knot in (() if law is None else law.base)
        if knot.rate is not None
    }


def _less(value: Value, other: Value) -> Value:
    known = value.stolen is not None and other.stolen is not None
    return Value(value.amount - other.amount, max(value.stolen or 0.0, other.stolen or 0.0) if known else None)


def _with_all(sizes: Sequence[Decimal], turns: Sequence[Mapping[Decimal, Value]]) -> Sequence[Mapping[Decimal, Value]]:
    return [turn for turn in turns if all(size in turn for size in sizes)]


def _curve(quantity: str, rates: Sequence[Decimal], costs: Sequence[Estimate], places: int) -> Curve:
    return tuple(
        Knot.of(rate, _scaled(cost, rate if quantity == CPU else Decimal(1), places))
        for rate, cost in zip(rates, costs, strict=True)
    )


def _scaled(cost: Estimate, factor: Decimal, places: int) -> Figure:
    """The figure of one request, rounded and then multiplied, which keeps the order of figures by rate."""
    low = None if cost.low is None else rounded(cost.low, places) * factor
    return Figure.of(
        rounded(cost.value, places) * factor, low, None if cost.high is None else rounded(cost.high, places) * factor
    )


def _figure(cost: Estimate | None, places: int) -> Figure | None:
    return None if cost is None else _scaled(cost, Decimal(1), places)
