"""Streams of waiting pods at a real gRPC server: how many, how long, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

import dsl
from admc.kubernetes.cluster import waiting_pods
from admc.kubernetes.cluster.start_gate import WaitingPod
from admc.kubernetes.cluster.waiting_pods import WaitingPods
from admc.pod.wait import METHOD
from admc.serve.compiling.source import Source, State
from admc.serve.environment import BegunStep
from admc.serve.rollout.model import Placed
from emitters.addresses import Addresses, ServiceAddresses
from emitters.envoy import Mode
from solver.place import place
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.client import Caller, DeniedError
from xds_server.transport.server import XdsServer

PROGRAM = dsl.load_text("""app shop
service web, cart { http 80 }
call web -> cart
@ingress
policy known = allow(callers: [web]) on * -> cart
""")
PLACED = Placed(PROGRAM, place(PROGRAM))


@dataclass
class Bed:
    """What a server shows, and the records of pods; a token is the uid of its pod."""

    server: XdsServer
    pods: dict[str, WaitingPod] = field(default_factory=dict)
    listed: tuple[str, ...] = ()
    newest: tuple[str, ...] | None = None
    """What was taken and is not published yet; None: nothing."""
    placed: tuple[Placed, ...] = (PLACED,)
    ready: bool = True
    leads: bool = True
    problems: Any = None
    rollout_text: str = ""
    rollout_steps: tuple[BegunStep, ...] = ()
    channel: Any = None
    waiting: Any = None

    @property
    def state(self) -> State:
        addresses = Addresses({"web": ServiceAddresses((), self.listed)})
        return State(_SOURCE, PROGRAM, PLACED.placement, addresses, "")

    def pod_of(self, caller: Caller) -> WaitingPod:
        uid = dict(caller.metadata)["authorization"]
        if uid not in self.pods:
            raise DeniedError("gone", "its pod is gone")
        return self.pods[str(uid)]

    def adms(self, service: str) -> int:
        return 0

    def taken(self, service: str) -> tuple[str, ...]:
        return self.listed if self.newest is None else self.newest

    def ask(self, uid: str) -> Any:
        return self.channel.unary_stream(METHOD)(b"", metadata=(("authorization", uid),))


_SOURCE = Source(Path("policies.adm"), Mode.REDIRECT)


@pytest.fixture
async def bed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bed]:
    monkeypatch.setattr(waiting_pods, "LOOK_SECONDS", 0.01)
    server = XdsServer(SnapshotCache(), lambda _: None)
    found = Bed(server)
    found.waiting = WaitingPods(found, found, lambda: found.leads)
    port = await server.start("127.0.0.1:0", None, [found.waiting.add])
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        found.channel = channel
        yield found
    await server.stop(0.0)


def pod(uid: str, service: str = "web", *addresses: str) -> dict[str, WaitingPod]:
    return {uid: WaitingPod(uid, service, addresses)}


async def first(stream: Any) -> str:
    line: bytes = await asyncio.wait_for(stream.read(), 30)
    assert line is not grpc.aio.EOF, await stream.details()
    return line.decode()


async def code(stream: Any) -> grpc.StatusCode:
    return await asyncio.wait_for(stream.code(), 30)


async def test_lines_follow_what_a_pod_waits_for_and_nothing_else(bed: Bed) -> None:
    bed.pods = pod("a")
    bed.ready = False
    stream = bed.ask("a")
    assert await first(stream) == "waits: the server has no plan yet"
    bed.ready = True
    assert await first(stream) == "waits: the pod has no address yet"
    bed.pods = pod("a", "web", "10.0.0.1")
    assert await first(stream) == "waits: the address 10.0.0.1 is not published yet"
    bed.listed = ("10.0.0.1",)
    assert await first(stream) == "waits: `cart` has no configuration yet"
    bed.pods = pod("a", "cart", "10.0.0.1")
    assert await code(stream) is grpc.StatusCode.OK
    assert len(bed.waiting) == 0


async def test_an_address_that_is_about_to_be_taken_away_is_not_known(bed: Bed) -> None:
    """An earlier pod of the service had it, and the addresses that are published next were made after that was gone."""
    bed.pods, bed.listed, bed.newest = pod("a", "web", "10.0.0.1"), ("10.0.0.1",), ()
    stream = bed.ask("a")
    assert await first(stream) == "waits: the address 10.0.0.1 is not published yet"
    bed.newest = None
    assert await first(stream) == "waits: `cart` has no configuration yet"


async def test_the_pod_of_a_stream_goes(bed: Bed) -> None:
    bed.pods = pod("a")
    stream = bed.ask("a")
    await first(stream)
    bed.pods = {}
    assert await code(stream) is grpc.StatusCode.PERMISSION_DENIED
    assert await code(bed.ask("a")) is grpc.StatusCode.PERMISSION_DENIED
    assert bed.server.metrics.denials["gone"] == 1


async def test_a_pod_has_one_stream_the_latest(bed: Bed) -> None:
    bed.pods = {**pod("a"), **pod("b")}
    earlier, other = bed.ask("a"), bed.ask("b")
    await first(earlier)
    await first(other)
    later = bed.ask("a")
    assert await code(earlier) is grpc.StatusCode.ABORTED
    await first(later)
    assert len(bed.waiting) == 2
    bed.pods = {**pod("a", "cart"), **pod("b", "cart")}
    assert (await code(later), await code(other)) == (grpc.StatusCode.OK, grpc.StatusCode.OK)


async def test_streams_are_bounded_and_a_client_that_leaves_is_forgotten(
    bed: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_pods, "STREAMS", 3)
    bed.pods = {uid: each for uid in "abcd" for uid, each in pod(uid).items()}
    streams = [bed.ask(uid) for uid in "abc"]
    for stream in streams:
        await first(stream)
    assert await code(bed.ask("d")) is grpc.StatusCode.RESOURCE_EXHAUSTED
    streams[0].cancel()
    async with asyncio.timeout(30):
        while len(bed.waiting) > 2:
            await asyncio.sleep(0.01)
    await first(bed.ask("d"))


async def test_a_server_that_does_not_lead_answers_nothing(bed: Bed) -> None:
    bed.pods = pod("a")
    stream = bed.ask("a")
    await first(stream)
    bed.pods = pod("a", "cart")  # it could go on
    bed.leads = False
    assert await code(bed.ask("a")) is grpc.StatusCode.UNAVAILABLE
    stream.cancel()


async def test_a_server_that_stops_leading_ends_its_streams(bed: Bed) -> None:
    bed.pods = pod("a")
    stream = bed.ask("a")
    await first(stream)
    bed.leads = False
    assert await code(stream) is grpc.StatusCode.UNAVAILABLE


async def test_a_second_plan_adds_what_it_needs(bed: Bed) -> None:
    bed.pods = pod("a", "web", "10.0.0.1")
    none = dsl.load_text("app shop\nservice web, cart { http 80 }\n")
    bed.placed = (Placed(none, place(none)),)
    assert await code(bed.ask("a")) is grpc.StatusCode.OK
    # In a rollout proxies may have either.
    bed.placed = (PLACED, *bed.placed)
    assert await first(bed.ask("a")) == "waits: the address 10.0.0.1 is not published yet"
