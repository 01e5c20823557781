"""An application on loopback under traffic, its proxies, and a server in a process of its own that can be killed.

Connections are not redirected: callers dial explicit listeners. Proxies start with the bootstraps that
`admc compile --emit` writes. Only their ports differ, so two beds can run side by side.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import yaml

from admc.base.files import write_whole
from admc.serve.compiling.source import Source, read
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys
from emitters.addresses.dialing import binds, sender
from emitters.envoy import Mode
from emitters.output import files
from tests.serve.server_process import Served, of, served
from tests.serve.traffic.agreement import disagreements, update_rejections
from tests.serve.traffic.judge import FEW, Outage, Timeline, Verdict, admitted, judge
from tests.serve.traffic.programs import FAILS_ONCE, FILES, OUT, Variant
from tests.testbed.callers import Caller, RequestSpec, wait_for_workers
from tests.testbed.draining import DRAIN_SECONDS
from tests.testbed.ports import free_port, program_port, server_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from admc.serve.compiling.source import State

SECONDS = 90.0
PORT = program_port()
XDS_PORT = server_port()
"""It stays free while the server is down."""
CLOSED_SECONDS = 20.0
"""Within them proxies close older connections, and the server drops the resources that these used."""
WHOLE = frozenset(("plan",))
"""Steps in which all proxies enforce the new program alone."""

Specs = tuple[RequestSpec, ...]


def has_begun(server: dict[str, Any], wanted: str) -> bool:
    """Whether the rollout of a state has begun. It may have to wait until another rollout ends."""
    return bool(server["state"] == wanted) and not server["rollout"].endswith("; then a newer plan begins")


def caller_specs() -> list[tuple[Specs, bool]]:
    """The requests of each caller, and whether it keeps its connection."""

    def to_cart(source: str, protocol: str, *paths: str) -> Specs:
        made = [RequestSpec(source, "cart", protocol, path) for path in paths]
        return (*made, RequestSpec(source, "cart", protocol, "/", OUT))

    return [
        (to_cart("shop", "http", "/", "/"), True),
        (to_cart("till", "h2c", "/", "/shut"), True),
        (to_cart("shop", "http", "/", "/shut"), False),
        (to_cart("till", "http", "/"), False),
        ((RequestSpec("shop", "cart", "http", FEW),), True),
        ((RequestSpec("shop", "stock", "grpc"), RequestSpec("shop", "stock", "grpc", "/", FAILS_ONCE)), True),
        ((RequestSpec("till", "stock", "grpc"),), False),
        ((RequestSpec("shop", "ledger", "tcp"),), False),
        ((RequestSpec("till", "ledger", "tcp"),), False),
    ]


class Bed:
    """Use as a context, in which echo services and callers run. Its methods start the server and the proxies."""

    def __init__(self, folder: Path, envoy: str, pause: float = 0.05) -> None:
        self.folder = folder
        self.timeline = Timeline(DRAIN_SECONDS)
        self._program = folder / "policies.adm"
        for name, content in FILES.items():
            (folder / name).write_text(content)
        self.write(Variant())
        state = self.read()
        program, self._addresses = state.program, state.addresses
        protocols = {
            (each.name, port.number): port.protocol for each in program.services.values() for port in each.ports
        }
        self.echo = EchoServices(
            Endpoint(it.service, it.number, protocols[it.service, it.number].value, it.address, it.port)
            for it in binds(state.program, state.placement, self._addresses)
        )
        self.envoys = Envoys(folder / "logs", envoy, ("--drain-time-s", str(DRAIN_SECONDS)))
        self._bootstraps = self._written(state)
        self.callers = [Caller(self._dial(specs[0]), specs, keep=keep, pause=pause) for specs, keep in caller_specs()]
        self._server: Served | None = None
        self._serving = ExitStack()
        self._stack = ExitStack()
        self._started = False
        self.servers = 0
        """How many servers were started."""

    def __enter__(self) -> Bed:
        with ExitStack() as stack:
            stack.enter_context(self.echo)
            stack.enter_context(self.envoys)
            stack.callback(self._end_server)
            for caller in self.callers:
                stack.enter_context(caller)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _end_server(self) -> None:
        self._serving.close()

    # ---- the program ----

    def write(self, variant: Variant) -> None:
        self.timeline.wrote(variant)
        write_whole(self._program, variant.text(PORT).encode())

    def read(self) -> State:
        """The present program, as the server reads it."""
        found = read(Source(self._program, Mode.EXPLICIT), ())
        assert found.state is not None, [(each.code, each.message) for each in found.findings]
        return found.state

    def wait_until_in_force(self) -> None:
        """Wait until all proxies enforce the present program, and no other."""
        wanted = self.read().version
        try:
            self.server.until(lambda: self._holds(wanted), SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{wanted} is not in force: {json.dumps(self.status())}\n{error}") from error
        since = time.monotonic()
        wait_for_workers(self.callers)
        self.timeline.in_force(since)

    def wait_until_at_rest(self) -> None:
        """Wait until no rollout is under way."""
        self.wait_until_in_force()
        self.server.until(lambda: not self.status()["server"]["why"], SECONDS)
        self.wait_until_in_force()

    def _holds(self, wanted: str) -> bool:
        time.sleep(0.05)
        assert not self.server.events("last_good_state_stays"), self.server.log.read_text()
        status = self.status()
        if not has_begun(status["server"], wanted):
            return False
        step = status["server"]["rollout"].partition("step `")[2].partition("`")[0]
        return (not step or step in WHOLE) and self._in_sync(status)

    def _in_sync(self, status: dict[str, Any]) -> bool:
        rows = {row["service"]: row for row in status["adms"]}
        return rows.keys() == self.envoys.running.keys() and all(row["in_sync"] for row in rows.values())

    # ---- the server ----

    @property
    def server(self) -> Served:
        assert self._server is not None
        return self._server

    def status(self) -> dict[str, Any]:
        return self.server.status()

    def serve(self, checkout: Path | None = None) -> None:
        """`checkout`: a working copy of another release, whose server it is."""
        log = self.folder / "serve.log"
        if log.exists():
            shutil.copy(log, self.folder / f"serve-{self.servers}.log")
        options = ("policies.adm", "--mode", "explicit", "--state", "kept")
        server = served(self.folder, *options, xds=f"127.0.0.1:{XDS_PORT}", before=of(checkout))
        self._server = self._serving.enter_context(server)
        self.servers += 1

    def end(self, number: signal.Signals) -> None:
        code = self.server.stop(number)
        assert code == (0 if number is signal.SIGTERM else -number)
        self._serving.close()

    # ---- proxies ----

    def start_proxies(self) -> None:
        """Start all proxies, and end those that run."""
        self.assert_no_rejections()
        with self.starting_proxies():
            pass

    @contextlib.contextmanager
    def starting_proxies(self) -> Iterator[None]:
        """Start all proxies. They are ready at the end of the block."""
        with self._outage(*self._bootstraps):
            self.envoys.stop()
            self.envoys.launch(self._bootstraps)
            yield
            self._until_ready()

    def restart_proxy(self, service: str) -> None:
        self.assert_no_rejections()
        with self._outage(service):
            self.envoys.stop(service)
            self.envoys.launch({service: self._bootstraps[service]})
            self._until_ready()

    def _until_ready(self) -> None:
        """Envoy reconnects to the server after pauses of up to half a minute."""
        self.server.until(lambda: all(it.ready for it in self.envoys.running.values()), SECONDS)

    @contextlib.contextmanager
    def _outage(self, *services: str) -> Iterator[None]:
        began = time.monotonic() if self._started else 0.0
        self._started = True
        outage = Outage(frozenset(services), began, float("inf"))
        self.timeline.outages.append(outage)
        yield
        self.timeline.outages[self.timeline.outages.index(outage)] = outage._replace(ended=time.monotonic())

    def assert_no_rejections(self) -> None:
        for name, envoy in self.envoys.running.items():
            found = list(update_rejections(lambda path, it=envoy: it.admin_get(path, 10.0)[1]))  # type: ignore[misc]
            assert not found, (name, found, self.status())

    def disagreements(self) -> list[str]:
        """A sentence for each difference between a proxy and its row in the status, once no proxy has older connections
        and the server has dropped the resources that these used."""
        deadline = time.monotonic() + CLOSED_SECONDS
        while (found := self._disagreements()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return found

    def _disagreements(self) -> list[str]:
        found = []
        for row in self.status()["adms"]:
            envoy = self.envoys.running[row["service"]]
            (node,) = row["nodes"]
            found += disagreements(row["service"], lambda path, it=envoy: it.admin_get(path, 10.0)[1], node["types"])  # type: ignore[misc]
        return found

    def _written(self, state: State) -> dict[str, Path]:
        """Write the emitted bootstraps, with ports of this bed."""
        made = {}
        for name, content in files(state.program, state.placement, self._addresses, Mode.EXPLICIT).items():
            service, _, file = name.partition("/")
            if file == "bootstrap-xds.yaml":
                bootstrap = yaml.safe_load(content)
                bootstrap["admin"]["address"]["socket_address"] = {"address": "127.0.0.1", "port_value": free_port()}
                (xds,) = (it for it in bootstrap["static_resources"]["clusters"] if it["name"] == "xds")
                (locality,) = xds["load_assignment"]["endpoints"]
                (endpoint,) = locality["lb_endpoints"]
                endpoint["endpoint"]["address"]["socket_address"]["port_value"] = XDS_PORT
                made[service] = self.folder / f"{service}.yaml"
                made[service].write_text(yaml.safe_dump(bootstrap))
        return made

    # ---- traffic ----

    def _dial(self, spec: RequestSpec) -> Any:
        address, own = self._addresses.egress[spec.source, spec.destination], sender(self._addresses, spec.source)
        return lambda: socket.create_connection((address, PORT), 45.0, (own, 0))

    def verdict(self) -> Verdict:
        """The results of all requests. The callers must have stopped."""
        made = [request for caller in self.callers for request in caller.made]
        found = judge(self.timeline, made, self.echo.record.all())
        passed, most, wrong = admitted(self.timeline, made)
        found.failed += wrong
        if passed > most:
            found.unenforced.append(f"a quota let {passed} pass where it may have let {most}")
        return found
