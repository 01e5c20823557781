"""Whatever happens in whatever order, a client is led to the last snapshot, and no route ever leads nowhere on the way.

The client here is a model of Envoy: it asks for all clusters and listeners, then for the endpoints and routes that
those name, and forgets what nothing names any more. Both directions are queues, so that requests and responses cross.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.xds_server.build import MESSAGES, content_of, resource
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import parse_delta, parse_sotw
from xds_server.resources.earlier_streams import EarlierStreams
from xds_server.resources.references import references
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES, WHOLE

BAD = 3
"""What has this content is refused by clients that refuse."""
USED = {CLUSTER: ENDPOINTS, LISTENER: ROUTES}

World = dict[str, dict[str, tuple[int, tuple[str, ...]]]]


@st.composite
def worlds(draw: st.DrawFn, most: int = BAD) -> World:
    """A consistent snapshot of a few clusters, listeners, and what they need."""
    content = st.integers(1, most)
    names = sorted(draw(st.sets(st.sampled_from("abc"), min_size=1)))
    listeners = sorted(draw(st.sets(st.sampled_from("lm"))))
    return {
        CLUSTER: {name: (draw(content), ()) for name in names},
        ENDPOINTS: {name: (draw(content), ()) for name in names},
        LISTENER: {name: (draw(content), (f"r{name}",)) for name in listeners},
        ROUTES: {f"r{name}": (draw(content), (draw(st.sampled_from(names)),)) for name in listeners},
    }


def snapshot_of(world: World) -> Snapshot:
    snapshot = Snapshot.of(
        resource(kind, name, content, uses) for kind, items in world.items() for name, (content, uses) in items.items()
    )
    snapshot.check()
    return snapshot


class Envoy:
    """A model of one."""

    def __init__(
        self,
        variant: str,
        snapshot: Snapshot,
        past: EarlierStreams | None = None,
        *,
        refuses: bool = False,
        partly: bool = False,
    ) -> None:
        """`partly`: whether it takes what is good of a response that it refuses, as Envoy does."""
        self.variant = variant
        self.refuses = refuses
        self.partly = partly
        self.refused: dict[str, tuple[list[str], list[str]]] = {}
        """By type, what the last refused response said, if nothing was asked for since."""
        self.held: dict[str, dict[str, Any]] = {CLUSTER: {}, ENDPOINTS: {}, LISTENER: {}, ROUTES: {}}
        self.versions: dict[str, dict[str, str]] = {kind: {} for kind in self.held}
        self.said: dict[str, str] = {}
        """By type, the version of the last response that it took."""
        self.past = past or EarlierStreams()
        self.stream: Any = None
        self.connect(snapshot)

    def connect(self, snapshot: Snapshot) -> None:
        """A new stream, with what is left of the last one."""
        if self.stream is not None:
            self.stream.leave()
        kind = SotwStream if self.variant == "sotw" else DeltaStream
        self.refused.clear()
        self.stream = kind(snapshot, SharedResults(), self.past)
        self.up: deque[bytes] = deque()
        self.down: deque[bytes] = deque()
        self.nonces: dict[str, str] = {}
        self.asked: dict[str, set[str]] = {}
        for root in (CLUSTER, LISTENER):
            self._request(root, has=self.versions[root])
            self._ask_for_used(root)

    def step_server(self) -> None:
        parse = parse_sotw if self.variant == "sotw" else parse_delta
        self.down.extend(response.data for response in self.stream.receive(parse(self.up.popleft())))

    def publish(self, snapshot: Snapshot) -> None:
        self.down.extend(response.data for response in self.stream.publish(snapshot))

    def step_client(self) -> None:
        response, found, removed = self._parsed(self.down.popleft())
        kind = response.type_url
        self.nonces[kind] = response.nonce
        assert len({name for name, _, _ in found}) == len(found)
        said = sorted(str(message) for _, message, _ in found), removed
        assert self.refused.pop(kind, None) != said, "the same bytes are sent again"
        error = ""
        if self.refuses and any(content_of(message) == str(BAD) for _, message, _ in found):
            error = "bad"
            if kind in USED:
                self.refused[kind] = said
            if not self.partly:
                self._request(kind, error=error)
                return
        good = [item for item in found if not error or content_of(item[1]) != str(BAD)]
        if self.variant == "sotw" and kind in WHOLE:
            removed = sorted(self.held[kind].keys() - {name for name, _, _ in found})
        if kind == CLUSTER:
            self._check_unused(removed)
        for name, message, version in good:
            if kind not in USED.values() or name in self.asked[kind]:
                self.held[kind][name] = message
                self.versions[kind][name] = version
        for name in removed:
            self.held[kind].pop(name, None)
            self.versions[kind].pop(name, None)
        if self.variant == "sotw" and not error:
            self.said[kind] = response.version_info
        self._request(kind, error=error)
        if kind in USED:
            self._ask_for_used(kind)

    def _check_unused(self, removed: list[str]) -> None:
        """No route that is in force leads to a cluster that is taken away."""
        for listener in self.held[LISTENER].values():
            for _, name in references(listener):
                for _, cluster in references(self.held[ROUTES][name]) if name in self.held[ROUTES] else ():
                    assert cluster not in removed, f"{cluster} is taken away, and route {name} leads to it"

    def drain(self) -> None:
        for _ in range(2000):
            if self.up:
                self.step_server()
            elif self.down:
                self.step_client()
            else:
                return
        raise AssertionError("the conversation does not come to an end")

    def check_routes(self) -> None:
        """Every route that is in force leads to a cluster whose endpoints are there."""
        for listener in self.held[LISTENER].values():
            for _, name in references(listener):
                for _, cluster in references(self.held[ROUTES][name]) if name in self.held[ROUTES] else ():
                    assert cluster in self.held[CLUSTER], f"route {name} leads to {cluster}, which is not there"
                    assert cluster in self.held[ENDPOINTS], f"{cluster} has no endpoints"

    def contents(self) -> dict[str, dict[str, str]]:
        return {kind: {name: content_of(item) for name, item in items.items()} for kind, items in self.held.items()}

    def _ask_for_used(self, kind: str) -> None:
        used = USED[kind]
        wanted = {name for item in self.held[kind].values() for url, name in references(item) if url == used}
        before = self.asked.get(used, set())
        if wanted == before:
            return
        self.asked[used] = wanted
        for name in set(self.held[used]) - wanted:
            del self.held[used][name]
            del self.versions[used][name]
        has = {name: version for name, version in self.versions[used].items() if name in wanted}
        self._request(used, wanted - before, before - wanted, has=has if not before and used not in self.nonces else {})

    def _request(
        self,
        kind: str,
        subscribe: set[str] | None = None,
        unsubscribe: set[str] | None = None,
        *,
        error: str = "",
        has: dict[str, str] | None = None,
    ) -> None:
        answers = subscribe is None
        fields: dict[str, Any] = {"type_url": kind, "response_nonce": self.nonces.get(kind, "")}
        if error:
            fields["error_detail"] = {"code": 3, "message": error}
        if self.variant == "sotw":
            fields["version_info"] = self.said.get(kind, "")
            request: Any = discovery_pb2.DiscoveryRequest(resource_names=sorted(self.asked.get(kind, ())), **fields)
        else:
            if not answers:
                fields["response_nonce"] = ""
            request = discovery_pb2.DeltaDiscoveryRequest(
                resource_names_subscribe=sorted(subscribe or ()),
                resource_names_unsubscribe=sorted(unsubscribe or ()),
                initial_resource_versions=has or {},
                **fields,
            )
        self.up.append(request.SerializeToString())

    def _parsed(self, data: bytes) -> tuple[Any, list[tuple[str, Any, str]], list[str]]:
        if self.variant == "sotw":
            response: Any = discovery_pb2.DiscoveryResponse.FromString(data)
            messages = [MESSAGES[packed.type_url].FromString(packed.value) for packed in response.resources]
            return response, [(getattr(each, "name", "") or each.cluster_name, each, "") for each in messages], []
        response = discovery_pb2.DeltaDiscoveryResponse.FromString(data)
        found = [
            (item.name, MESSAGES[item.resource.type_url].FromString(item.resource.value), item.version)
            for item in response.resources
        ]
        return response, found, list(response.removed_resources)


def expected(world: World) -> dict[str, dict[str, str]]:
    return {kind: {name: str(content) for name, (content, _) in items.items()} for kind, items in world.items()}


STEPS = st.lists(st.one_of(st.sampled_from(["server", "client"]), worlds()), max_size=40)
RELAXED = examples(50)


def play(envoy: Envoy, steps: list[str | World], *, checked: bool = True) -> None:
    for step in steps:
        if isinstance(step, dict):
            envoy.publish(snapshot_of(step))
        elif step == "server" and envoy.up:
            envoy.step_server()
        elif step == "client" and envoy.down:
            envoy.step_client()
            if checked:
                envoy.check_routes()


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@RELAXED
@given(first=worlds(), steps=STEPS, last=worlds())
def test_a_client_is_led_to_the_last_snapshot_and_no_route_leads_nowhere(
    variant: str, first: World, steps: list[str | World], last: World
) -> None:
    envoy = Envoy(variant, snapshot_of(first))
    play(envoy, steps)
    envoy.publish(snapshot_of(last))
    for _ in range(2000):
        if not envoy.up and not envoy.down:
            break
        play(envoy, ["server", "client"])
    assert envoy.contents() == expected(last)
    assert envoy.stream.idle
    assert not envoy.stream.waits_for


@pytest.mark.parametrize("partly", [False, True])
@pytest.mark.parametrize("variant", ["sotw", "delta"])
@RELAXED
@given(first=worlds(), steps=STEPS, later=st.none() | worlds(), more=STEPS, last=worlds(most=BAD - 1))
def test_a_client_that_refuses_is_healed_by_the_next_good_snapshot(
    variant: str,
    partly: bool,
    first: World,
    steps: list[str | World],
    later: World | None,
    more: list[str | World],
    last: World,
) -> None:
    envoy = Envoy(variant, snapshot_of(first), refuses=True, partly=partly)
    play(envoy, steps, checked=False)
    if later is not None:
        envoy.connect(snapshot_of(later))
    play(envoy, more, checked=False)
    envoy.drain()
    envoy.publish(snapshot_of(last))
    envoy.drain()
    assert envoy.contents() == expected(last)
    assert envoy.stream.idle
    assert not envoy.stream.refuses
    assert envoy.stream.completed.version == snapshot_of(last).version


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@RELAXED
@given(
    first=worlds(),
    settled=st.booleans(),
    steps=STEPS,
    later=worlds(),
    more=STEPS,
    latest=st.none() | worlds(),
    rest=STEPS,
    last=worlds(),
)
def test_a_client_that_comes_back_is_led_on(
    variant: str,
    first: World,
    settled: bool,
    steps: list[str | World],
    later: World,
    more: list[str | World],
    latest: World | None,
    rest: list[str | World],
    last: World,
) -> None:
    envoy = Envoy(variant, snapshot_of(first))
    if settled:
        envoy.drain()
    play(envoy, steps)
    envoy.connect(snapshot_of(later))
    play(envoy, more)
    if latest is not None:
        envoy.connect(snapshot_of(latest))
    play(envoy, rest)
    envoy.publish(snapshot_of(last))
    envoy.drain()
    assert envoy.contents() == expected(last)


@pytest.mark.parametrize("variant", ["sotw", "delta"])
@RELAXED
@given(first=worlds(), later=worlds(), more=STEPS)
def test_a_client_is_led_on_by_a_server_that_knows_what_was_acknowledged_last(
    variant: str, first: World, later: World, more: list[str | World]
) -> None:
    envoy = Envoy(variant, snapshot_of(first))
    envoy.drain()
    assert envoy.stream.completed is not None
    envoy.past = EarlierStreams()
    envoy.past.last_acked.snapshot_acked(1, envoy.stream.completed)
    envoy.connect(snapshot_of(later))
    play(envoy, more)
    play(envoy, ["server", "client"] * 60)
    assert envoy.stream.idle
    assert not envoy.up
    assert not envoy.down
