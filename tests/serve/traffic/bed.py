"""An application on loopback under traffic, its proxies, and a server in a process of its own that may be killed.

Nothing is redirected here: callers dial explicit listeners. Proxies start from what `admc compile --emit` writes for
them, but for ports, so that two beds can run side by side.
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

from admc.files import write_whole
from admc.serve.build.source import Source, read
from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoys
from emitters.addresses.dialing import binds, sender
from emitters.envoy import Mode
from emitters.output import files
from tests.serve.server_process import Served, served
from tests.serve.traffic.agreement import disagreements, refused
from tests.serve.traffic.judge import FEW, Outage, Timeline, Verdict, admitted, judge
from tests.serve.traffic.programs import FAILS_ONCE, FILES, OUT, Ask, Variant
from tests.testbed.callers import Caller, go_round
from tests.testbed.ports import free_port, program_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from admc.serve.build.source import State

DRAIN_SECONDS = 3
"""Envoy looks at whole seconds: with less, connections are cut without having been told to close."""
SECONDS = 90.0
PORT = program_port()
XDS_PORT = free_port()
"""Nobody has it when a server comes back."""
WHOLE = frozenset(("plan",))
"""Steps at which the new program holds alone."""

Asks = tuple[Ask, ...]


def has_begun(server: dict[str, Any], wanted: str) -> bool:
    """Whether a server leads its proxies to a state. A newer plan may have to wait for one that is under way."""
    return bool(server["state"] == wanted) and not server["rollout"].endswith("; then a newer plan begins")


def callers_asks() -> list[tuple[Asks, bool]]:
    """What each caller asks for in turn, and whether it keeps its connection."""

    def to_cart(source: str, protocol: str, *paths: str) -> Asks:
        made = [Ask(source, "cart", protocol, path) for path in paths]
        return (*made, Ask(source, "cart", protocol, "/", OUT))

    return [
        (to_cart("shop", "http", "/", "/"), True),
        (to_cart("till", "h2c", "/", "/shut"), True),
        (to_cart("shop", "http", "/", "/shut"), False),
        (to_cart("till", "http", "/"), False),
        ((Ask("shop", "cart", "http", FEW),), True),
        ((Ask("shop", "stock", "grpc"), Ask("shop", "stock", "grpc", "/", FAILS_ONCE)), True),
        ((Ask("till", "stock", "grpc"),), False),
        ((Ask("shop", "ledger", "tcp"),), False),
        ((Ask("till", "ledger", "tcp"),), False),
    ]


class Bed:
    """Use as a context: echo services and callers run inside it; servers and proxies when they are told to."""

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
        self.callers = [Caller(self._dial(asks[0]), asks, keep=keep, pause=pause) for asks, keep in callers_asks()]
        self._server: Served | None = None
        self._serving = ExitStack()
        self._stack = ExitStack()
        self._started = False
        self.servers = 0
        """How many have been started."""

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
        """What the server makes of the program as it stands."""
        found = read(Source(self._program, Mode.EXPLICIT), ())
        assert found.state is not None, [(each.code, each.message) for each in found.findings]
        return found.state

    def settle(self) -> None:
        """Wait until the program as it stands is in force at all proxies, and no other."""
        wanted = self.read().version
        try:
            self.server.until(lambda: self._holds(wanted), SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{wanted} is not in force: {json.dumps(self.status())}\n{error}") from error
        since = time.monotonic()
        go_round(self.callers)
        self.timeline.in_force(since)

    def over(self) -> None:
        """Wait until nothing of any rollout is left."""
        self.settle()
        self.server.until(lambda: not self.status()["server"]["why"], SECONDS)
        self.settle()

    def _holds(self, wanted: str) -> bool:
        time.sleep(0.05)
        said = self.server.events()
        assert not any(event["event"] == "last_good_state_stays" for event in said), self.server.log.read_text()
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

    def serve(self) -> None:
        log = self.folder / "serve.log"
        if log.exists():
            shutil.copy(log, self.folder / f"serve-{self.servers}.log")
        options = ("policies.adm", "--mode", "explicit", "--state", "kept")
        self._server = self._serving.enter_context(served(self.folder, *options, xds=f"127.0.0.1:{XDS_PORT}"))
        self.servers += 1

    def end(self, number: signal.Signals) -> None:
        code = self.server.stop(number)
        assert code == (0 if number is signal.SIGTERM else -number)
        self._serving.close()

    # ---- proxies ----

    def start_proxies(self) -> None:
        """Those that run end before."""
        self.no_refusals()
        with self.starting_proxies():
            pass

    @contextlib.contextmanager
    def starting_proxies(self) -> Iterator[None]:
        """They are started, and have become ready by the end of the block."""
        with self._away(*self._bootstraps):
            self.envoys.stop()
            self.envoys.launch(self._bootstraps)
            yield
            self._until_ready()

    def restart_proxy(self, service: str) -> None:
        self.no_refusals()
        with self._away(service):
            self.envoys.stop(service)
            self.envoys.launch({service: self._bootstraps[service]})
            self._until_ready()

    def _until_ready(self) -> None:
        """A proxy that was turned away comes again later each time, up to half a minute."""
        self.server.until(lambda: all(it.ready for it in self.envoys.running.values()), SECONDS)

    @contextlib.contextmanager
    def _away(self, *services: str) -> Iterator[None]:
        began = time.monotonic() if self._started else 0.0
        self._started = True
        outage = Outage(frozenset(services), began, float("inf"))
        self.timeline.outages.append(outage)
        yield
        self.timeline.outages[self.timeline.outages.index(outage)] = outage._replace(ended=time.monotonic())

    def no_refusals(self) -> None:
        for name, envoy in self.envoys.running.items():
            found = list(refused(lambda path, it=envoy: it.admin_get(path, 10.0)[1]))  # type: ignore[misc]
            assert not found, (name, found, self.status())

    def disagreements(self) -> list[str]:
        """Between what proxies say and what the server says of them."""
        found = []
        for row in self.status()["adms"]:
            envoy = self.envoys.running[row["service"]]
            (node,) = row["nodes"]
            found += disagreements(row["service"], lambda path, it=envoy: it.admin_get(path, 10.0)[1], node["types"])  # type: ignore[misc]
        return found

    def _written(self, state: State) -> dict[str, Path]:
        """The emitted bootstraps at ports of this bed's own."""
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

    def _dial(self, ask: Ask) -> Any:
        address, own = self._addresses.egress[ask.source, ask.destination], sender(self._addresses, ask.source)
        return lambda: socket.create_connection((address, PORT), 45.0, (own, 0))

    def verdict(self) -> Verdict:
        """How all requests fared; to be asked when the callers have stopped."""
        made = [request for caller in self.callers for request in caller.made]
        found = judge(self.timeline, made, self.echo.record.all())
        passed, most, wrong = admitted(self.timeline, made)
        found.failed += wrong
        if passed > most:
            found.unenforced.append(f"a quota let {passed} pass where it may have let {most}")
        return found
