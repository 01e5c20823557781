"""What the watches of a cluster show, as one immutable picture.

    Pod, Service, EndpointSlice  --metadata.namespace-->          Namespace
    Service                      --spec.selector-->               the pods of its namespace with these labels
    EndpointSlice                --kubernetes.io/service-name-->  Service
    Pod                          --status.podIPs-->               addresses; for a moment two pods may have one of them
    Pod                          --its containers of admc-->      the service of its ADM
    Program                      --spec.controller-->             the installation that serves it; it has no namespace

A change of one object gives another picture, which shares everything else with the one before. The cost of a change of
a pod grows with its labels and the Services that they lead to; that of another selector, with the pods that the Service
selected or selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from rpds import HashTrieMap, HashTrieSet

from admc.kubernetes.cluster.records import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.kubernetes.cluster.records import Namespace, Pod, Service, Slice

K = TypeVar("K")
V = TypeVar("V")
Label = tuple[str, str, str]
"""Namespace, name and value."""
_NO_PODS: Final[HashTrieMap[Key, Pod]] = HashTrieMap()
_NO_SLICES: Final[HashTrieMap[Key, Slice]] = HashTrieMap()
_NO_COUNTS: Final[HashTrieMap[Key, int]] = HashTrieMap()
_NO_STAYS: Final[HashTrieMap[Key, bool]] = HashTrieMap()
_NO_KEYS: Final[HashTrieSet[Key]] = HashTrieSet()


@dataclass(frozen=True, slots=True)
class Group:
    """The pods that a Service selects and that are not over: ready or not, terminating too."""

    pods: HashTrieMap[Key, Pod] = _NO_PODS
    on_host: int = 0
    """How many of them are on the host's network."""
    shared: HashTrieMap[Key, int] = _NO_COUNTS
    """Another Service -> how many of these pods it selects, too."""


_EMPTY: Final = Group()


class View(NamedTuple):
    """All objects of one moment. The functions of this module keep its indices in step with them."""

    pods: HashTrieMap[Key, Pod] = HashTrieMap()
    services: HashTrieMap[Key, Service] = HashTrieMap()
    namespaces: HashTrieMap[str, Namespace] = HashTrieMap()
    slices: HashTrieMap[Key, Slice] = HashTrieMap()
    programs: HashTrieMap[Key, ProgramObject] = HashTrieMap()
    slices_by_service: HashTrieMap[Key, HashTrieMap[Key, Slice]] = HashTrieMap()
    groups: HashTrieMap[Key, Group] = HashTrieMap()
    """Service -> the pods that it selects; absent without pods."""
    selecting: HashTrieMap[Key, tuple[Key, ...]] = HashTrieMap()
    """Pod -> the Services that select it, sorted; absent without Services."""
    located: HashTrieMap[str, HashTrieMap[Key, bool]] = HashTrieMap()
    """Address -> the pods that have it for themselves, each with whether it stays, which is: does not terminate."""
    hosting: HashTrieMap[str, HashTrieMap[Key, Pod]] = HashTrieMap()
    """Service of a program -> the pods with its ADM, while they are not over."""
    labelled: HashTrieMap[Label, HashTrieSet[Key]] = HashTrieMap()
    """Label -> the pods that have it."""
    found_by: HashTrieMap[Label, HashTrieSet[Key]] = HashTrieMap()
    """Label -> the Services that are found by it. Each is found by one label of its selector."""
    labels_of: HashTrieMap[Key, Label] = HashTrieMap()
    """Service -> the label by which it is found."""

    def group(self, service: Key) -> Group:
        return self.groups.get(service) or _EMPTY

    def slices_of(self, service: Key) -> Mapping[Key, Slice]:
        return self.slices_by_service.get(service) or _NO_SLICES

    def at(self, address: str) -> Mapping[Key, bool]:
        """The pods of the whole cluster with an address, each with whether it stays."""
        return self.located.get(address) or _NO_STAYS

    def hosting_in(self, namespace: str, service: str) -> tuple[Pod, ...]:
        """The pods of a namespace with the ADM of a service, whatever Service selects them."""
        pods = self.hosting.get(service) or _NO_PODS
        return tuple(pod for pod in pods.values() if pod.key.namespace == namespace)


class Change(NamedTuple):
    """A picture, and where it differs from an earlier one."""

    view: View
    services: frozenset[Key] = frozenset()
    """The Services of which the record, the pods or the EndpointSlices differ."""
    addresses: frozenset[str] = frozenset()
    """The addresses at which other pods are than before, or a pod began to terminate."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces of which the record differs."""
    regrouped: frozenset[Key] = frozenset()
    """The Services that may no longer select a pod that they selected, or select a pod under other labels."""
    ended: frozenset[str] = frozenset()
    """The uids of pods that are gone."""


