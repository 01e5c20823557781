"""An application on loopback whose Envoys ask an xDS server for everything, and traffic that never stops.

The server runs on an event loop in a thread of its own. The connections that callers have are kept for as long as the
proxy lets them, as those of real applications are.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from admc.serve.groups import snapshot
from admc.transition.driver import MARGIN_SECONDS
from admc.transition.resources import keeping, resources
from emitters.addresses import Addresses
from emitters.dial import binds, sender
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from tests.testbed.echo import EchoServices, Endpoint
from tests.testbed.envoys import Envoys
from xds_server.connection import Admission
from xds_server.server import XdsServer
from xds_server.store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from admc.transition.model import Placed, Step
    from emitters.envoy import AdmResources
    from xds_server.connection import Caller
    from xds_server.snapshot import Snapshot

Dial = Callable[[], socket.socket]
"""Opens a connection of a caller."""
DRAIN_SECONDS = 3
"""Envoy looks at whole seconds: with 1, connections are cut at the end without having been told to close."""
WAIT_SECONDS = 30.0
GOAWAY = 7
"""The type of the frame."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Server:
    """An xDS server on a loop of its own."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.store = SnapshotStore()
        self.port = 0
        self._server = self.call(self._start)

    def call(self, what: Callable[[], Any]) -> Any:
        """Something on the server's loop."""

        async def run() -> Any:
            found = what()
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(WAIT_SECONDS)

    async def _start(self) -> XdsServer:
        def identify(caller: Caller) -> Admission:
            return Admission(caller.node.cluster)

        server = XdsServer(self.store, identify)
        self.port = await server.start(self._address)
        return server

    def publish(self, made: Mapping[str, Snapshot], proxies: int | None = None) -> None:
        """Publish, and wait until every proxy (of so many at least) has acknowledged all of it."""
        self.call(lambda: self.store.publish_all(made))
        versions = {service: each.version for service, each in made.items()}
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            clients = self.call(self._server.clients)
            behind = [c for c in clients if c.acknowledged != versions.get(c.group, c.acknowledged)]
            if not behind and {c.group for c in clients} >= set(versions) and len(clients) >= (proxies or 0):
                return
            refused = [f"{c.group}: {t.error}" for c in clients for t in c.types if t.error]
            assert not refused, refused
            assert time.monotonic() < deadline, [(c.group, c.types) for c in behind]
            time.sleep(0.01)

    def close(self) -> None:
        self.call(lambda: self._server.stop(0))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Bed:
    """Use as a context."""

    def __init__(self, placed: Placed, folder: Path, envoy: str, xds: int | None = None) -> None:
        """`xds` is the port of a server that runs already; else there is one here."""
        self._xds = xds
        self.placed = placed
        self.addresses = Addresses.loopback(placed.program)
        self._folder = folder
        self._stack = ExitStack()
        program = placed.program
        services = program.services.values()
        protocols = {(each.name, port.number): port.protocol for each in services for port in each.ports}
        self.services = EchoServices(
            tuple(
                Endpoint(bind.service, bind.number, protocols[bind.service, bind.number].value, bind.address, bind.port)
                for bind in binds(program, placed.placement, self.addresses)
            )
        )
        self.envoys = Envoys(folder / "logs", envoy, ("--drain-time-s", str(DRAIN_SECONDS)))
        self.server = Server()
        self._stack.callback(self.server.close)
        self.told = emit(program, placed.placement, self.addresses, Mode.EXPLICIT)

    def __enter__(self) -> Bed:
        with self._stack as stack:
            stack.enter_context(self.services)
            stack.enter_context(self.envoys)
            made = {each.service: snapshot(each) for each in self.told}
            self.server.call(lambda: self.server.store.publish_all(made))
            self.envoys.start({each.service: self._bootstrap(each) for each in self.told})
            if self._xds is None:
                self.server.publish(made)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _bootstrap(self, told: AdmResources) -> Path:
        path = self._folder / f"{told.service}.json"
        bootstrap = xds_bootstrap(told, ("127.0.0.1", self._xds or self.server.port), admin=("127.0.0.1", free_port()))
        path.write_text(json_format.MessageToJson(bootstrap, preserving_proto_field_name=True))
        return path

    def publish(self, step: Step) -> None:
        """Take a step, and wait until every proxy has acknowledged it and is rid of older connections."""
        made = {
            service: keeping(step, snapshot(told), self.server.store.current(service))
            for service, told in resources(step, self.addresses, Mode.EXPLICIT).items()
        }
        self.server.publish(made)
        if step.drain:
            time.sleep(DRAIN_SECONDS + MARGIN_SECONDS)

    def egress(self, source: str, destination: str) -> Dial:
        """How a caller connects through its own ADM."""
        port = self.placed.program.services[destination].ports[0].number
        address, own = self.addresses.egress[source, destination], sender(self.addresses, source)
        return lambda: socket.create_connection((address, port), 10, (own, 0))


