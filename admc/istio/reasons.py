"""Why sidecars are there: each resource that is in force at some, and the sidecars that it alone keeps.

Clients of one class have most of their reasons in common. These are counted for the class, and not for each of its
sidecars: a mesh in which all may call all has as many reasons as it has workloads, at each of them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from admc.istio.implicit import TITLES, Feature, Implicit
from admc.istio.in_force.effects import Effect, Layer, What
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Place, Proxy, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from admc.istio.in_force.judge import InForce, Judged
    from admc.istio.in_force.view import WorkloadKey
    from admc.manifests.documents import Where


class Group(StrEnum):
    """What a reason is for."""

    POLICY = "routes, retries, pools, authorization"
    MTLS = "mTLS"
    TELEMETRY = "telemetry"
    NOT_JUDGED = "what admc does not judge"
    FEATURE = "features of `--keep`"


class Reason(NamedTuple):
    group: Group
    place: Place | None
    """The resource, at the first line that is in force; None for a feature."""
    feature: Feature | None
    whats: tuple[What, ...]
    layer: Layer
    sidecars: int
    alone: int
    """The sidecars for which there is no other reason."""

    @property
    def name(self) -> str:
        if self.place is None:
            return "" if self.feature is None else TITLES[self.feature]
        manifest = self.place.object
        return f"{manifest.kind} {manifest.namespace}/{manifest.name}"


class Cited(NamedTuple):
    """A reason at one workload."""

    position: int
    """That of the reason in the list of all."""
    name: str
    place: Place | None
    whats: tuple[What, ...]
    layer: Layer


@dataclass(frozen=True)
class Shared:
    """The reasons that clients of one class have in common, in their order."""

    reasons: tuple[Cited, ...]

    @cached_property
    def by_position(self) -> Mapping[int, Cited]:
        return {it.position: it for it in self.reasons}


@dataclass(frozen=True)
class Kept:
    """A workload with sidecars, and why they are there. Without a reason they could go."""

    workload: Workload
    sidecars: int
    shared: Shared
    without: frozenset[int]
    """The positions of shared reasons that it does not have, or has among its own."""
    own: tuple[Cited, ...]

    @property
    def number(self) -> int:
        """How many reasons it has."""
        return len(self.shared.reasons) - len(self.without) + len(self.own)

    @property
    def reasons(self) -> tuple[Cited, ...]:
        """All reasons, in their order."""
        shared = (it for it in self.shared.reasons if it.position not in self.without)
        return tuple(sorted((*shared, *self.own), key=lambda it: it.position))

    @property
    def layer(self) -> Layer | None:
        return max((it.layer for it in self.reasons), default=None)


class GroupTotal(NamedTuple):
    group: Group
    sidecars: int
    of_requests: int
    """Those of layer 7, which the proxy of a node does not carry."""


class Answer(NamedTuple):
    reasons: tuple[Reason, ...]
    """Those that alone keep the most sidecars first."""
    workloads: tuple[Kept, ...]
    totals: tuple[GroupTotal, ...]
    kept: int
    of_connections: int
    """Of the kept ones those whose reasons are of layer 4 alone."""


_GROUPS = tuple(Group)
_KINDS_OF_MTLS = frozenset(("PeerAuthentication",))


def group_of(effect: Effect) -> Group:
    if effect.what is What.NOT_JUDGED:
        return Group.NOT_JUDGED
    if effect.what is What.TELEMETRY:
        return Group.TELEMETRY
    if effect.what in (What.STRICT, What.MUTUAL_TLS) or effect.resource.object.kind in _KINDS_OF_MTLS:
        return Group.MTLS
    return Group.POLICY


@dataclass
class _Counted:
    """A reason while it is counted."""

    group: Group
    feature: Feature | None = None
    places: dict[Where, Place] = field(default_factory=dict)
    whats: set[What] = field(default_factory=set)
    layer: Layer = Layer.CONNECTION
    sidecars: int = 0
    alone: int = 0

    def add(self, effect: Effect) -> None:
        self.places[effect.resource.where] = effect.resource
        self.whats.add(effect.what)
        self.layer = max(self.layer, effect.layer)

    def reason(self) -> Reason:
        place = _first(self.places) if self.places else None
        return Reason(self.group, place, self.feature, _in_order(self.whats), self.layer, self.sidecars, self.alone)


_Effects = dict[int, list[Effect]]
"""The effects of each reason, by its number. A feature has none."""


class _Sidecar(NamedTuple):
    """The reasons of one workload, by number."""

    workload: Workload
    shared: _Effects
    without: frozenset[int]
    own: _Effects

    def only(self) -> int | None:
        """The reason of a workload that has no other one."""
        if len(self.shared) - len(self.without) + len(self.own) != 1:
            return None
        return next(iter(self.own)) if self.own else next(it for it in self.shared if it not in self.without)


class _Count:
    """Counts the reasons of a mesh."""

    def __init__(self, force: InForce, chosen: Iterable[Implicit]) -> None:
        self.counted: list[_Counted] = []
        self._numbers: dict[tuple[Group, int], int] = {}
        self._number_of: dict[int, int] = {}
        """The number of the reason of each effect. Many classes of clients have the same effects."""
        self._features: dict[WorkloadKey, list[int]] = defaultdict(list)
        for feature, workloads in chosen:
            layer = Layer.CONNECTION if feature is Feature.MTLS else Layer.REQUEST
            self.counted.append(_Counted(Group.FEATURE, feature, layer=layer))
            for workload in workloads:
                self._features[key_of(workload)].append(len(self.counted) - 1)
        self._shared = {
            id(clients): self._of(clients.effects if others else clients.effects_of(first))
            for clients, (first, *others) in force.classes
        }
        self.sidecars = [self._of_sidecar(it) for it in force.sidecars]
        for clients, workloads in force.classes:
            number = _sidecars(workloads)
            for reason in self._shared[id(clients)]:
                self.counted[reason].sidecars += number
        for sidecar in self.sidecars:
            self._add(sidecar)

    def _of(self, effects: Iterable[Effect]) -> _Effects:
        made: _Effects = defaultdict(list)
        for effect in effects:
            if effect.what.needs_sidecar:
                made[self._number(effect)].append(effect)
        return dict(made)

    def _number(self, effect: Effect) -> int:
        if id(effect) not in self._number_of:
            key = group_of(effect), id(effect.resource.object)
            if key not in self._numbers:
                self._numbers[key] = len(self.counted)
                self.counted.append(_Counted(key[0]))
            self.counted[self._numbers[key]].add(effect)
            self._number_of[id(effect)] = self._numbers[key]
        return self._number_of[id(effect)]

    def _of_sidecar(self, sidecar: Judged) -> _Sidecar:
        """A shared reason to which a workload adds an effect, or of which it lacks one, is its own."""
        shared = self._shared[id(sidecar.clients)]
        own = self._of(sidecar.own)
        lacking = [sidecar.clients.effects[it] for it in sidecar.clients.except_for.get(key_of(sidecar.workload), ())]
        changed = shared.keys() & {*own, *(self._number_of.get(id(it)) for it in lacking)}
        absent = set(map(id, lacking))
        for number in changed:
            effects = [*(it for it in shared[number] if id(it) not in absent), *own.get(number, ())]
            if effects:
                own[number] = effects
        own.update({number: [] for number in self._features.get(key_of(sidecar.workload), ())})
        return _Sidecar(sidecar.workload, shared, frozenset(changed), own)

    def _add(self, sidecar: _Sidecar) -> None:
        number = sidecar.workload.number(Proxy.SIDECAR)
        for reason in sidecar.without:
            self.counted[reason].sidecars -= number
        for reason in sidecar.own:
            self.counted[reason].sidecars += number
        only = sidecar.only()
        if only is not None:
            self.counted[only].alone += number


def answer(force: InForce, chosen: Iterable[Implicit] = ()) -> Answer:
    """`chosen` are the features that the user wants to keep."""
    count = _Count(force, chosen)
    listed = [(it.reason(), number) for number, it in enumerate(count.counted)]
    listed.sort(key=lambda it: (-it[0].alone, -it[0].sidecars, it[0].name, _GROUPS.index(it[0].group)))
    reasons = tuple(reason for reason, _ in listed)
    kept = _Citing(reasons, [number for _, number in listed]).kept(count.sidecars)
    total = _sidecars_with(kept, lambda _: True)
    return Answer(
        reasons,
        tuple(sorted(kept, key=lambda it: (it.workload.namespace, it.workload.name, it.workload.kind))),
        tuple(_total(group, reasons, kept) for group in Group if any(it.group is group for it in reasons)),
        total,
        total - _sidecars_with(kept, lambda it: it.layer is Layer.REQUEST),
    )


class _Citing:
    """Cites reasons at workloads. Classes of clients that have the same effects have the same citations."""

    def __init__(self, reasons: tuple[Reason, ...], numbers: list[int]) -> None:
        """`numbers` are those of the reasons."""
        self._reasons = reasons
        self._positions = {number: position for position, number in enumerate(numbers)}
        self._made: dict[tuple[int, tuple[int, ...]], Cited] = {}

    def kept(self, sidecars: Iterable[_Sidecar]) -> list[Kept]:
        shared: dict[int, Shared] = {}
        made = []
        for it in sidecars:
            if id(it.shared) not in shared:
                shared[id(it.shared)] = Shared(self._cited(it.shared))
            without = frozenset(self._positions[number] for number in it.without)
            number = it.workload.number(Proxy.SIDECAR)
            made.append(Kept(it.workload, number, shared[id(it.shared)], without, self._cited(it.own)))
        return made

    def _cited(self, effects: _Effects) -> tuple[Cited, ...]:
        cited = (self._of_reason(self._positions[number], own) for number, own in effects.items())
        return tuple(sorted(cited, key=lambda it: it.position))

    def _of_reason(self, position: int, effects: list[Effect]) -> Cited:
        key = position, tuple(map(id, effects))
        if key not in self._made:
            self._made[key] = _cited(position, self._reasons[position], effects)
        return self._made[key]


def _first(places: Mapping[Where, Place]) -> Place:
    """The place that is written first in the resource."""
    if len(places) == 1:
        return next(iter(places.values()))
    return places[min(places, key=lambda where: [str(part).zfill(8) for part in where])]


def _in_order(whats: Collection[What]) -> tuple[What, ...]:
    return tuple(what for what in What if what in whats)


def _cited(position: int, reason: Reason, effects: list[Effect]) -> Cited:
    if not effects:
        return Cited(position, reason.name, None, (), reason.layer)
    place = _first({effect.resource.where: effect.resource for effect in effects})
    whats = _in_order({effect.what for effect in effects})
    return Cited(position, reason.name, place, whats, max(effect.layer for effect in effects))


def _sidecars(workloads: Iterable[Workload]) -> int:
    return sum(workload.number(Proxy.SIDECAR) for workload in workloads)


def _sidecars_with(kept: Iterable[Kept], is_meant: Callable[[Cited], bool]) -> int:
    """The sidecars that have a reason of some."""
    numbers: dict[int, int] = {}
    total = 0
    for it in kept:
        if id(it.shared) not in numbers:
            numbers[id(it.shared)] = sum(map(is_meant, it.shared.reasons))
        left = numbers[id(it.shared)] - sum(is_meant(it.shared.by_position[position]) for position in it.without)
        if left or any(map(is_meant, it.own)):
            total += it.sidecars
    return total


def _total(group: Group, reasons: tuple[Reason, ...], kept: list[Kept]) -> GroupTotal:
    def is_own(it: Cited) -> bool:
        # One resource may be a reason of two groups: its name does not say which of them this is.
        return reasons[it.position].group is group

    return GroupTotal(
        group,
        _sidecars_with(kept, is_own),
        _sidecars_with(kept, lambda it: is_own(it) and it.layer is Layer.REQUEST),
    )
