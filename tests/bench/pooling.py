"""`python -m tests.bench.pooling`: what it costs to give every client's connection a connection of its own.

    arm (how connections to the service are kept) x load (kept or new connections of the client) -> medians

Figures for docs/adr/0013-connections-to-services.md. One client, two Envoys in a row, one service, all on loopback. An
arm is the emitted configuration with other options of its clusters; all arms take turns, several times.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

import dsl
from admc.testbed.client import Target
from admc.testbed.envoys import Envoys, envoy_binary
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from solver.place import place
from tests.emitters.envoy.support import private

TEXT: Final = """\
app pooling
service front { http 8000 }
service back { http 8001 -> 8002 }
call front -> back
@egress
policy leaving = deny() on front -> back when header("x-bite") == "1"
@ingress
policy arriving = deny() on front -> back when header("x-bite") == "1"
"""
ASK: Final = b"GET / HTTP/1.1\r\nHost: back\r\n\r\n"
ANSWER: Final = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok"
CLIENTS: Final = 16
ROUNDS: Final = 5
ARMS: Final[dict[str, dict[str, Any]]] = {
    "one pool, no idle timeout": {"per_client": False, "common": {"idle_timeout": "0s"}},
    "one pool, 1 s idle": {"per_client": False, "common": {"idle_timeout": "1s"}},
    "pool per client connection, 1 s idle": {"per_client": True, "common": {"idle_timeout": "1s"}},
    "one request per connection": {
        "per_client": False,
        "common": {"idle_timeout": "1s", "max_requests_per_connection": 1},
    },
}
LOADS: Final = {"kept": 4000, "new": 2000}
"""How many requests are sent in one turn, by what the client does with its connections."""


class Turn(NamedTuple):
    """What one turn showed. CPU is of both Envoys together."""

    cpu_us: float
    latency_us: float
    opened: float
    """Connections to the service for each request."""
    left: float
    """Connections to the service that were open right after the last answer."""


def _patched(config: Any, arm: dict[str, Any]) -> bytes:
    for cluster in config["static_resources"]["clusters"]:
        if options := cluster.get("typed_extension_protocol_options"):
            cluster["connection_pool_per_downstream_connection"] = arm["per_client"]
            for each in options.values():
                each["common_http_protocol_options"] |= arm["common"]
    return yaml.safe_dump(config).encode()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Service:
    """Answers whatever comes, and counts its connections."""

    def __init__(self) -> None:
        self.opened = 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        self.open += 1
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the client, or the measurement, has ended
        finally:
            self.open -= 1
            writer.close()


async def _ask(target: Target, count: int, load: str, took: list[float]) -> None:
    reader, writer = None, None
    for _ in range(count):
        began = time.perf_counter()
        if reader is None or writer is None:
            reader, writer = await asyncio.open_connection(target.address, target.port)
        writer.write(ASK)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head
        await reader.readexactly(2)
        took.append(time.perf_counter() - began)
        if load == "new":
            writer.close()
            reader, writer = None, None
    if writer is not None:
        writer.close()


async def _turn(target: Target, service: Service, pids: list[int], load: str) -> Turn:
    count = LOADS[load]
    opened, before = service.opened, sum(map(_cpu_seconds, pids))
    took: list[float] = []
    await asyncio.gather(*(_ask(target, count // CLIENTS, load, took) for _ in range(CLIENTS)))
    cpu = sum(map(_cpu_seconds, pids)) - before
    return Turn(
        cpu / len(took) * 1e6,
        statistics.median(took) * 1e6,
        (service.opened - opened) / len(took),
        float(service.open),
    )


async def _measured(envoy: str, name: str, load: str) -> Turn:
    program = dsl.load_text(TEXT)
    placement, addresses = place(program), private(loopback(program))
    (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
    (dial,) = dials(program, placement, addresses)
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for each in emit(program, placement, addresses, Mode.EXPLICIT):
            paths[each.service] = Path(folder) / f"{each.service}.yaml"
            paths[each.service].write_bytes(_patched(static_json(each), ARMS[name]))
        service = Service()
        async with await asyncio.start_server(service.serve, bind.address, bind.port, backlog=4096):
            with Envoys(Path(folder), envoy) as envoys:
                await asyncio.to_thread(envoys.launch, paths)
                await asyncio.to_thread(envoys.await_ready, paths)
                target = Target(dial.sender, dial.address, dial.port, "")
                warm: list[float] = []
                await _ask(target, 200, "kept", warm)
                pids = [each.process.pid for each in envoys.running.values()]
                return await _turn(target, service, pids, load)


def main() -> int:
    """The exit code."""
    envoy = envoy_binary()
    if envoy is None:
        print("there is no Envoy for this platform")
        return 1
    found: dict[tuple[str, str], list[Turn]] = defaultdict(list)
    for _ in range(ROUNDS):
        for load in LOADS:
            for name in ARMS:
                found[load, name].append(asyncio.run(_measured(envoy, name, load)))
    print("| connections of the client | connections to the service | CPU us | latency us | opened a request | left |")
    print("|---|---|---|---|---|---|")
    for (load, name), turns in found.items():
        cpu, latency, opened, left = (statistics.median(values) for values in zip(*turns, strict=True))
        print(f"| {load} | {name} | {cpu:.0f} | {latency:.0f} | {opened:.3f} | {left:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
