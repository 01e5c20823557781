"""An application on loopback whose Envoys receive all resources from an xDS server.

The server runs on an event loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from google.protobuf import json_format

from admc.serve.compiling.snapshots import snapshot
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, sender
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from tests.testbed.callers import SECONDS
from tests.testbed.draining import DRAIN_SECONDS, is_draining
from tests.testbed.ports import free_port
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.client import Admission
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from admc.serve.rollout.model import Placed
    from emitters.envoy import AdmResources
    from tests.testbed.callers import Dial
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Caller

WAIT_SECONDS = 90.0


class Server:
    """An xDS server on a loop of its own."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self._address = address
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.store = SnapshotCache()
        self.port = 0
        self._server = self.call(self._start)

    def call(self, what: Callable[[], Any]) -> Any:
        """Call a function on the loop of the server."""

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
        """Publish, and wait until all proxies, and at least so many, have acknowledged it."""
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
        """`xds` is the port of a server that runs already. Else the bed starts one."""
        self._xds = xds
        self.placed = placed
        self.addresses = loopback(placed.program)
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
        self.emitted = emit(program, placed.placement, self.addresses, Mode.EXPLICIT)

    def __enter__(self) -> Self:
        with self._stack as stack:
            stack.enter_context(self.services)
            stack.enter_context(self.envoys)
            made = {each.service: snapshot(each) for each in self.emitted}
            self.server.call(lambda: self.server.store.publish_all(made))
            self.envoys.start({each.service: self._bootstrap(each) for each in self.emitted})
            if self._xds is None:
                self.server.publish(made)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _bootstrap(self, adm: AdmResources) -> Path:
        path = self._folder / f"{adm.service}.json"
        bootstrap = xds_bootstrap(adm, ("127.0.0.1", self._xds or self.server.port), admin=("127.0.0.1", free_port()))
        path.write_text(json_format.MessageToJson(bootstrap, preserving_proto_field_name=True))
        return path

    def _until_older_connections_are_closed(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        for envoy in self.envoys.running.values():
            while is_draining(envoy.stats()):
                assert time.monotonic() < deadline
                time.sleep(0.05)

    def egress(self, source: str, destination: str) -> Dial:
        """Opens a connection of a caller through its own ADM."""
        port = self.placed.program.services[destination].ports[0].number
        address, own = self.addresses.egress[source, destination], sender(self.addresses, source)
        return lambda: socket.create_connection((address, port), SECONDS, (own, 0))
