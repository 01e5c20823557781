"""Nonsense at the wire, against a running server: it must neither fall, nor keep anything, nor fail a good client.

    python -m tests.xds_server.fuzz --minutes 30 [--seed N]

Streams of both variants send requests that are well formed and wrong, malformed, or huge, end in every way that there
is, or speak no gRPC at all, while snapshots change. In between a client that does everything right is served, and
when all others have gone the server must hold what it held before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import random
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from envoy.service.discovery.v3 import discovery_pb2

from tests.xds_server.client import Client
from tests.xds_server.running import GROUPS, NAMES, Running, Stats
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, ORDER, ROUTES, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICE: Final = "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
METHODS: Final = {"sotw": "StreamAggregatedResources", "delta": "DeltaAggregatedResources"}
TYPES: Final = (*ORDER, "type.googleapis.com/no.such.Type", "", "x", "\N{SNOWMAN}" * 300)
ODD_NAMES: Final = (*NAMES, "*", "", "no-such", "x" * 1024, "x" * 1025, "\N{SNOWMAN}" * 400, "a\nb\0c", "../../etc")
AT_ONCE: Final = 24
ROUND: Final = 96
"""Streams between two looks at the server."""
MAY_GROW: Final = 24 << 20
"""Bytes that the process may be larger afterwards: what the allocator keeps, and caches that have a bound."""


class Outcome(NamedTuple):
    before: Stats
    after: Stats
    streams: int
    failures: list[str]


def _drawing(seed: float) -> random.Random:
    return random.Random(seed)  # noqa: S311 - to be repeated, not to be secret


def request(chosen: random.Random, variant: str, nonces: list[str], *, first: bool) -> bytes:
    """A request that a client could send, though none should."""
    message: Any = discovery_pb2.DiscoveryRequest() if variant == "sotw" else discovery_pb2.DeltaDiscoveryRequest()
    message.type_url = chosen.choice((*TYPES, f"type.{chosen.random()}") if chosen.random() < 0.2 else ORDER)
    message.response_nonce = chosen.choice([*nonces[-3:], *nonces[:1], "", "0", "7", "-1", "x" * 5000])
    if chosen.random() < (0.95 if first else 0.1):
        message.node.cluster = chosen.choice((*GROUPS, *GROUPS, *GROUPS, "unknown", ""))
        message.node.id = chosen.choice(("a", "", "\N{SNOWMAN}" * 100))
        message.node.user_agent_name = chosen.choice(("envoy", "gRPC C-core", ""))
    if chosen.random() < 0.2:
        message.error_detail.message = chosen.choice(("no", "", "x" * 20_000, "%s {} \x1b[31m\n"))
    names = [chosen.choice(ODD_NAMES) for _ in range(chosen.choice((0, 0, 1, 3, 40)))]
    if variant == "sotw":
        message.resource_names.extend(names)
        message.version_info = chosen.choice(("", "1", "x" * 100))
    else:
        message.resource_names_subscribe.extend(names)
        message.resource_names_unsubscribe.extend(chosen.choices(ODD_NAMES, k=chosen.choice((0, 0, 2))))
        for name in chosen.choices(ODD_NAMES, k=chosen.choice((0, 0, 3))):
            message.initial_resource_versions[name] = chosen.choice(("1", "", "deadbeef"))
    return bytes(message.SerializeToString())


def broken(chosen: random.Random, good: bytes) -> bytes:
    """Bytes that are no request, or not the one that was meant."""
    kind = chosen.randrange(5)
    if kind == 0:
        return chosen.randbytes(chosen.randrange(200))
    if kind == 1:
        return good[: chosen.randrange(len(good) + 1)]
    if kind == 2 and good:
        at = chosen.randrange(len(good))
        return good[:at] + bytes((good[at] ^ 1 << chosen.randrange(8),)) + good[at + 1 :]
    if kind == 3:
        return good + b"\x0b" * chosen.randrange(1, 500)  # groups within groups
    return b"\x1a\xff\xff\xff\xff\x7f" + good  # a length beyond the end


async def one_stream(channel: Any, chosen: random.Random) -> None:
    """One stream, from its first request to one of its ends. What the server says to it does not matter."""
    if chosen.random() < 0.4:
        return await almost_good(channel, chosen)
    variant = chosen.choice(("sotw", "delta"))
    method = METHODS[variant] if chosen.random() < 0.98 else "NoSuchMethod"
    call = channel.stream_stream(SERVICE + method)()
    parse = (discovery_pb2.DiscoveryResponse if variant == "sotw" else discovery_pb2.DeltaDiscoveryResponse).FromString
    nonces: list[str] = []
    reads = chosen.random() < 0.8
    try:
        for number in range(chosen.choice((0, 1, 3, 10, 30))):
            good = request(chosen, variant, nonces, first=number == 0)
            if chosen.random() < 0.003:
                good += b"\x1a\x80\x80\xc0\x02" + bytes(5 << 20)  # a name of five megabytes
            await call.write(broken(chosen, good) if chosen.random() < 0.05 else good)
            if reads:
                with contextlib.suppress(TimeoutError):
                    got = await asyncio.wait_for(call.read(), 0.02)
                    if got is grpc.aio.EOF:
                        return None
                    nonces.append(parse(got).nonce)
        end = chosen.randrange(4)
        if end == 0:
            await call.done_writing()
            while reads and await asyncio.wait_for(call.read(), 5) is not grpc.aio.EOF:
                pass
        elif end == 1:
            await call.done_writing()
        elif end == 2:
            await asyncio.sleep(chosen.random() * 0.2)
    except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, asyncio.CancelledError, TimeoutError):
        pass  # the server ended the stream
    finally:
        call.cancel()


async def almost_good(channel: Any, chosen: random.Random) -> None:
    """A client that does as it should, but for one thing in five: so it gets far, and goes wrong there.

    Who says nonsense from the start never sees what comes after clusters and their endpoints were taken.
    """
    variant = chosen.choice(("sotw", "delta"))
    call = channel.stream_stream(SERVICE + METHODS[variant])()
    names: dict[str, list[str]] = {kind: [] for kind in ORDER}
    if chosen.random() < 0.8:
        names.update({ENDPOINTS: [*NAMES], ROUTES: ["routes-in", "routes-out"], SECRET: ["certificate"]})
        names[EXTENSION] = ["limit", "trial"]
    first = True

    async def say(kind: str, nonce: str = "") -> None:
        nonlocal first
        message: Any = discovery_pb2.DiscoveryRequest() if variant == "sotw" else discovery_pb2.DeltaDiscoveryRequest()
        message.type_url, message.response_nonce = kind, nonce
        if first:
            message.node.cluster, message.node.id = chosen.choice(GROUPS), "almost"
        if variant == "sotw":
            if chosen.random() < 0.1:
                names[kind] = chosen.sample(NAMES, 3) + chosen.choice(([], ["*"]))
            message.resource_names.extend(names[kind])
        elif not nonce:
            message.resource_names_subscribe.extend(names[kind])
            if first or chosen.random() < 0.3:
                message.initial_resource_versions.update(dict.fromkeys(chosen.sample(NAMES, 3), "old"))
        elif chosen.random() < 0.2:
            message.resource_names_subscribe.extend(chosen.choices((*NAMES, "*"), k=2))
            message.resource_names_unsubscribe.extend(chosen.choices((*NAMES, "*"), k=2))
        if nonce and chosen.random() < 0.1:
            message.error_detail.message = "no"
        first = False
        await call.write(message.SerializeToString())

    parse = (discovery_pb2.DiscoveryResponse if variant == "sotw" else discovery_pb2.DeltaDiscoveryResponse).FromString
    kinds = [*ORDER] if chosen.random() < 0.8 else chosen.sample(ORDER, 4)
    try:
        for kind in kinds:
            await say(kind)
        for _ in range(chosen.choice((5, 20, 60))):
            got = await asyncio.wait_for(call.read(), 0.3)
            if got is grpc.aio.EOF:
                return
            response = parse(got)
            if chosen.random() < 0.95:
                await say(response.type_url, response.nonce)
        if chosen.random() < 0.5:
            await call.done_writing()
            await asyncio.wait_for(call.read(), 0.1)
    except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, asyncio.CancelledError, TimeoutError):
        pass  # the server ended the stream, or has no more to say
    finally:
        call.cancel()


async def no_grpc(port: int, chosen: random.Random) -> None:
    """Bytes that are no HTTP/2, or break off in it."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5)
    data = chosen.choice((b"GET / HTTP/1.1\r\n\r\n", preface + chosen.randbytes(300), chosen.randbytes(300), preface))
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        with contextlib.suppress(OSError):
            await writer.drain()
            await asyncio.sleep(chosen.random() * 0.05)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def good_client(port: int, variant: str) -> str:
    """Empty if the server serves a correct client; otherwise the failure."""
    try:
        async with Client(port, variant, GROUPS[0], id="good") as client:
            await client.send(CLUSTER)
            response = await client.read(20)
            if not response.resources:
                return "a good client got nothing"
            await client.send(CLUSTER, nonce=response.nonce)
    except (grpc.aio.AioRpcError, TimeoutError, AttributeError) as error:
        return f"a good client was not served: {error!r}"
    return ""