def merged(view: View, changes: Sequence[Change]) -> Change:
    """Return the change that leads to `view` by these changes."""
    return Change(
        view,
        frozenset[Key]().union(*(change.services for change in changes)),
        frozenset[str]().union(*(change.addresses for change in changes)),
        frozenset[str]().union(*(change.namespaces for change in changes)),
        frozenset[Key]().union(*(change.regrouped for change in changes)),
        frozenset[str]().union(*(change.ended for change in changes)),
    )


# ---- changes ----


def with_pod(view: View, key: Key, pod: Pod | None) -> Change:
    """The picture with another record of a pod; None: it is gone."""
    before = view.pods.get(key)
    old = None if before is None or before.is_over else before
    new = None if pod is None or pod.is_over else pod
    labelled, services = view.labelled, view.selecting.get(key) or ()
    if old is None or new is None or old.labels != new.labels:
        labelled = _labelled(labelled, key, old, new)
        services = () if new is None else _services_for(view, key, new.labels)
    located, addresses = _located(view.located, key, old, new)
    groups, selecting, touched = _regrouped(view, key, new, services)
    after = view._replace(
        pods=_with(view.pods, key, pod),
        groups=groups,
        selecting=selecting,
        located=located,
        hosting=_hosting(view.hosting, key, old, new),
        labelled=labelled,
    )
    regrouped, ended = frozenset[Key](), frozenset[str]()
    if before is not None and (pod is None or _identity(pod) != _identity(before)):
        regrouped = touched
        ended = frozenset() if pod is not None and pod.uid == before.uid else frozenset((before.uid,))
    return Change(after, touched, addresses, regrouped=regrouped, ended=ended)


def with_service(view: View, key: Key, service: Service | None) -> Change:
    """The picture with another record of a Service; None: it is gone."""
    before = view.services.get(key)
    old, new = ({} if record is None else record.selector for record in (before, service))
    view = view._replace(services=_with(view.services, key, service))
    touched = frozenset((key,))
    if old == new:
        return Change(view, touched, regrouped=touched)
    view = _found_by(view, key, new)
    for name in {*view.group(key).pods, *_selected(view, key, new)}:
        pod = view.pods[name]
        groups, selecting, others = _regrouped(view, name, pod, _services_for(view, name, pod.labels))
        view = view._replace(groups=groups, selecting=selecting)
        touched |= others
    return Change(view, touched, regrouped=touched)


def with_slice(view: View, key: Key, slice_: Slice | None) -> Change:
    """The picture with another record of an EndpointSlice; None: it is gone. The Service of one may change."""
    before = view.slices.get(key)
    by_service = view.slices_by_service
    owners = [None if record is None else Key(key.namespace, record.service) for record in (before, slice_)]
    if owners[0] is not None:
        by_service = _with(by_service, owners[0], by_service[owners[0]].remove(key) or None)
    if owners[1] is not None and slice_ is not None:
        by_service = by_service.insert(owners[1], (by_service.get(owners[1]) or _NO_SLICES).insert(key, slice_))
    changed = view._replace(slices=_with(view.slices, key, slice_), slices_by_service=by_service)
    return Change(changed, frozenset(owner for owner in owners if owner is not None))


def with_namespace(view: View, name: str, namespace: Namespace | None) -> Change:
    """The picture with another record of a namespace; None: it is gone."""
    changed = view._replace(namespaces=_with(view.namespaces, name, namespace))
    return Change(changed, namespaces=frozenset((name,)))


def with_program(view: View, key: Key, program: ProgramObject | None) -> Change:
    """The picture with another record of a Program; None: it is gone."""
    return Change(view._replace(programs=_with(view.programs, key, program)))


def _identity(pod: Pod) -> tuple[object, ...]:
    """Which pod a record is of, and what decides which Services select it."""
    return pod.uid, pod.is_over, pod.labels


# ---- the indices ----


def _with(items: HashTrieMap[K, V], key: K, value: V | None) -> HashTrieMap[K, V]:
    return items.discard(key) if value is None else items.insert(key, value)


def _labelled(
    labelled: HashTrieMap[Label, HashTrieSet[Key]], key: Key, old: Pod | None, new: Pod | None
) -> HashTrieMap[Label, HashTrieSet[Key]]:
    before, after = ({} if pod is None else pod.labels for pod in (old, new))
    for name, value in before.items() - after.items():
        labelled = _without(labelled, (key.namespace, name, value), key)
    for name, value in after.items():
        if before.get(name) != value:
            label = key.namespace, name, value
            labelled = labelled.insert(label, (labelled.get(label) or _NO_KEYS).insert(key))
    return labelled


