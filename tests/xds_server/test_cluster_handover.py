"""The handover of a client of gRPC to other clusters: which tables it receives when, and which clients need none."""

from __future__ import annotations

from typing import Any

import pytest
from envoy.config.route.v3 import route_pb2

from tests.xds_server.build import content_of, resource
from tests.xds_server.transcript import world
from xds_server.protocol import cluster_handover
from xds_server.protocol.cluster_handover import with_clusters_of
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import DeltaRequest, SotwRequest
from xds_server.resources.snapshot import Resource
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES

BOTH = pytest.mark.parametrize("variant", ["sotw", "delta"])


class Grpc:
    """A client that asks for the listener `l`, its routes, and the clusters that those name."""

    def __init__(self, variant: str, text: str, *, grpc: bool = True) -> None:
        self._delta = variant == "delta"
        kind = DeltaStream if self._delta else SotwStream
        self.stream: Any = kind(world(text), SharedResults(), empty_is_all=not grpc)
        self.refuses: list[str] = []
        """Types of which it refuses the next response, each once."""
        self.slow: set[str] = set()
        """Types of which it answers a response only when `answer` is called."""
        self.routes: list[str] = []
        """The routes that it received: their content, and all clusters that they name."""
        self.late: list[Any] = []
        self._named: dict[str, set[str]] = {}
        self._names: dict[str, set[str]] = {}
        self.ask(LISTENER, {"l"})
        self.ask(ROUTES, {"r"})

    def ask(self, kind: str, names: set[str]) -> None:
        before = self._names.get(kind, set())
        if names == before:
            return
        self._names[kind] = names
        if self._delta:
            new, gone = tuple(sorted(names - before)), tuple(sorted(before - names))
            self._hear(self.stream.receive(DeltaRequest(kind, subscribe=new, unsubscribe=gone)))
        else:
            state = self.stream.type_state(kind)
            nonce = state.last_nonce if state else ""
            self._hear(self.stream.receive(SotwRequest(kind, nonce, names=tuple(sorted(names)))))

    def _hear(self, responses: list[Any]) -> None:
        for response in responses:
            if response.type_url in self.slow:
                self.late.append(response)
            else:
                self._take(response)

    def answer(self) -> None:
        self._take(self.late.pop(0))

    def _take(self, response: Any) -> None:
        kind, nonce = response.type_url, response.nonce
        error = "bad" if kind in self.refuses else None
        if error:
            self.refuses.remove(kind)
        if kind == ROUTES:
            content = self.stream.type_state(ROUTES).pending_acks[nonce].content
            for name, table in ((name, table) for name, table in content.items() if table):
                message = route_pb2.RouteConfiguration.FromString(table.body)
                self._named[name] = {route.route.cluster for route in message.virtual_hosts[0].routes}
                self.routes.append(f"{content_of(message)}>{','.join(sorted(self._named[name]))}")
        if self._delta:
            answer: Any = DeltaRequest(kind, nonce, error)
        else:
            answer = SotwRequest(kind, nonce, error, names=tuple(sorted(self._names[kind])))
        self._hear(self.stream.receive(answer))
        if kind == ROUTES and not error:
            clusters = set[str]().union(*(self._named[name] for name in self._names[ROUTES] & self._named.keys()))
            self.ask(CLUSTER, clusters)
            self.ask(ENDPOINTS, clusters)

    def publish(self, text: str) -> None:
        self._hear(self.stream.publish(world(text)))

    def wait(self) -> None:
        """The time has passed."""
        assert self.stream.waits_for.handover
        self._hear(self.stream.end_wait())


def begun(variant: str, *, grpc: bool = True) -> Grpc:
    client = Grpc(variant, "clusters a=1; listeners l=1>r; routes r=1>a", grpc=grpc)
    assert client.routes == ["1>a"]
    client.routes.clear()
    return client


SECOND = "clusters b=1; listeners l=1>r; routes r=2>b"


@BOTH
def test_new_clusters_are_named_before_they_are_used_and_old_ones_after_that(variant: str) -> None:
    client = begun(variant)
    client.publish(SECOND)
    assert client.routes == ["1>a,b"]
    assert client.stream.completed is not client.stream.snapshot
    client.wait()
    assert client.routes[1:] == ["2>a,b"]
    assert "a" in client.stream.type_state(CLUSTER).known
    client.wait()
    assert client.routes[2:] == ["2>b"]
    assert client.stream.waits_for is None
    assert client.stream.completed is client.stream.snapshot
    assert list(client.stream.type_state(CLUSTER).known) == ["b"]


@BOTH
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("clusters a=1; listeners l=1>r; routes r=2>a", ["2>a"]),
        ("clusters a=1 b=1; listeners l=1>r; routes r=2>a,b", ["1>a,b", "2>a,b"]),
        ("clusters a=2; listeners l=2>r; routes r=1>a", ["1>a"]),
    ],
    ids=["the same clusters", "one more", "nothing of the routes"],
)
def test_no_step_is_taken_that_is_not_needed(variant: str, text: str, told: list[str]) -> None:
    client = begun(variant)
    client.publish(text)
    while client.stream.waits_for:
        client.wait()
    assert client.routes == told
    assert client.stream.completed is client.stream.snapshot


@BOTH
def test_other_clients_are_not_led(variant: str) -> None:
    client = begun(variant, grpc=False)
    client.publish(SECOND)
    assert client.routes == ["2>b"]


