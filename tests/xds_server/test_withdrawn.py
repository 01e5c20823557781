"""A snapshot that is withdrawn before a client has all of it: what the client lacks is never sent.

The later snapshot may have been published because the earlier one is wrong. The clients are models; `test_envoy.py` and
`test_grpc_client.py` have real ones.
"""

from __future__ import annotations

from typing import Any

import pytest
from envoy.config.route.v3 import route_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.xds_server.build import content_of
from tests.xds_server.test_cluster_handover import Grpc
from tests.xds_server.test_properties import Envoy, World, expected, snapshot_of, worlds
from tests.xds_server.transcript import Conversation, world
from xds_server.resources.ack_events import Nacked
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES, WHOLE

BOTH = pytest.mark.parametrize("variant", ["sotw", "delta"])
RELAXED = examples(50)

Content = dict[str, dict[str, str]]


def contents(snapshot: Snapshot) -> Content:
    """By type and name, the version of each resource."""
    return {
        kind: {name: resource.version for name, resource in collection.resources.items()}
        for kind, collection in snapshot.collections.items()
    }


class Watched(Envoy):
    """A model of Envoy that looks at each response when the server sends it."""

    def __init__(self, variant: str, snapshot: Snapshot) -> None:
        self.latest = contents(snapshot)
        self.sent: dict[str, dict[str, str | None]] = {}
        """By type and name, the version that the server has sent last; None is a removal."""
        super().__init__(variant, snapshot)

    def step_server(self) -> None:
        before = len(self.down)
        super().step_server()
        self._look(before)

    def publish(self, snapshot: Snapshot) -> None:
        self.latest = contents(snapshot)
        before = len(self.down)
        super().publish(snapshot)
        self._look(before)

    def _look(self, before: int) -> None:
        for data in list(self.down)[before:]:
            response, found, removed = self._parsed(data)
            kind = response.type_url
            sent, latest = self.sent.setdefault(kind, {}), self.latest.get(kind, {})
            versions = {name: Resource.of(message).version for name, message, _ in found}
            if self.variant == "sotw" and kind in WHOLE:
                removed = sorted(sent.keys() - versions.keys())
            for name, version in versions.items():
                empty = kind == ENDPOINTS and name not in latest
                wanted = version == latest.get(name) or version == sent.get(name) or empty
                assert wanted, f"{kind} {name} was withdrawn before it was sent"
            for name in removed:
                assert name not in latest or sent.get(name) is None, f"the removal of {kind} {name} was withdrawn"
            sent.update(versions)
            sent.update(dict.fromkeys(removed))


STEPS = st.lists(
    st.one_of(st.sampled_from(["server", "client", "back"]), worlds()),
    max_size=40,
)


def play(envoy: Watched, steps: list[str | World], history: list[World]) -> None:
    """`back` publishes the snapshot before the last one again."""
    for step in steps:
        if isinstance(step, dict) or step == "back":
            history.append(step if isinstance(step, dict) else history[-2:][0])
            envoy.publish(snapshot_of(history[-1]))
        elif step == "server" and envoy.up:
            envoy.step_server()
        elif step == "client" and envoy.down:
            envoy.step_client()
            envoy.check_routes()


@BOTH
@RELAXED
@given(first=worlds(), settled=st.booleans(), steps=STEPS)
def test_what_was_withdrawn_before_it_was_sent_is_never_sent(
    variant: str, first: World, settled: bool, steps: list[str | World]
) -> None:
    envoy = Watched(variant, snapshot_of(first))
    history = [first]
    if settled:
        envoy.drain()
    play(envoy, steps, history)
    for _ in range(2000):
        if not envoy.up and not envoy.down:
            break
        play(envoy, ["server", "client"], history)
    assert envoy.contents() == expected(history[-1])
    assert envoy.stream.idle
    assert not envoy.stream.waits_for
    assert envoy.stream.completed.version == snapshot_of(history[-1]).version


class Balanced(Grpc):
    """A model of a client of gRPC that answers late, and whose balancer applies the clusters of a table late."""

    def __init__(self, variant: str, routes: list[str]) -> None:
        """`routes`: for each snapshot the cluster to which its route leads, the first one of them so far."""
        self.worlds = routes
        self.allowed = {"0"}
        """The tables that may be sent: the latest, and those that were sent before."""
        self.possible = [{routes[0]}]
        """The sets of clusters that the balancer may have now."""
        super().__init__(variant, self.text(0))
        self.slow = {CLUSTER, ENDPOINTS, LISTENER, ROUTES}
        self.sent = {"0"}

    def text(self, number: int) -> str:
        cluster = self.worlds[number]
        return f"clusters {cluster}=1; endpoints {cluster}=1; listeners l=1>r; routes r={number}>{cluster}"

    def publish_next(self, cluster: str) -> None:
        self.worlds.append(cluster)
        number = len(self.worlds) - 1
        self.allowed = {*self.sent, str(number)}
        self.publish(self.text(number))

    def _hear(self, responses: list[Any]) -> None:
        for response in responses:
            if response.type_url == ROUTES and self.slow:
                content = self.stream.type_state(ROUTES).pending_acks[response.nonce].content
                for table in filter(None, content.values()):
                    number = content_of(route_pb2.RouteConfiguration.FromString(table.body))
                    assert number in self.allowed, f"table {number} was withdrawn before it was sent"
                    self.sent.add(number)
        super()._hear(responses)

    def _take(self, response: Any) -> None:
        before = len(self.routes)
        super()._take(response)
        for table in self.routes[before:] if self.slow else ():
            number, _, named = table.partition(">")
            live = self.worlds[int(number)]
            assert all(live in clusters for clusters in self.possible), f"{table} comes before the balancer has {live}"
            self.possible.append(set(named.split(",")))

    def wait(self) -> None:
        super().wait()
        self.possible = self.possible[-1:]

    def step(self, what: str) -> None:
        wait = self.stream.waits_for
        if what == "answer" and self.late:
            self.answer()
        elif what == "wait" and wait and wait.handover:
            # The time of a step begins with the last acknowledgement: the client has applied its last table.
            self.possible = self.possible[-1:]
            self.wait()
        elif what in {"a", "b", "c"}:
            self.publish_next(what)


