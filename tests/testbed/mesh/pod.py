"""The process of one pod: echo services on all its ports, and a record of what reached them, with times.

It is forked off by the agent, which has imported everything once, and answers one line of JSON for each line it reads.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote

from admc.testbed.echo import EchoServices, Endpoint, Record, Seen, TakenError


@dataclass
class TimedRecord(Record):
    """Notes when each request reached the service, on the clock that all processes of a machine share."""

    arrived: list[tuple[float, Seen]] = field(default_factory=list)
    _noting: threading.Lock = field(default_factory=threading.Lock)

    def add(self, seen: Seen) -> int:
        at = time.monotonic()
        with self._noting:
            self.arrived.append((at, seen))
        return super().add(seen)

    def take(self, *, forget: bool) -> list[tuple[float, Seen]]:
        with self._noting:
            taken = list(self.arrived)
            if forget:
                self.arrived.clear()
            return taken


def plain(peer: str) -> str:
    """A peer's address as text: gRPC writes `%5Bfd00::1%5D`, a socket for both families `::ffff:10.1.0.2`."""
    return unquote(peer).strip("[]").removeprefix("::ffff:")


def endpoints(service: str, ports: list[dict[str, Any]], only: list[str] | None) -> list[Endpoint]:
    """Sockets of a pod: every address of its namespace, or `only` some where it shares that with others."""
    found = []
    for port in ports:
        number, target, protocol = int(port["number"]), int(port["target"]), str(port["protocol"])
        if only:
            addresses = [f"[{each}]" if protocol == "grpc" and ":" in each else each for each in only]
        else:  # a gRPC server on `::` takes both families, and no second one beside it
            addresses = ["[::]"] if protocol == "grpc" else ["0.0.0.0", "::"]
        found += [Endpoint(service, number, protocol, address, target) for address in addresses]
    return found


def serve(service: str, ports: list[dict[str, Any]], only: list[str] | None, control: socket.socket) -> None:
    """Answer until the control socket closes. The first line says `ready`, or why not."""
    record = TimedRecord()
    services = EchoServices(endpoints(service, ports, only))
    services.record = record
    with control.makefile("rwb") as channel:
        try:
            services.__enter__()
        except TakenError as error:
            _say(channel, {"error": str(error)})
            return
        _say(channel, {"ready": True})
        for line in channel:
            asked = json.loads(line)
            taken = record.take(forget=bool(asked.get("forget")))
            _say(channel, [[at, {**asdict(seen), "peer": plain(seen.peer)}] for at, seen in taken])


def _say(channel: Any, content: Any) -> None:
    channel.write(json.dumps(content).encode() + b"\n")
    channel.flush()
