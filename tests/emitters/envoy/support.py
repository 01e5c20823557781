"""Programs from text, placements from the real solver, Envoys that run what is emitted.

Nothing here is simulated: the front end, the solver and Envoy are the real ones. What plays the services is
`tests.testbed`, or a raw socket where every byte counts.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import dsl
from admc.testbed.client import Reply, Request, Target, send
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys, envoy_binary
from dsl.program import Program
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from emitters.envoy.messages.typed import to_yaml
from solver.place import place
from solver.placement import PlacementError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from solver.placement import Placement

ENVOY = envoy_binary()
PLAIN = Request()
PATIENCE = 60.0
_BLOCKS = itertools.count()
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_RUN = os.getppid() if _WORKERS > 1 else os.getpid()
"""The workers of one run have one parent, and take blocks in turn."""
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


def private(addresses: Addresses) -> Addresses:
    """The same plan in a block of its own, so that tests that run side by side use different addresses."""
    block = 100 + (_RUN * 8 + next(_BLOCKS) * _WORKERS + _WORKER) % 150
    thirds = {"1": 0, "2": 64, "3": 128, "64": 192}

    def moved(address: str) -> str:
        _, kind, _, last = address.split(".")
        return f"127.{block}.{thirds[kind]}.{last}"

    return Addresses(
        services={
            name: ServiceAddresses(tuple(map(moved, located.addresses)), tuple(map(moved, located.pods)))
            for name, located in addresses.services.items()
        },
        externals={name: tuple(map(moved, found)) for name, found in addresses.externals.items()},
        egress={pair: moved(address) for pair, address in addresses.egress.items()},
    )


def load(text: str, files: Mapping[str, bytes] | None = None) -> tuple[Program, Placement]:
    """A program and its placement; `app` is added."""
    program = dsl.load_text(f"app test\n{text}", "test.adm", (files or {}).__getitem__)
    try:
        return program, place(program)
    except PlacementError as error:
        raise AssertionError([part.message for part in error.parts]) from error


def bootstraps(
    program: Program, placement: Placement, mode: Mode = Mode.EXPLICIT, addresses: Addresses | None = None
) -> dict[str, bytes]:
    """The static bootstrap of each ADM."""
    where = private(loopback(program)) if addresses is None else addresses
    return {resources.service: to_yaml(static_json(resources)) for resources in emit(program, placement, where, mode)}


def written(program: Program, placement: Placement, addresses: Addresses, folder: Path) -> dict[str, Path]:
    """The static bootstrap of each ADM, in a file."""
    paths = {}
    for service, content in bootstraps(program, placement, addresses=addresses).items():
        paths[service] = folder / f"{service}.yaml"
        paths[service].write_bytes(content)
    return paths


def validate(path: Path) -> str:
    """What the real Envoy has against a bootstrap; empty where it has nothing."""
    assert ENVOY is not None
    done = subprocess.run(
        [ENVOY, "--mode", "validate", "-c", str(path), "--concurrency", "1", "-l", "error", "--use-dynamic-base-id"],
        capture_output=True,
        timeout=60,
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).decode(errors="replace")[-1500:]


@dataclass
class Running:
    """A program that runs: its services, its ADMs, and a way to call."""

    program: Program
    placement: Placement
    addresses: Addresses
    echo: EchoServices
    envoys: Envoys
    folder: Path
    targets: dict[tuple[str, str, int], Target] = field(default_factory=dict)

    def target(self, source: str, destination: str, number: int | None = None) -> Target:
        """The address that a source dials, and the one that it sends from; an intruder declares no call."""
        for dial in dials(self.program, self.placement, self.addresses):
            if (dial.source, dial.destination) == (source, destination) and number in (None, dial.number):
                return Target(dial.sender, dial.address, dial.port, f"{destination}:{dial.number}")
        port = self.program.services[destination].ports[0].number if number is None else number
        sender = self.addresses.pod_addresses(source) or self.addresses.service_addresses(source) or ("127.0.0.77",)
        return Target(sender[0], self.addresses.service_addresses(destination)[0], port, f"{destination}:{port}")

    def call(self, source: str, destination: str, request: Request = PLAIN, number: int | None = None) -> Reply:
        target = self.target(source, destination, number)
        ports = {port.number: port.protocol for port in self.program.services[destination].ports}
        return send(ports[target.port].value, target, request)


@contextlib.contextmanager
def running(
    text: str, folder: Path, files: Mapping[str, bytes] | None = None, *, without: Collection[str] = ()
) -> Iterator[Running]:
    """Start a program's services and ADMs. No process stands for the services in `without`."""
    assert ENVOY is not None
    program, placement = load(text, files)
    addresses = private(loopback(program))
    protocols = {
        (name, port.number): port.protocol.value
        for party in (program.services, program.externals)
        for name, item in party.items()
        for port in item.ports
    }
    where = [
        Endpoint(bind.service, bind.number, protocols[bind.service, bind.number], bind.address, bind.port)
        for bind in binds(program, placement, addresses)
        if bind.service not in without
    ]
    paths = written(program, placement, addresses, folder)
    with EchoServices(where) as echo, Envoys(folder, ENVOY) as envoys:
        envoys.start(paths)
        yield Running(program, placement, addresses, echo, envoys, folder)