GRPC_STEPS = st.lists(st.sampled_from(["answer", "answer", "answer", "wait", "wait", "a", "b", "c"]), max_size=60)


@BOTH
@examples(100)
@given(steps=GRPC_STEPS)
def test_a_client_of_grpc_never_gets_a_withdrawn_table_and_loses_no_call(variant: str, steps: list[str]) -> None:
    client = Balanced(variant, ["a"])
    for step in steps:
        client.step(step)
    for _ in range(100):
        client.step("answer")
        client.step("wait")
    assert not client.late
    assert client.stream.completed.version == world(client.text(len(client.worlds) - 1)).version
    assert list(client.stream.type_state(CLUSTER).known) == [client.worlds[-1]]
    assert client.stream.waits_for is None


@BOTH
@pytest.mark.parametrize("answers", range(4))
def test_a_table_that_is_withdrawn_during_a_handover_is_not_used(variant: str, answers: int) -> None:
    """After each response that the client has answered: the table with new clusters, the clusters, their endpoints."""
    client = Balanced(variant, ["a"])
    client.publish_next("b")
    for _ in range(answers):
        client.answer()
    client.publish_next("a")
    for _ in range(20):
        client.step("answer")
        client.step("wait")
    assert [table for table in client.routes if table.startswith("1")] == []
    assert client.routes[-1] == "2>a"


@BOTH
def test_snapshots_that_follow_each_other_do_not_prolong_a_wait(variant: str) -> None:
    """A client that never requests the endpoints of `b` gets its routes after one wait."""
    said = Conversation(variant)
    name = "r" if variant == "sotw" else "+r"
    for line in ("world clusters a=1-; routes r=1>a", "> clusters", "> clusters ack 1", f"> routes {name}"):
        said.hear(line)
    said.hear("> routes ack 1")
    said.hear("world clusters a=1- b=1; routes r=2>b")
    said.hear("> clusters ack 2")
    wait = said.stream.waits_for
    assert wait is not None
    for number in range(3, 6):
        assert said.hear(f"world clusters a=1- b=1; routes r={number}>b") == []
        assert said.stream.waits_for == wait
    assert said.hear("patience") == ["< routes 2: r=5"]


@BOTH
def test_endpoints_that_change_all_the_time_do_not_hold_up_a_transition(variant: str) -> None:
    """A snapshot that withdraws nothing of the one under way waits for it, whatever else it has."""
    client = Grpc(variant, "clusters a=1; listeners l=1>r; routes r=1>a", grpc=False)
    client.slow = {CLUSTER}
    client.publish("clusters a=2; endpoints a=1; listeners l=1>r; routes r=2>a")
    client.publish("clusters a=3; endpoints a=2; listeners l=1>r; routes r=2>a")
    client.answer()
    assert client.routes == ["1>a", "2>a"]


@BOTH
def test_a_refusal_of_what_was_withdrawn_meanwhile_is_known_for_other_clients(variant: str) -> None:
    """A later snapshot may have the same cluster again."""
    said = Conversation(variant)
    for line in ("world clusters a=1-; listeners l=1", "> clusters", "> clusters ack 1", "> listeners"):
        said.hear(line)
    said.hear("> listeners ack 1")
    bad = world("clusters a=1- b=1-; listeners l=2")
    said.stream.publish(bad)
    said.hear("world clusters a=1-; listeners l=1")
    said.stream.take_events()
    said.hear("> clusters nack 2 b is bad")
    (refusal,) = [event for event in said.stream.take_events() if isinstance(event, Nacked)]
    assert refusal.snapshot is bad
    assert refusal.resources["b"] == bad.of_type(CLUSTER).resources["b"].version


@BOTH
def test_what_is_published_again_waits_for_the_endpoints_that_its_clusters_lack(variant: str) -> None:
    """The client has the cluster `b` of the first time, and has not requested its endpoints yet."""
    said = Conversation(variant)
    before = "world clusters a=1-; listeners l=1>r; routes r=1>a"
    after = "world clusters a=1- b=1; endpoints b=1; listeners l=1>r; routes r=2>b"
    names = [word if variant == "sotw" else f"+{word}" for word in ("r", "b")]
    for line in (before, "> clusters", "> clusters ack 1", "> listeners", "> listeners ack 1", f"> routes {names[0]}"):
        said.hear(line)
    said.hear("> routes ack 1")
    assert said.hear(after) != []
    assert said.hear(before) == said.hear(after) == []
    assert said.hear("> clusters ack 2") == []
    assert said.hear(f"> endpoints {names[1]}") == ["< endpoints 1: b=1"]
    assert said.hear("> endpoints ack 1") == ["< routes 2: r=2"]