async def fuzz(seconds: float, seed: int, report: Callable[[Stats, int], None] | None = None) -> Outcome:
    """Go on for so long after the first round."""
    chosen, streams, failures = _drawing(seed), 0, []
    async with Running() as server:
        await server.publish(0)
        before: Stats | None = None
        until = math.inf
        while before is None or time.monotonic() < until:
            await one_round(server.port, _drawing(chosen.random()), server)
            streams += ROUND
            failures += filter(None, [await good_client(server.port, variant) for variant in METHODS])
            if before is None:
                before = await server.at_rest()  # the first round fills caches and pools
                until = time.monotonic() + seconds
            elif report is not None:
                report(await server.stats(), streams)
        return Outcome(before, await server.at_rest(before), streams, failures)


async def one_round(port: int, chosen: random.Random, server: Running) -> None:
    """Many streams, some at a time, on a few connections."""
    room = asyncio.Semaphore(AT_ONCE)

    async def limited(channel: Any, own: random.Random) -> None:
        async with room:
            await (one_stream(channel, own) if own.random() < 0.97 else no_grpc(port, own))

    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) for _ in range(4)]
    async with asyncio.TaskGroup() as group:
        for number in range(ROUND):
            group.create_task(limited(channels[number % 4], _drawing(chosen.random())))
        for _ in range(6):
            await server.publish(chosen.randrange(1000))
            await asyncio.sleep(0.05)
    for channel in channels:
        await channel.close()


