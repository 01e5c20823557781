"""What is in force is what clients have acknowledged, type by type, however much was published since."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.xds_server.client import SECONDS, Client
from tests.xds_server.test_properties import BAD, Envoy
from tests.xds_server.test_server import said, serving
from tests.xds_server.transcript import world
from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import DeltaRequest, SotwRequest
from xds_server.resources.ack_events import Nacked, SnapshotAcked, SnapshotAckedExceptUrgent, TypeAcked
from xds_server.resources.cache import SnapshotCache
from xds_server.resources.snapshot import Snapshot
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES

BOTH = pytest.mark.parametrize("variant", ["sotw", "delta"])
PUBLISHED_MS = 20
ANSWERED_MS = 50
ENOUGH = 8
"""Responses with endpoints after which a group counts as busy."""
IN_FORCE_MS = 5_000


class Churn:
    """One client and a store, on a clock that only the test moves: endpoints are published every 20 ms, and the client
    answers each response 50 ms after it."""

    def __init__(self, variant: str) -> None:
        self.store = SnapshotCache()
        self.store.watchers.append(lambda _, __, new: self.client.publish(new) if self.client else None)
        self.client: Any = None
        self._variant = variant
        self._now = 0
        self._due: list[int] = []
        self._count = 0

    def run(self, text: str, milliseconds: int) -> None:
        for _ in range(0, milliseconds, 10):
            if self._now % PUBLISHED_MS == 0:
                self._count += 1
                self.store.publish("web", world(f"{text}; endpoints a={10 + self._count}"))
                if self.client is None:
                    start = self.store.initial("web")
                    assert start is not None
                    self.client = Envoy(self._variant, start, self.store.earlier_streams("web"), refuses=True)
            self._step()
            self._now += 10

    def _step(self) -> None:
        while self.client.up:
            self.client.step_server()
        while self._due and self._due[0] <= self._now:
            self._due.pop(0)
            self.client.step_client()
            while self.client.up:
                self.client.step_server()
        self._due += [self._now + ANSWERED_MS] * (len(self.client.down) - len(self._due))
        note(self.store, self.client.stream)


def note(store: SnapshotCache, stream: Any) -> None:
    """As the server does."""
    for event in stream.take_events():
        if isinstance(event, Nacked):
            store.nacked("web", event)
        elif isinstance(event, TypeAcked):
            store.type_acked("web", event)
        elif hasattr(event, "snapshot"):
            store.acked("web", event.snapshot)


def contents(snapshot: Snapshot | None, type_url: str) -> str:
    """The version of all resources of a type."""
    assert snapshot is not None
    return snapshot.of_type(type_url).version


def of(text: str, type_url: str) -> str:
    return world(text).of_type(type_url).version


@BOTH
@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("clusters a=2", f"clusters a={BAD}"),
        ("clusters a=2; listeners l=1>r; routes r=1>a", f"clusters a={BAD}; listeners l=1>r; routes r=1>a"),
        ("clusters a=1; listeners l=2>r; routes r=2>a", f"clusters a=1; listeners l={BAD}>r; routes r=2>a"),
    ],
)
def test_what_was_in_force_under_churn_is_what_a_new_client_gets(variant: str, then: str, now: str) -> None:
    churn = Churn(variant)
    churn.run("clusters a=1; listeners l=1>r; routes r=1>a", 1_000)
    churn.run(then, IN_FORCE_MS)
    churn.run(now, 1_000)
    start, latest = churn.store.initial("web"), churn.store.current("web")
    assert churn.client.stream.refuses
    for type_url in (CLUSTER, LISTENER, ROUTES):
        assert contents(start, type_url) == of(then, type_url)
        assert contents(churn.store.last_acked("web"), type_url) == of(then, type_url)
    if of(then, CLUSTER) == of(now, CLUSTER):
        assert contents(start, ENDPOINTS) == contents(latest, ENDPOINTS)


@BOTH
def test_a_type_is_in_force_though_a_later_one_was_refused(variant: str) -> None:
    churn = Churn(variant)
    churn.run("clusters a=1; listeners l=1>r; routes r=1>a", 1_000)
    churn.run(f"clusters a=2; listeners l={BAD}>r; routes r=1>a", 1_000)
    churn.run(f"clusters a={BAD}; listeners l=1>r; routes r=1>a", 1_000)
    start = churn.store.initial("web")
    assert contents(start, CLUSTER) == of("clusters a=2", CLUSTER)
    assert contents(start, LISTENER) == of("listeners l=1>r", LISTENER)


@BOTH
def test_a_client_that_starts_from_what_is_in_force_takes_all_of_it(variant: str) -> None:
    churn = Churn(variant)
    churn.run("clusters a=1; listeners l=1>r; routes r=1>a", 1_000)
    churn.run(f"clusters a={BAD}; listeners l=1>r; routes r=1>a", 1_000)
    start = churn.store.initial("web")
    assert start is not None
    late = Envoy(variant, start, churn.store.earlier_streams("web"), refuses=True)
    late.drain()
    assert late.stream.completed is start
    assert not late.stream.refuses
    # It is no news of what is in force that a client has what the server had taken for that.
    before = churn.store.last_acked("web")
    note(churn.store, late.stream)
    assert churn.store.last_acked("web") is before


FIRST = world("clusters a=1-; extensions e=1; listeners l=1>r; routes r=1>a")


def took(store: SnapshotCache, snapshot: Snapshot, type_url: str, *names: str) -> None:
    there = snapshot.of_type(type_url).resources
    store.type_acked("web", TypeAcked(snapshot, type_url, {name: there[name] for name in names} if names else there))


def test_what_is_gone_and_used_stays_in_force() -> None:
    store, (new,) = published("clusters b=1-; extensions e=1; listeners l=1>r; routes r=2>b")
    took(store, new, CLUSTER)
    taken = store.last_acked("web")
    assert contents(taken, CLUSTER) == of("clusters a=1- b=1-", CLUSTER)
    assert contents(taken, ROUTES) == of("routes r=1>a", ROUTES)
    took(store, new, ROUTES)
    taken = store.last_acked("web")
    assert contents(taken, CLUSTER) == of("clusters b=1-", CLUSTER)
    store.acked("web", new)
    assert store.last_acked("web") is new


def published(*texts: str) -> tuple[SnapshotCache, list[Snapshot]]:
    """A store whose first snapshot was taken as a whole, and those that were published after it."""
    store, found = SnapshotCache(), []
    store.watchers.append(lambda _, __, new: found.append(new))
    store.publish("web", FIRST)
    store.acked("web", FIRST)
    for text in texts:
        store.publish("web", world(text))
    return store, found[1:]


def test_an_older_acknowledgement_is_no_news() -> None:
    rest = "extensions e=1; listeners l=1>r; routes r=1>a"
    store, (second, third) = published(f"clusters a=2-; {rest}", f"clusters a=3-; {rest}")
    took(store, third, CLUSTER)
    took(store, second, CLUSTER)
    assert contents(store.last_acked("web"), CLUSTER) == of("clusters a=3-", CLUSTER)
    store.acked("web", second)
    assert contents(store.last_acked("web"), CLUSTER) == of("clusters a=3-", CLUSTER)
    store.acked("web", FIRST)
    assert contents(store.last_acked("web"), CLUSTER) == of("clusters a=3-", CLUSTER)


def test_a_whole_snapshot_that_is_acknowledged_late_is_no_news() -> None:
    rest = "extensions e=1; listeners l=1>r; routes r=1>a"
    store, (second, third) = published(f"clusters a=2-; {rest}", f"clusters a=3-; {rest}")
    store.acked("web", third)
    store.acked("web", second)
    took(store, second, CLUSTER)
    assert store.last_acked("web") is third


def test_what_some_client_takes_late_is_refused_no_more() -> None:
    rest = "extensions e=1; listeners l=1>r; routes"
    store, (second, third) = published(f"clusters a=2-; {rest} r=1>a", f"clusters a=2-; {rest} r=2>a")
    versions = {name: item.version for name, item in second.of_type(CLUSTER).resources.items()}
    store.nacked("web", Nacked(CLUSTER, "", "bad", second, versions))
    assert store.initial("web") is not third
    store.acked("web", second)
    assert store.initial("web") is third


def test_endpoints_that_a_client_never_had_are_not_in_force_before_it_answers() -> None:
    stream = DeltaStream(world("clusters a=1"), SharedResults())
    stream.receive(DeltaRequest(CLUSTER))
    stream.receive(DeltaRequest(CLUSTER, "1"))
    stream.end_wait()
    stream.receive(DeltaRequest(ENDPOINTS, subscribe=("a",)))
    assert not any(isinstance(each, SnapshotAckedExceptUrgent | SnapshotAcked) for each in stream.take_events())
    stream.receive(DeltaRequest(ENDPOINTS, "1"))
    assert any(isinstance(each, SnapshotAcked) for each in stream.take_events())


def test_of_names_that_a_client_asks_for_only_these_are_acknowledged() -> None:
    store, (new,) = published("clusters a=1-; extensions e=2 f=2; listeners l=1>r; routes r=1>a")
    took(store, new, EXTENSION, "f")
    assert contents(store.last_acked("web"), EXTENSION) == of("extensions e=1 f=2", EXTENSION)
    took(store, new, EXTENSION)
    assert contents(store.last_acked("web"), EXTENSION) == of("extensions e=2 f=2", EXTENSION)


def test_a_name_that_is_gone_is_not_in_force_for_ever() -> None:
    """Where no client asks for all of a type, the names of all times would be kept."""
    rest = "clusters a=1-; listeners l=1>r; routes r=1>a"
    store, (second, third) = published(f"{rest}; extensions e=1 f=2", f"{rest}; extensions e=3 g=3")
    took(store, second, EXTENSION, "f")
    took(store, third, EXTENSION, "e")
    assert contents(store.last_acked("web"), EXTENSION) == of("extensions e=3", EXTENSION)


def test_of_one_name_an_older_acknowledgement_is_no_news() -> None:
    rest = "clusters a=1-; listeners l=1>r; routes r=1>a"
    store, (second, third) = published(f"{rest}; extensions e=2 f=2", f"{rest}; extensions e=3 f=3")
    took(store, third, EXTENSION, "f")
    took(store, second, EXTENSION, "f")
    assert contents(store.last_acked("web"), EXTENSION) == of("extensions e=1 f=3", EXTENSION)
    # A snapshot that was acknowledged as a whole speaks for what is older.
    store.acked("web", second)
    assert contents(store.last_acked("web"), EXTENSION) == of("extensions e=2 f=3", EXTENSION)


def test_new_clusters_are_in_force_with_their_endpoints() -> None:
    text = "clusters a=2- b=1; endpoints b=7; extensions e=1; listeners l=2>r; routes r=1>a"
    store, (second, _) = published(text, text.replace("a=2-", "a=3-"))
    took(store, second, CLUSTER)
    taken = store.last_acked("web")
    assert contents(taken, CLUSTER) == of("clusters a=2- b=1", CLUSTER)
    assert contents(taken, ENDPOINTS) == of("endpoints b=7", ENDPOINTS)
    assert contents(taken, LISTENER) == contents(FIRST, LISTENER)


def test_what_refers_to_something_that_is_not_in_force_is_as_it_was_and_the_rest_is_new() -> None:
    store, (new,) = published("clusters a=2-; extensions e=1; listeners l=2>s,t m=2>r; routes r=1>a s=1>a t=1>a")
    took(store, new, CLUSTER)
    took(store, new, LISTENER)
    taken = store.last_acked("web")
    assert contents(taken, CLUSTER) == of("clusters a=2-", CLUSTER)
    assert contents(taken, LISTENER) == of("listeners l=1>r m=2>r", LISTENER)


def test_what_does_not_fit_together_is_not_in_force() -> None:
    """Routes are taken after their clusters. Whatever a client says, what is in force could be published."""
    store, (new,) = published("clusters b=1-; extensions e=1; listeners l=1>r; routes r=2>b")
    took(store, new, ROUTES)
    taken = store.last_acked("web")
    assert taken is not None
    assert taken.version == FIRST.version


def test_what_some_client_has_taken_of_a_type_is_refused_no_more() -> None:
    store, (new,) = published("clusters a=2-; extensions e=1; listeners l=1>r; routes r=1>a")
    versions = {name: item.version for name, item in new.of_type(CLUSTER).resources.items()}
    store.nacked("web", Nacked(CLUSTER, "", "bad", new, versions))
    assert store.initial("web") is not new
    took(store, new, CLUSTER)
    assert store.initial("web") is new
    assert not store.nacked_resources("web")


class Speaking:
    """A stream that is asked for names."""

    def __init__(self, variant: str) -> None:
        self._delta = variant == "delta"

    def begin(self, snapshot: Snapshot) -> None:
        self.stream: Any = (DeltaStream if self._delta else SotwStream)(snapshot, SharedResults(), empty_is_all=False)

    def say(self, kind: str, *names: str, nonce: str = "") -> None:
        if self._delta:
            self.stream.receive(DeltaRequest(kind, nonce, subscribe=names if not nonce else ()))
        else:
            self.stream.receive(SotwRequest(kind, nonce, names=names))

    def answer(self) -> None:
        self.say(CLUSTER, "a", nonce="1")


@BOTH
def test_a_client_that_asks_by_name_says_no_more_than_that(variant: str) -> None:
    """A client of gRPC that has one of two clusters does not speak for the other."""
    client = Speaking(variant)
    client.begin(world("clusters a=1- b=1-"))
    client.say(CLUSTER, "a")
    client.answer()
    (event,) = [each for each in client.stream.take_events() if isinstance(each, TypeAcked)]
    assert list(event.resources) == ["a"]


@BOTH
async def test_a_new_client_of_a_busy_group_gets_what_was_acknowledged_last(variant: str) -> None:
    """Over gRPC: endpoints change every 20 ms, and each response is answered 50 ms after it came."""
    text = "clusters a=1"
    answered: list[str] = []
    """What the client has answered, and so acknowledged in this order."""

    async def publish(store: SnapshotCache) -> None:
        number = 10
        while True:
            store.publish("web", world(f"{text}; endpoints a={number}"))
            number += 1
            await asyncio.sleep(PUBLISHED_MS / 1000)

    async def answer(client: Client) -> None:
        while True:
            response = await client.read()
            await asyncio.sleep(ANSWERED_MS / 1000)
            names = ["a"] if response.type_url == ENDPOINTS and variant == "sotw" else []
            error = "bad" if "a=3" in said(response) and response.type_url == CLUSTER else None
            await client.send(response.type_url, *names, nonce=response.nonce, error=error)
            answered.append(said(response) if response.type_url == CLUSTER else ENDPOINTS)

    async def until_busy_with(clusters: str) -> None:
        """It has taken these clusters, and some endpoints after them."""
        async with asyncio.timeout(SECONDS):
            while clusters not in answered or answered[answered.index(clusters) :].count(ENDPOINTS) < ENOUGH:
                await asyncio.sleep(0.01)

    async with serving(world(f"{text}; endpoints a=9")) as (server, port), Client(port, variant) as client:
        await client.send(CLUSTER)
        await client.send(ENDPOINTS, "a")
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(publish(server.store)), tasks.create_task(answer(client))]
            await until_busy_with("a=1")
            text = "clusters a=2"
            await until_busy_with("a=2")
            text = "clusters a=3"
            async with asyncio.timeout(SECONDS):
                while not server.metrics.rejects[CLUSTER]:
                    await asyncio.sleep(0.01)
            async with Client(port, variant, id="web-2") as late:
                await late.send(CLUSTER)
                first = said(await late.read())
            for task in running:
                task.cancel()
        assert first == "a=2"