def _found_by(view: View, key: Key, selector: Mapping[str, str]) -> View:
    """A Service has another selector. An empty one selects no pods."""
    found_by, labels_of = view.found_by, view.labels_of
    earlier = labels_of.get(key)
    if earlier is not None:
        found_by, labels_of = _without(found_by, earlier, key), labels_of.remove(key)
    if selector:
        labels = [(key.namespace, *item) for item in sorted(selector.items())]
        # The label by which the fewest Services are found: others of the selector may stand in all of them.
        label = min(labels, key=lambda label: len(found_by.get(label) or _NO_KEYS))
        found_by = found_by.insert(label, (found_by.get(label) or _NO_KEYS).insert(key))
        labels_of = labels_of.insert(key, label)
    return view._replace(found_by=found_by, labels_of=labels_of)


def _without(
    index: HashTrieMap[Label, HashTrieSet[Key]], label: Label, key: Key
) -> HashTrieMap[Label, HashTrieSet[Key]]:
    keys = index[label].remove(key)
    return index.insert(label, keys) if keys else index.remove(label)


def _services_for(view: View, pod: Key, labels: Mapping[str, str]) -> tuple[Key, ...]:
    """The Services that select a pod with these labels, sorted."""
    services = view.services
    candidates = {key for item in labels.items() for key in view.found_by.get((pod.namespace, *item)) or ()}
    return tuple(sorted(key for key in candidates if services[key].selector.items() <= labels.items()))


def _selected(view: View, service: Key, selector: Mapping[str, str]) -> Iterable[Key]:
    """The pods with all labels of a selector."""
    if not selector:
        return ()
    sets = sorted((view.labelled.get((service.namespace, *item)) or _NO_KEYS for item in selector.items()), key=len)
    return (key for key in sets[0] if all(key in others for others in sets[1:]))


def _hosting(
    hosting: HashTrieMap[str, HashTrieMap[Key, Pod]], key: Key, old: Pod | None, new: Pod | None
) -> HashTrieMap[str, HashTrieMap[Key, Pod]]:
    before = "" if old is None else old.hosts
    after = "" if new is None else new.hosts
    if before and before != after:
        hosting = _with(hosting, before, hosting[before].remove(key) or None)
    if after and new is not None:
        hosting = hosting.insert(after, (hosting.get(after) or _NO_PODS).insert(key, new))
    return hosting


def _located(
    located: HashTrieMap[str, HashTrieMap[Key, bool]], key: Key, old: Pod | None, new: Pod | None
) -> tuple[HashTrieMap[str, HashTrieMap[Key, bool]], frozenset[str]]:
    """Where pods are, and the addresses at which that changes."""
    before, after = _addresses(old), _addresses(new)
    if before == after:
        return located, frozenset()
    for address in before.keys() - after.keys():
        located = _with(located, address, located[address].remove(key) or None)
    for address, stays in after.items():
        located = located.insert(address, (located.get(address) or _NO_STAYS).insert(key, stays))
    moved = {address for address, _ in before.items() ^ after.items()}
    return located, frozenset(moved)


def _addresses(pod: Pod | None) -> dict[str, bool]:
    """The addresses that a pod has for itself, each with whether it stays."""
    if pod is None or pod.host_network:
        return {}
    return dict.fromkeys(pod.addresses, not pod.is_terminating)


def _regrouped(
    view: View, key: Key, pod: Pod | None, services: tuple[Key, ...]
) -> tuple[HashTrieMap[Key, Group], HashTrieMap[Key, tuple[Key, ...]], frozenset[Key]]:
    """The groups where a pod has this record, and these Services select it; and the Services that it concerns."""
    groups, selecting = view.groups, view.selecting
    before = selecting.get(key) or ()
    for service in before:
        groups = _with(groups, service, _left(groups[service], key, before, service))
    if pod is not None:
        for service in services:
            groups = groups.insert(service, _joined(groups.get(service) or _EMPTY, key, pod, services, service))
    if before != services:
        selecting = _with(selecting, key, services or None)
    return groups, selecting, frozenset(before + services)


def _joined(group: Group, key: Key, pod: Pod, services: tuple[Key, ...], own: Key) -> Group:
    shared = group.shared
    for other in services:
        if other != own:
            shared = shared.insert(other, (shared.get(other) or 0) + 1)
    return Group(group.pods.insert(key, pod), group.on_host + pod.host_network, shared)


def _left(group: Group, key: Key, services: tuple[Key, ...], own: Key) -> Group | None:
    """The group without a pod; None if that was the last one."""
    pod = group.pods[key]
    pods = group.pods.remove(key)
    if not pods:
        return None
    shared = group.shared
    for other in services:
        if other != own:
            shared = _with(shared, other, shared[other] - 1 or None)
    return Group(pods, group.on_host - pod.host_network, shared)