class Keeper:
    """A caller that keeps its connection for as long as the other end does, and asks again and again."""

    _ids = itertools.count()

    def __init__(self, dial: Dial, headers: Mapping[str, str], pause: float = 0.01) -> None:
        self._dial = dial
        self._headers = dict(headers)
        self._pause = pause
        self._stop = threading.Event()
        self.answers: list[tuple[str, int | None, str]] = []
        """Name of the request, status (None where there was no answer), and why there was none."""
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_SECONDS)

    def _run(self) -> None:
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            name = f"k{next(self._ids)}"
            fresh = connection is None
            try:
                if connection is None:
                    connection = self._connect()
                connection.request("GET", "/", headers={**self._headers, "x-echo-id": name})
                response = connection.getresponse()
                response.read()
                self.answers.append((name, response.status, ""))
                if response.will_close:
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                # A kept connection may be closed between two requests: then nothing has arrived, and one asks again.
                idle = isinstance(error, http.client.RemoteDisconnected | ConnectionResetError | BrokenPipeError)
                if fresh or not idle:
                    self.answers.append((name, None, repr(error)))
                if connection is not None:
                    connection.close()
                connection = None
            self._stop.wait(self._pause)
        if connection is not None:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("cart", timeout=10)
        connection.sock = self._dial()
        self.connections += 1
        return connection


class Http2Keeper(Keeper):
    """The same over HTTP/2: one connection, one request after the other, until the other end says goodbye."""

    def _run(self) -> None:
        connection: tuple[socket.socket, H2Connection] | None = None
        while not self._stop.is_set():
            name = f"k{next(self._ids)}"
            fresh = connection is None
            if connection is None:
                connection = self._dial(), H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
                connection[1].initiate_connection()
                self.connections += 1
            try:
                status, goodbye = self._ask(*connection, name)
                self.answers.append((name, status, ""))
            except (OSError, ProtocolError) as error:
                goodbye = True
                if fresh or not isinstance(error, ConnectionError):
                    self.answers.append((name, None, repr(error)))
            if goodbye:
                connection[0].close()
                connection = None
            self._stop.wait(self._pause)
        if connection is not None:
            connection[0].close()

    def _ask(self, wire: socket.socket, h2: H2Connection, name: str) -> tuple[int, bool]:
        """The status, and whether the connection takes no more requests."""
        stream = h2.get_next_available_stream_id()
        pseudo = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "cart")]
        h2.send_headers(stream, [*pseudo, *self._headers.items(), ("x-echo-id", name)], end_stream=True)
        wire.sendall(h2.data_to_send())
        status, goodbye, ended, held = 0, False, False, b""
        while not ended:
            data = wire.recv(65536)
            if not data:
                raise ConnectionResetError("closed")
            frames, held = _frames(held + data)
            # The library takes nothing after a GOAWAY, and what was asked before it is still answered.
            goodbye = goodbye or any(frame[3] == GOAWAY for frame in frames)
            for event in h2.receive_data(b"".join(frame for frame in frames if frame[3] != GOAWAY)):
                if isinstance(event, ResponseReceived):
                    status = int(dict(event.headers)[":status"])
                elif isinstance(event, DataReceived):
                    h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                ended = ended or isinstance(event, StreamEnded | StreamReset)
            wire.sendall(h2.data_to_send())
        return status, goodbye


def _frames(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole frames at the beginning of some bytes, and the rest."""
    found = []
    while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
        found.append(data[:size])
        data = data[size:]
    return found, data