class RawServer:
    """Answers every request on a port with the same bytes and keeps what it got, byte for byte."""

    def __init__(self, address: str, port: int, answer: bytes) -> None:
        self.answer = answer
        self.received: list[bytes] = []
        self._socket = socket.create_server((address, port))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._connections: list[socket.socket] = []

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._connections:
            connection.close()
        self._thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data = b""
        with contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in data:
                    part = connection.recv(65536)
                    if not part:
                        return
                    data += part
                length = _LENGTH.search(data)
                whole = data.index(b"\r\n\r\n") + 4 + (int(length[1]) if length else 0)
                while len(data) < whole:
                    part = connection.recv(65536)
                    if not part:
                        return
                    data += part
                self.received.append(data)
                data = b""
                connection.sendall(self.answer)


def soon(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until `what()` holds."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def exchange(target: Target, raw: bytes, seconds: float = 0.1, ends: bytes = b"") -> bytes:
    """Send bytes and take all that comes back: an answer of HTTP whole (one that ends as it should, where that is
    said), however late a busy machine is with any byte of it, and what comes in `seconds` after it."""
    with socket.create_connection((target.address, target.port), PATIENCE, (target.source, 0)) as connection:
        connection.sendall(raw)
        answer = b""
        with contextlib.suppress(OSError):
            while part := connection.recv(65536):
                answer += part
                connection.settimeout(seconds if _whole(answer) and answer.endswith(ends) else PATIENCE)
        return answer


def _whole(answer: bytes) -> bool:
    """Whether nothing more need come. What is no HTTP need not say where it ends."""
    if not answer.startswith(b"HTTP/"[: len(answer)]):
        return True
    head, there, body = answer.partition(b"\r\n\r\n")
    if not there:
        return False
    status = head.split()[1]
    if status.startswith(b"1") and status != b"101":
        return _whole(body) and bool(body)
    if (length := _LENGTH.search(head)) is not None:
        return len(body) >= int(length[1])
    if _CHUNKED.search(head):
        return body.endswith(b"0\r\n\r\n")
    return status in (b"101", b"204", b"304")  # else it ends with its connection


@contextlib.contextmanager
def serving(address: str, port: int, handler: Callable[[socket.socket], None]) -> Iterator[None]:
    """A server whose every connection is handled by a thread of its own, and then closed."""

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            handler(connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    with socket.create_server((address, port), backlog=1024) as listener:
        threading.Thread(target=accept, daemon=True).start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def requests_of(connection: socket.socket) -> Iterator[bytes]:
    """The heads of the requests without bodies on a connection."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            part = connection.recv(65536)
            if not part:
                return
            data += part
        head, _, data = data.partition(b"\r\n\r\n")
        yield head
