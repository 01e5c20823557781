"""The picture of a cluster: its indices are what the objects alone say, whatever happened before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster.core.view import View, with_namespace, with_pod, with_service, with_slice
from admc.kubernetes.cluster.records import Key, Namespace, Service, Slice
from tests.cluster.objects import pod, service
from tests.properties import examples

if TYPE_CHECKING:
    from admc.kubernetes.cluster.core.view import Change
    from admc.kubernetes.cluster.records import Pod

SPACES = st.sampled_from(["shop", "ops"])
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
PODS = st.builds(
    lambda space, name, labels, address, adm, over, ending, host: pod(
        name,
        "",
        *((f"10.1.0.{address}",) if address else ()),
        namespace=space,
        labels=labels,
        adm=adm,
        is_over=over,
        is_terminating=ending,
        host_network=host,
    ),
    SPACES,
    st.sampled_from("pqr"),
    LABELS,
    st.integers(0, 3),
    st.sampled_from(["", "shop/rate", "shop/search"]),
    *[st.booleans()] * 3,
)
SERVICES = st.builds(
    lambda space, name, labels: service(name, namespace=space, selector=labels),
    SPACES,
    st.sampled_from(["rate", "search", "geo"]),
    LABELS,
)
SLICES = st.builds(
    lambda space, name, owner: Slice(Key(space, name), owner, ("10.9.0.1",), ()),
    SPACES,
    st.sampled_from(["one", "two"]),
    st.sampled_from(["rate", "search"]),
)
NAMESPACES = st.builds(Namespace, SPACES, LABELS)
OBJECTS = PODS | SERVICES | SLICES | NAMESPACES
STEPS = st.lists(st.tuples(OBJECTS, st.booleans()), max_size=25)
"""Objects, each with whether it goes; otherwise it comes or changes."""


class Objects:
    """What there is, in plain dictionaries, and every index by its definition."""

    def __init__(self) -> None:
        self.pods: dict[Key, Pod] = {}
        self.services: dict[Key, Service] = {}
        self.slices: dict[Key, Slice] = {}
        self.namespaces: dict[str, Namespace] = {}

    def put(self, view: View, record: Any, *, goes: bool) -> Change:
        kind, change = {
            "Pod": (self.pods, with_pod),
            "Service": (self.services, with_service),
            "Slice": (self.slices, with_slice),
            "Namespace": (self.namespaces, with_namespace),
        }[type(record).__name__]
        key = record.name if isinstance(record, Namespace) else record.key
        there: dict[Any, Any] = kind  # type: ignore[assignment]
        if goes:
            there.pop(key, None)
        else:
            there[key] = record
        return change(view, key, None if goes else record)  # type: ignore[operator, no-any-return]

    @property
    def running(self) -> list[Pod]:
        return [record for record in self.pods.values() if not record.is_over]

    def group(self, key: Key) -> dict[Key, Pod]:
        made = self.services.get(key)
        if made is None or not made.selector:
            return {}
        own = [record for record in self.running if record.key.namespace == key.namespace]
        return {record.key: record for record in own if made.selector.items() <= record.labels.items()}

    def indices(self) -> dict[str, Any]:
        groups = {key: self.group(key) for key in self.services}
        selecting = {
            record.key: tuple(sorted(key for key, group in groups.items() if record.key in group))
            for record in self.running
        }
        located: dict[str, dict[Key, bool]] = {}
        hosting: dict[str, dict[Key, Pod]] = {}
        for record in self.running:
            for address in () if record.host_network else record.addresses:
                located.setdefault(address, {})[record.key] = not record.is_terminating
            if record.hosts:
                hosting.setdefault(record.hosts, {})[record.key] = record
        slices: dict[Key, dict[Key, Slice]] = {}
        for made in self.slices.values():
            slices.setdefault(Key(made.key.namespace, made.service), {})[made.key] = made
        return {
            "pods": self.pods,
            "services": self.services,
            "namespaces": self.namespaces,
            "groups": {key: group for key, group in groups.items() if group},
            "on_host": {key: sum(each.host_network for each in group.values()) for key, group in groups.items()},
            "shared": {
                key: {
                    other: len(group.keys() & others.keys())
                    for other, others in groups.items()
                    if other != key and group.keys() & others.keys()
                }
                for key, group in groups.items()
            },
            "selecting": {key: keys for key, keys in selecting.items() if keys},
            "located": located,
            "hosting": hosting,
            "slices": slices,
        }


def indices(view: View) -> dict[str, Any]:
    return {
        "pods": dict(view.pods),
        "services": dict(view.services),
        "namespaces": dict(view.namespaces),
        "groups": {key: dict(group.pods) for key, group in view.groups.items()},
        "on_host": {key: view.group(key).on_host for key in view.services},
        "shared": {key: dict(view.group(key).shared) for key in view.services},
        "selecting": dict(view.selecting),
        "located": {address: dict(pods) for address, pods in view.located.items()},
        "hosting": {name: dict(pods) for name, pods in view.hosting.items()},
        "slices": {key: dict(slices) for key, slices in view.slices_by_service.items()},
    }


@examples(300)
@given(steps=STEPS)
def test_indices_are_what_the_objects_say(steps: list[tuple[Any, bool]]) -> None:
    view, objects = View(), Objects()
    for record, goes in steps:
        before, earlier = view, indices(view)
        change = objects.put(view, record, goes=goes)
        view = change.view
        after = indices(view)
        assert after == objects.indices()
        assert indices(before) == earlier  # a picture never changes
        differing = {key for key in {*before.services, *view.services} if _of(before, key) != _of(view, key)}
        assert differing <= change.services
        addresses = earlier["located"].keys() | after["located"].keys()
        assert {name for name in addresses if before.at(name) != view.at(name)} == change.addresses


@examples(50)
@given(steps=STEPS)
def test_nothing_stays_of_objects_that_are_gone(steps: list[tuple[Any, bool]]) -> None:
    view, objects = View(), Objects()
    for record, goes in steps:
        view = objects.put(view, record, goes=goes).view
    for there in (objects.pods, objects.services, objects.slices, objects.namespaces):
        for record in list(there.values()):  # type: ignore[attr-defined]
            view = objects.put(view, record, goes=True).view
    assert view == View()


def _of(view: View, key: Key) -> Any:
    return view.services.get(key), view.group(key), view.slices_of(key)