@BOTH
def test_endpoints_do_not_wait_for_a_handover_and_other_routes_replace_it(variant: str) -> None:
    client = begun(variant)
    client.publish(f"{SECOND}; endpoints b=1")
    client.publish(f"{SECOND}; endpoints b=2")
    held = client.stream.type_state(ENDPOINTS).known["b"]
    assert held.version == resource(ENDPOINTS, "b", 2).version
    client.publish("clusters c=1; listeners l=1>r; routes r=3>c")
    for _ in range(2):
        client.wait()
    assert client.routes == ["1>a,b", "1>a,b,c", "3>a,b,c", "3>c"]


@BOTH
def test_a_snapshot_that_leads_to_the_same_clusters_waits_for_a_handover(variant: str) -> None:
    client = begun(variant)
    client.publish(SECOND)
    client.publish("clusters b=1 d=1; listeners l=1>r; routes r=2>b")
    assert client.stream.snapshot.version == world(SECOND).version
    for _ in range(2):
        client.wait()
    assert client.routes == ["1>a,b", "2>a,b", "2>b"]
    assert "d" in client.stream.snapshot.of_type(CLUSTER).resources


@BOTH
def test_a_table_with_another_name_is_not_handed_over(variant: str) -> None:
    """The limit that `docs/xds.md` states: who serves clients of gRPC keeps the names of route tables."""
    client = begun(variant)
    client.publish("clusters b=1; listeners l=2>s; routes s=2>b")
    client.ask(ROUTES, {"r", "s"})
    assert client.routes[-1] == "2>b"
    assert client.stream.waits_for is None or not client.stream.waits_for.handover


@BOTH
def test_a_client_that_refuses_a_step_is_led_no_further(variant: str) -> None:
    client = begun(variant)
    client.refuses.append(ROUTES)
    client.publish(SECOND)
    assert client.routes == ["1>a,b", "2>b"]
    assert client.stream.waits_for is None
    assert not client.stream.refuses
    assert client.stream.completed is client.stream.snapshot


@BOTH
def test_a_client_that_refused_routes_is_led_to_others(variant: str) -> None:
    client = begun(variant)
    client.refuses += [ROUTES, ROUTES]
    client.publish(SECOND)
    assert client.routes == ["1>a,b", "2>b"]
    # As long as it is to have what it refused, it gets that in no other form.
    client.publish("clusters b=2; listeners l=1>r; routes r=2>b")
    assert client.routes == ["1>a,b", "2>b"]
    client.publish("clusters c=1; listeners l=1>r; routes r=3>c")
    for _ in range(2):
        client.wait()
    assert client.routes[2:] == ["1>a,c", "3>a,c", "3>c"]
    assert not client.stream.refuses


@BOTH
@pytest.mark.parametrize(("clusters", "slow"), [("b=1", {CLUSTER, ENDPOINTS}), ("b=1-", {CLUSTER})])
def test_a_step_takes_its_time_from_the_last_acknowledgement(variant: str, clusters: str, slow: set[str]) -> None:
    """The client asks for clusters after it has their names from routes, and knows them when it has them."""
    client = begun(variant)
    client.slow = slow
    client.publish(f"clusters {clusters}; listeners l=1>r; routes r=2>b")
    assert client.routes == ["1>a,b"]
    while client.late:
        wait = client.stream.waits_for
        assert wait is None or not wait.handover
        client.answer()
    client.wait()
    assert client.routes[1:] == ["2>a,b"]


def table_of(**hosts: str) -> Resource:
    """Virtual hosts by name, each with a route to one cluster."""
    message: Any = route_pb2.RouteConfiguration(name="r")
    for name, cluster in hosts.items():
        message.virtual_hosts.add(name=name, domains=[name]).routes.add().route.cluster = cluster
    return Resource.of(message)


def named_by(table: Resource) -> dict[str, list[str]]:
    message = route_pb2.RouteConfiguration.FromString(table.body)
    return {host.name: [route.route.cluster for route in host.routes] for host in message.virtual_hosts}


def test_each_virtual_host_names_the_clusters_of_those_that_change() -> None:
    """A client knows the clusters of its own virtual host only, and may have another one after the change."""
    old, new = table_of(x="a", y="b", z="c"), table_of(x="b", y="a", z="c")
    assert named_by(with_clusters_of(old, new)) == {"x": ["a", "b"], "y": ["b", "a"], "z": ["c", "a", "b"]}
    assert named_by(with_clusters_of(new, old)) == {"x": ["b", "a"], "y": ["a", "b"], "z": ["c", "a", "b"]}
    assert named_by(with_clusters_of(table_of(x="a"), table_of(x="a", y="b"))) == {"x": ["a", "b"]}


def test_a_route_that_names_a_cluster_is_the_last_and_matches_nothing() -> None:
    table = resource(ROUTES, "r", 1, ("a",))
    led = with_clusters_of(table, resource(ROUTES, "r", 2, ("c", "b")))
    message = route_pb2.RouteConfiguration.FromString(led.body)
    first, *others = message.virtual_hosts[0].routes
    assert first.route.cluster == "a"
    assert [route.route.cluster for route in others] == ["b", "c"]
    for route in others:
        one, other = route.match.headers
        assert one.name == other.name
        assert one.present_match
        assert other.present_match
        assert other.invert_match is not one.invert_match
    assert with_clusters_of(table, resource(ROUTES, "r", 2, ("a",))) is table


@pytest.mark.parametrize("case", ["too many", "a tree"])
def test_a_table_that_cannot_be_led_stays_as_it_is(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message = route_pb2.RouteConfiguration.FromString(table_of(x="a", y="a").body)
    if case == "too many":
        monkeypatch.setattr(cluster_handover, "MOST", 3)
    else:
        for host in message.virtual_hosts:
            host.matcher.SetInParent()
    table = Resource.of(message)
    assert with_clusters_of(table, table_of(x="b", y="c")) is table