def complaints(outcome: Outcome) -> list[str]:
    """What the server must not do, and did."""
    before, after = outcome.before, outcome.after
    found = [*outcome.failures, *after.errors]
    if after.streams:
        found.append(f"{after.streams} streams are still open")
    if after.tasks > before.tasks:
        found.append(f"{after.tasks} tasks, and {before.tasks} before")
    if after.files > before.files:
        found.append(f"{after.files} open files, and {before.files} before")
    if after.rss > before.rss + MAY_GROW:
        found.append(f"{after.rss / 1e6:.0f} MB, and {before.rss / 1e6:.0f} before")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.xds_server.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options = parser.parse_args()
    print(f"seed {options.seed}\n{'seconds':>8} {'streams':>8} {'MB':>7} {'files':>6} {'tasks':>6}")
    started, last = time.monotonic(), 0.0

    def report(stats: Stats, streams: int) -> None:
        nonlocal last
        now = time.monotonic() - started
        if now - last >= 5:
            last = now
            print(f"{now:8.0f} {streams:8} {stats.rss / 1e6:7.1f} {stats.files:6} {stats.tasks:6}", flush=True)

    outcome = asyncio.run(fuzz(options.minutes * 60, options.seed, report))
    found = complaints(outcome)
    print(f"before: {outcome.before}\nafter:  {outcome.after}\n{outcome.streams} streams")
    print("\n".join(found) or "nothing was kept, nothing fell")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
