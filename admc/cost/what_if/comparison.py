"""Compares two estimates of one application, figure by figure: totals, and each ADM and each request
that differs.

    Scenario, two Reports -> [Comparison]

Figures of the two estimates are never added. A lower bound is the sum of the known figures. Where one of two
figures is a lower bound, they have a difference only if both estimates lack the same figures: the difference of the two
sums of known figures. A lower bound of zero has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.model.overhead import AdmOverhead, Extrapolated, HopOverhead, Lack, Missing, Overhead, Totals
from admc.cost.profiles.amounts import NANO, Whole
from admc.cost.profiles.diff import cautions
from admc.cost.profiles.profile import CPU, LATENCY
from admc.cost.report import Report
from admc.cost.requests.estimate import RequestOverhead
from admc.cost.what_if.changes import MEMORY, Change
from admc.cost.what_if.scenario import Scenario
from dsl.program import Program
from emitters.hops import hop_name

_LACKED_IN: Final[Mapping[Lack, tuple[str, ...]]] = {
    Lack.IDLE: (CPU,),
    Lack.MEMORY: (MEMORY,),
    Lack.SATURATED: (LATENCY,),
}
"""The quantities that a lack makes incomplete. A lack that is not listed makes CPU and latency incomplete."""


class Pair(NamedTuple):
    """One figure before and after; None where there is none. `difference` is None if the two are not comparable."""

    before: Whole | None
    after: Whole | None
    difference: int | None

    @property
    def differs(self) -> bool:
        return self.before != self.after


class TotalsPair(NamedTuple):
    sidecars: tuple[int, int]
    hops: tuple[int, int]
    cpu: Pair
    memory: Pair
    latency: Pair


class HopPair(NamedTuple):
    """A hop of an ADM. If the plan before or after does not have the hop, the figures of that side are None."""

    name: str
    protocol: str
    planned: tuple[bool, bool]
    """Whether the plans before and after have the hop."""
    cpu: Pair
    latency: Pair


class AdmPair(NamedTuple):
    """An ADM in which something differs."""

    service: str
    planned: tuple[bool, bool]
    """Whether the plans before and after have the ADM."""
    cpu: Pair
    memory: Pair
    hops: tuple[HopPair, ...]
    """The hops that differ."""


class RequestPair(NamedTuple):
    """The costs that the ADMs of the plan add to one request."""

    name: str
    mean: Pair
    worst: Pair
    cpu: Pair


@dataclass(frozen=True, slots=True)
class Comparison:
    scenario: Scenario
    before: Report
    after: Report
    plan: TotalsPair
    full_mesh: TotalsPair
    everywhere: TotalsPair
    adms: tuple[AdmPair, ...]
    requests: tuple[RequestPair, ...]
    """The requests that differ."""
    over_capacity: tuple[str, ...]
    """Services whose ADM exceeds their `capacity` after the change. With the option `--replan` there is no such
    service: the changed program is placed again, and rule R9 keeps each capacity."""
    unused: tuple[Change, ...]
    """Changes of a part or component of the profile that no request passes in the plan after the change."""
    cautions: tuple[str, ...]
    """The reasons for which the figures of two profiles may not be comparable."""


def compare(scenario: Scenario, before: Report, after: Report, program: Program, *, one_profile: bool) -> Comparison:
    """Compare two reports. `program` is the changed program. With `one_profile`, both reports use the same profile:
    `before` with its own figures, `after` with the changed ones."""
    one, other = before.overhead, after.overhead
    lacks = _Lacks(one.missing, other.missing)
    # A full mesh lacks the figures that its plan lacks, and perhaps more. With one profile, these are the same before
    # and after.
    mesh = lacks if one_profile else _Lacks(one.missing, other.missing, comparable=False)
    return Comparison(
        scenario,
        before,
        after,
        _totals(one.totals, other.totals, lacks),
        _totals(before.full_mesh.hosting, after.full_mesh.hosting, mesh),
        _totals(before.full_mesh.everywhere, after.full_mesh.everywhere, mesh),
        tuple(_adms(one, other, lacks)),
        tuple(_requests(before.requests, after.requests, lacks)),
        tuple(_over_capacity(program, other)),
        tuple(change for change in scenario.changes if change.name not in _passed(other)),
        tuple(cautions(before.profile.profile, after.profile.profile)),
    )


class _Lacks:
    """The figures that two estimates lack. Without `comparable`, two lower bounds have no difference."""

    def __init__(self, before: Iterable[Missing], after: Iterable[Missing], *, comparable: bool = True) -> None:
        self._comparable = comparable
        self._sides = [self._by_quantity(missing) for missing in (before, after)]

    @staticmethod
    def _by_quantity(missing: Iterable[Missing]) -> dict[str, set[tuple[Lack, str, str]]]:
        lacked: dict[str, set[tuple[Lack, str, str]]] = {}
        for gap in missing:
            for quantity in _LACKED_IN.get(gap.lack, (CPU, LATENCY)):
                lacked.setdefault(quantity, set()).update((gap.lack, gap.subject, name) for name in gap.services)
        return lacked

    def pair(self, quantity: str, before: Whole | None, after: Whole | None, service: str | None = None) -> Pair:
        """Pair two figures of the ADM at `service`, or two totals if it is None."""
        if before is None or after is None:
            return Pair(before, after, None)
        if any(figure.at_least and not figure.value for figure in (before, after)):
            return Pair(before, after, None)  # a lower bound of zero is no figure
        complete = not before.at_least and not after.at_least
        known = complete or (self._comparable and self._equal(quantity, service))
        return Pair(before, after, after.value - before.value if known else None)

    def _equal(self, quantity: str, service: str | None) -> bool:
        one, other = ({lack for lack in side.get(quantity, ()) if service in (None, lack[2])} for side in self._sides)
        return one == other


def _totals(one: Totals, other: Totals, lacks: _Lacks) -> TotalsPair:
    return TotalsPair(
        (one.sidecars, other.sidecars),
        (one.hops, other.hops),
        lacks.pair(CPU, one.cpu, other.cpu),
        lacks.pair(MEMORY, one.memory, other.memory),
        _of_equal_saturation(one, other, lacks.pair(LATENCY, one.latency, other.latency)),
    )


def _of_equal_saturation(one: Totals, other: Totals, latency: Pair) -> Pair:
    return latency if one.saturated == other.saturated else latency._replace(difference=None)


def _adms(one: Overhead, other: Overhead, lacks: _Lacks) -> Iterator[AdmPair]:
    before, after = ({adm.service: adm for adm in overhead.adms} for overhead in (one, other))
    for service in sorted({*before, *after}):
        pair = _adm(service, before.get(service), after.get(service), lacks)
        if pair.planned != (True, True) or pair.hops or pair.cpu.differs or pair.memory.differs:
            yield pair


def _adm(service: str, one: AdmOverhead | None, other: AdmOverhead | None, lacks: _Lacks) -> AdmPair:
    hops = [_hop(service, *hop_pair, lacks) for hop_pair in _hops(one, other)]
    return AdmPair(
        service,
        (one is not None, other is not None),
        lacks.pair(CPU, one.cpu if one else None, other.cpu if other else None, service),
        lacks.pair(MEMORY, one.memory if one else None, other.memory if other else None, service),
        tuple(hop for hop in hops if hop.planned != (True, True) or hop.cpu.differs or hop.latency.differs),
    )


def _hops(
    one: AdmOverhead | None, other: AdmOverhead | None
) -> Iterator[tuple[str, HopOverhead | None, HopOverhead | None]]:
    """The hops of both sides, ingress before egress as in a plan."""
    before, after = (
        {} if adm is None else {hop_name(hop.side, hop.destination, hop.port): hop for hop in adm.hops}
        for adm in (one, other)
    )
    for name in sorted({*before, *after}, key=lambda title: (title.startswith("egress"), title)):
        yield name, before.get(name), after.get(name)


def _hop(service: str, name: str, one: HopOverhead | None, other: HopOverhead | None, lacks: _Lacks) -> HopPair:
    hop = one or other
    return HopPair(
        name,
        "" if hop is None else hop.protocol.value,
        (one is not None, other is not None),
        lacks.pair(CPU, one.cpu if one else None, other.cpu if other else None, service),
        lacks.pair(LATENCY, one.latency if one else None, other.latency if other else None, service),
    )


def _requests(
    before: Sequence[RequestOverhead], after: Sequence[RequestOverhead], lacks: _Lacks
) -> Iterator[RequestPair]:
    """Both sides have the same requests, in the same order."""
    for one, other in zip(before, after, strict=True):
        pairs = [
            lacks.pair(quantity, *figures)
            for quantity, figures in zip((LATENCY, LATENCY, CPU), zip(one.plan, other.plan, strict=True), strict=True)
        ]
        if any(pair.differs for pair in pairs):
            yield RequestPair(one.name, *pairs)


def _over_capacity(program: Program, overhead: Overhead) -> Iterator[str]:
    for adm in overhead.adms:
        capacity = program.services[adm.service].capacity
        if capacity is not None and adm.cpu.value > Decimal(repr(capacity)) * adm.replicas * NANO:
            yield adm.service


def _passed(overhead: Overhead) -> set[str]:
    """The parts and components that requests of a plan pass, and `sidecar` if the plan has any ADM."""
    hops = [hop for adm in overhead.adms for hop in adm.hops]
    parts = {part.name for hop in hops for part in hop.parts}
    components = {share.component for hop in hops for share in hop.components if share.component is not None}
    return {*parts, *components, *(["sidecar"] if overhead.adms else [])}


Lacked = tuple[tuple[Missing, ...], tuple[Extrapolated, ...]]
"""The figures that an estimate lacks, and those that it extrapolates."""


def shared(comparison: Comparison) -> Lacked:
    """The figures that both estimates lack or extrapolate."""
    one, other = comparison.before.overhead, comparison.after.overhead
    return (
        tuple(gap for gap in one.missing if gap in other.missing),
        tuple(figure for figure in one.extrapolated if figure in other.extrapolated),
    )


def lacked(one: Report, other: Report) -> Lacked:
    """The figures that `one` lacks or extrapolates, and `other` does not."""
    return (
        tuple(gap for gap in one.overhead.missing if gap not in other.overhead.missing),
        tuple(figure for figure in one.overhead.extrapolated if figure not in other.overhead.extrapolated),
    )
