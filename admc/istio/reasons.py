"""Why sidecars are there: each resource that is in force at some, and the sidecars that it alone keeps."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from admc.istio.implicit import TITLES, Feature, Implicit
from admc.istio.in_force.effects import Effect, Layer, What
from admc.istio.in_force.view import key_of
from admc.istio.mesh.model import Place, Proxy, Workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.istio.in_force.judge import InForce


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
    workloads: tuple[Workload, ...]
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

    name: str
    place: Place | None
    whats: tuple[What, ...]
    layer: Layer


class Kept(NamedTuple):
    """A workload with sidecars, and why they are there. Without a reason they could go."""

    workload: Workload
    sidecars: int
    reasons: tuple[Cited, ...]

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


def answer(force: InForce, chosen: Iterable[Implicit] = ()) -> Answer:
    """`chosen` are the features that the user wants to keep."""
    collected: dict[tuple[Group, int], list[Effect]] = defaultdict(list)
    for effect in force.effects:
        if effect.what.needs_sidecar:
            collected[group_of(effect), id(effect.resource.object)].append(effect)
    parts = [(group, *_resource(effects)) for (group, _), effects in collected.items()]
    features = [(Group.FEATURE, it.feature, it.workloads) for it in chosen]
    counts: dict[tuple[str, str, str], int] = defaultdict(int)
    for _, _, _, by_workload in parts:
        for key in by_workload:
            counts[key] += 1
    for _, _, workloads in features:
        for workload in workloads:
            counts[key_of(workload)] += 1
    made: list[tuple[Reason, dict[tuple[str, str, str], list[Effect]]]] = []
    for group, place, whats, by_workload in parts:
        layer = max(effect.layer for effects in by_workload.values() for effect in effects)
        own = tuple(effects[0].workload for effects in by_workload.values())
        made.append((Reason(group, place, None, whats, layer, own, _sidecars(own), _alone(own, counts)), by_workload))
    for group, feature, workloads in features:
        layer = Layer.CONNECTION if feature is Feature.MTLS else Layer.REQUEST
        reason = Reason(group, None, feature, (), layer, workloads, _sidecars(workloads), _alone(workloads, counts))
        made.append((reason, {key_of(workload): [] for workload in workloads}))
    made.sort(key=lambda it: (-it[0].alone, -it[0].sidecars, it[0].name, _GROUPS.index(it[0].group)))
    reasons = [reason for reason, _ in made]
    cited: dict[tuple[str, str, str], list[Cited]] = defaultdict(list)
    for reason, by_workload in made:
        for key, effects in by_workload.items():
            cited[key].append(_cited(reason.name, effects) if effects else Cited(reason.name, None, (), reason.layer))
    kept = tuple(
        Kept(it.workload, it.workload.number(Proxy.SIDECAR), tuple(cited[key_of(it.workload)])) for it in force.sidecars
    )
    return Answer(
        tuple(reasons),
        tuple(sorted(kept, key=lambda it: (it.workload.namespace, it.workload.name, it.workload.kind))),
        tuple(_total(group, reasons, cited) for group in Group if any(it.group is group for it in reasons)),
        sum(it.sidecars for it in kept if it.reasons),
        sum(it.sidecars for it in kept if it.layer is Layer.CONNECTION),
    )


_ByWorkload = dict[tuple[str, str, str], list[Effect]]


def _resource(effects: list[Effect]) -> tuple[Place, tuple[What, ...], _ByWorkload]:
    """The place of a resource, what it does, and its effects by workload."""
    by_workload: _ByWorkload = defaultdict(list)
    for effect in effects:
        by_workload[key_of(effect.workload)].append(effect)
    return _first(effects), _whats(effects), by_workload


def _first(effects: Iterable[Effect]) -> Place:
    """The place that is written first in the resource."""
    places = {effect.resource.where: effect.resource for effect in effects}
    if len(places) == 1:
        return next(iter(places.values()))
    return places[min(places, key=lambda where: [str(part).zfill(8) for part in where])]


def _whats(effects: Iterable[Effect]) -> tuple[What, ...]:
    own = {effect.what for effect in effects}
    return tuple(what for what in What if what in own)


def _cited(name: str, effects: list[Effect]) -> Cited:
    return Cited(name, _first(effects), _whats(effects), max(effect.layer for effect in effects))


def _sidecars(workloads: Iterable[Workload]) -> int:
    return sum(workload.number(Proxy.SIDECAR) for workload in workloads)


def _alone(workloads: Iterable[Workload], counts: dict[tuple[str, str, str], int]) -> int:
    return _sidecars(workload for workload in workloads if counts[key_of(workload)] == 1)


def _total(group: Group, reasons: list[Reason], cited: dict[tuple[str, str, str], list[Cited]]) -> GroupTotal:
    own = [it for it in reasons if it.group is group]
    names = {it.name for it in own}
    workloads = {key_of(workload): workload for reason in own for workload in reason.workloads}
    of_requests = [
        workload
        for key, workload in workloads.items()
        if any(it.name in names and it.layer is Layer.REQUEST for it in cited[key])
    ]
    return GroupTotal(group, _sidecars(workloads.values()), _sidecars(of_requests))
