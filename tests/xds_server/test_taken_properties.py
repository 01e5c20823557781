"""Whatever is published, acknowledged and refused in whatever order: what is in force is consistent, and the latest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xds_server.test_properties import Envoy, World, snapshot_of, worlds
from tests.xds_server.test_taken import note
from xds_server.ordering import STAGED
from xds_server.snapshot import Snapshot
from xds_server.store import SnapshotStore
from xds_server.taken import Taken
from xds_server.types import CLUSTER, LISTENER, ROUTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.snapshot import Resource

RELAXED = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
TYPES = (CLUSTER, LISTENER, ROUTES)


class Said(NamedTuple):
    """An acknowledgement of some snapshot that was published: of all, of one type, or of some names of a type."""

    which: int
    type_url: str
    names: frozenset[str]


SAID = st.builds(
    Said,
    st.integers(0, 3),
    st.sampled_from(("", CLUSTER, CLUSTER, LISTENER, ROUTES)),
    st.sampled_from([*map(frozenset, ("a", "b", "c", "l", "ab", "abclm")), frozenset({"rl"}), frozenset({"rl", "rm"})]),
)


class Model:
    """By type, all that was acknowledged as a whole type, and by name what is newer."""

    def __init__(self) -> None:
        self._all: dict[str, tuple[int, dict[str, str]]] = {kind: (0, {}) for kind in TYPES}
        self._named: dict[str, dict[str, tuple[int, str]]] = {kind: {} for kind in TYPES}

    def hear(self, number: int, kind: str, snapshot: Snapshot, names: frozenset[str] | None = None) -> None:
        there, named = of(snapshot, kind), self._named[kind]
        if number < self._all[kind][0]:
            return
        if names is None or there.keys() <= names:
            self._all[kind] = number, there
            self._named[kind] = {name: each for name, each in named.items() if each[0] > number}
            return
        some = {name: (number, version) for name, version in there.items() if name in names}
        if all(self.resources(kind).get(name) == version for name, (_, version) in some.items()):
            return
        for name, each in list(named.items()):
            if each[0] <= number and name not in there:
                del named[name]
        named.update({name: each for name, each in some.items() if number >= named.get(name, each)[0]})

    def resources(self, kind: str) -> dict[str, str]:
        return {**self._all[kind][1], **{name: version for name, (_, version) in self._named[kind].items()}}


def of(snapshot: Snapshot, kind: str) -> dict[str, str]:
    return {name: item.version for name, item in snapshot.of_type(kind).resources.items()}


@RELAXED
@given(all_worlds=st.lists(worlds(), min_size=4, max_size=4), said=st.lists(SAID, min_size=1, max_size=8))
def test_what_is_in_force_is_consistent_and_what_was_acknowledged_last(
    all_worlds: list[World], said: list[Said]
) -> None:
    published = [snapshot_of(all_worlds[0])]
    for world in all_worlds[1:]:
        published.append(snapshot_of(world).sharing(published[-1]))
    taken, model = Taken(), Model()
    whole = 0
    for which, kind, names in [Said(0, "", frozenset()), *said]:
        snapshot = published[which]
        if not kind:
            taken.whole(which + 1, snapshot)
            whole = max(whole, which + 1)
            for each in TYPES:
                model.hear(which + 1, each, snapshot)
        elif which + 1 > whole:
            there = snapshot.of_type(kind).resources
            taken.part(which + 1, snapshot, kind, there if there.keys() <= names else _some(there, names))
            model.hear(which + 1, kind, snapshot, names)
    found, base = taken.snapshot, published[whole - 1]
    assert found is not None
    found.check()
    for kind in TYPES:
        assert {name: item.version for name, item in taken.resources(kind).items()} == model.resources(kind)
        for name, version in of(found, kind).items():
            assert version in (model.resources(kind).get(name), of(base, kind).get(name))
    for latest in published:
        if all(model.resources(kind) == of(latest, kind) for kind in TYPES):
            assert all(of(found, kind) == of(latest, kind) for kind in TYPES)


def _some(there: Mapping[str, Resource], names: frozenset[str]) -> dict[str, Resource]:
    return {name: item for name, item in there.items() if name in names}


class Group:
    """Some clients of a store, as the server has them."""

    def __init__(self, variants: tuple[str, ...], first: World) -> None:
        self.store = SnapshotStore()
        self.store.watchers.append(self._offer)
        self.clients: list[Any] = []
        self.store.publish("web", snapshot_of(first))
        self.clients = [self.new(variant) for variant in variants]

    def new(self, variant: str) -> Envoy:
        start = self.store.start("web")
        assert start is not None
        return Envoy(variant, start, self.store.past("web"), refuses=True)

    def _offer(self, _: str, __: Snapshot | None, new: Snapshot) -> None:
        for client in self.clients:
            client.publish(new)

    def play(self, at: int, what: str) -> None:
        client = self.clients[at % len(self.clients)]
        if what == "again":
            start = self.store.start("web")
            assert start is not None
            client.connect(start)
        elif what == "server" and client.up:
            client.step_server()
        elif what == "client" and client.down:
            client.step_client()
        note(self.store, client.stream)


@pytest.mark.parametrize("variants", [("sotw", "sotw"), ("delta", "delta"), ("sotw", "delta")], ids="-".join)
@RELAXED
@given(
    first=worlds(most=2),
    steps=st.lists(
        worlds() | st.tuples(st.integers(0, 1), st.sampled_from(["server", "client"] * 6 + ["again"])),
        max_size=40,
    ),
)
def test_a_new_client_is_never_given_what_was_refused(
    variants: tuple[str, ...], first: World, steps: list[Any]
) -> None:
    group = Group(variants, first)
    for client in group.clients:
        client.drain()
        note(group.store, client.stream)
    for step in steps:
        if isinstance(step, dict):
            group.store.publish("web", snapshot_of(step))
        else:
            group.play(*step)
    for at, client in enumerate(group.clients):
        while client.up or client.down:
            group.play(at, "server")
            group.play(at, "client")
    start = group.store.start("web")
    assert start is not None
    start.check()
    for variant in ("sotw", "delta"):
        late = group.new(variant)
        late.drain()
        assert not [each for each in late.stream.status() if each.error and each.type_url in STAGED]
