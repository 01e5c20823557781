"""A change of arguments or addresses reaches connections that are open, and closes none."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from typing import TYPE_CHECKING

import pytest

from admc.testbed.echo import EchoServices, Endpoint
from admc.testbed.envoys import Envoy, Envoys
from dsl.program import Side
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.envoy.messages.typed import to_json, to_yaml
from tests.emitters.envoy.ads import Ads
from tests.emitters.envoy.kinds.everything import FILES, everything
from tests.emitters.envoy.on_files import Files
from tests.emitters.envoy.support import ENVOY, load, private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")


class Live:
    """One ADM whose resources can be replaced while it runs."""

    def __init__(self, text: str, folder: Path) -> None:
        self.folder = folder
        self.files = Files(folder)
        self.program, self.placement = load(text)
        self.addresses = private(loopback(self.program))
        assert len(self.placement.adms) == 1

    def resources(self, addresses: Addresses | None = None) -> None:
        (found,) = emit(self.program, self.placement, addresses or self.addresses, Mode.EXPLICIT)
        self.files.publish(found)

    def change(self, text: str) -> None:
        self.program, self.placement = load(text)
        self.resources()

    @contextlib.contextmanager
    def running(self) -> Iterator[Envoy]:
        (found,) = emit(self.program, self.placement, self.addresses, Mode.EXPLICIT)
        path = self.files.bootstrap(found)
        protocols = {(s.name, p.number): p.protocol.value for s in self.program.services.values() for p in s.ports}
        where = [
            Endpoint(b.service, b.number, protocols[b.service, b.number], b.address, b.port)
            for b in binds(self.program, self.placement, self.addresses)
        ]
        assert ENVOY is not None
        with EchoServices(where), Envoys(self.folder, ENVOY) as envoys:
            envoys.start({found.service: path})
            yield envoys.running[found.service]

    def connect(self, source: str, destination: str) -> socket.socket:
        dial = next(
            dial
            for dial in dials(self.program, self.placement, self.addresses)
            if (dial.source, dial.destination) == (source, destination)
        )
        return socket.create_connection((dial.address, dial.port), 5, (dial.sender, 0))


def ask(connection: socket.socket, delay: float = 0.0) -> tuple[int, bytes]:
    """One request on a connection that stays open: status and the whole answer."""
    connection.sendall(f"GET /a HTTP/1.1\r\nHost: x\r\nx-echo-delay: {delay}\r\n\r\n".encode())
    answer = b""
    while True:
        answer += connection.recv(65536)
        head, end, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        if end and length is not None and len(body) >= int(length[1]):
            return int(head.split()[1]), answer


def until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not what():
        assert time.monotonic() < deadline, "the change did not arrive"
        time.sleep(0.05)


HTTP = """
external internet
service front, other { http 8000 }
service back { http 8001 }
call front, other -> back
"""


def test_new_arguments_hold_on_an_open_connection(tmp_path: Path) -> None:
    policy = (
        '\n@ingress\npolicy tag = set_request_header(name: "x-tag", value: "%s") on front -> back when path == "/a"'
    )
    live = Live(HTTP + policy % "old", tmp_path)
    with live.running() as envoy, live.connect("front", "back") as connection:
        assert b'"old"' in ask(connection)[1]
        live.change(HTTP + policy % "new")
        until(lambda: b'"new"' in ask(connection)[1])
        assert envoy.stats()["listener_manager.listener_modified"] == 0


def test_new_routes_hold_on_an_open_connection(tmp_path: Path) -> None:
    policy = '\npolicy quick = timeout(after: %s) on front -> back when path == "/a"'
    live = Live(HTTP + policy % "50ms", tmp_path)
    with live.running(), live.connect("front", "back") as connection:
        assert ask(connection, 0.3)[0] == 504
        live.change(HTTP + policy % "5s")
        until(lambda: ask(connection, 0.3)[0] == 200)


def _replaced(addresses: Addresses, gone: str, name: str) -> Addresses:
    """The pod of one service has gone, and its address is now that of a new pod of another."""
    services = dict(addresses.services)
    services[name] = ServiceAddresses(services[name].addresses, (*services[name].pods, *services[gone].pods))
    services[gone] = ServiceAddresses(services[gone].addresses, ())
    return Addresses(services, addresses.externals, addresses.egress)


def test_a_new_replica_of_a_caller_is_admitted_and_no_connection_closes(tmp_path: Path) -> None:
    live = Live(HTTP + "\n@ingress\npolicy who = allow(callers: [front]) on * -> back", tmp_path)
    with live.running() as envoy, live.connect("front", "back") as front, live.connect("other", "back") as other:
        assert ask(front)[0] == 200
        assert ask(other)[0] == 403
        live.resources(_replaced(live.addresses, "other", "front"))
        until(lambda: ask(other)[0] == 200)
        assert ask(front)[0] == 200
        assert envoy.stats()["listener_manager.listener_modified"] == 0


TCP = """
external internet
service front, other { http 8000 }
service store { tcp 9000 }
call front, other -> store
@ingress
policy who = allow(callers: [front]) on * -> store
"""


def _greeting(live: Live, source: str) -> bytes:
    with live.connect(source, "store") as connection:
        try:
            return connection.recv(1024)
        except ConnectionResetError:
            return b""


def test_a_new_replica_of_a_tcp_caller_is_admitted_and_no_connection_closes(tmp_path: Path) -> None:
    live = Live(TCP, tmp_path)
    with live.running() as envoy, live.connect("front", "store") as front:
        assert front.recv(1024)
        assert _greeting(live, "other") == b"", "a caller that is turned away hears nothing, not even a greeting"
        live.resources(_replaced(live.addresses, "other", "front"))
        until(lambda: _greeting(live, "other") != b"")
        stats = envoy.stats()
        assert stats["listener_manager.listener_in_place_updated"] == 1
        assert stats["listener_manager.total_filter_chains_draining"] == 0
        front.sendall(b"still here\n")
        assert front.recv(1024) == b"still here\n"


def test_names_lead_back_to_policies(tmp_path: Path) -> None:
    live = Live(HTTP + "\npolicy limit = rate_limit(requests: 1, per: 1h) on front -> back", tmp_path)
    with live.running() as envoy, live.connect("front", "back") as connection:
        assert [ask(connection)[0] for _ in range(2)] == [200, 429]
        assert envoy.stats()["limit/back.http_local_rate_limit.rate_limited"] == 1


def test_a_quota_is_shared_by_the_replicas_and_follows_their_number(tmp_path: Path) -> None:
    live = Live(HTTP + "\n@egress\npolicy limit = rate_limit(requests: 4, per: 1h) on front -> back", tmp_path)
    only = live.addresses
    live.addresses = _replaced(only, "other", "front")
    with live.running(), live.connect("front", "back") as connection:
        assert [ask(connection)[0] for _ in range(3)] == [200, 200, 429]


def test_replicas_without_an_address_yet_count_as_declared() -> None:
    program, placement = load(
        HTTP.replace("front, other { http 8000 }", "front, other { http 8000  replicas 3 }")
        + "\n@egress\npolicy limit = rate_limit(requests: 4, per: 1h) on front -> back"
    )
    (found,) = emit(program, placement, Addresses({"back": ServiceAddresses(("10.0.0.1",))}), Mode.REDIRECT)
    assert found.siblings is not None
    (group,) = found.endpoints[found.siblings].endpoints  # type: ignore[attr-defined]
    assert len(group.lb_endpoints) == 3


@pytest.mark.parametrize("side", Side)
def test_every_kind_can_be_served(side: Side, tmp_path: Path) -> None:
    """Filters whose configuration comes by itself (ECDS) work for every kind, under every condition."""
    program, placement = load(everything(side), FILES)
    (found,) = emit(program, placement, private(loopback(program)), Mode.EXPLICIT)
    path = tmp_path / "bootstrap.yaml"
    assert ENVOY is not None
    with Ads(found) as server, Envoys(tmp_path, ENVOY) as envoys:
        path.write_bytes(to_yaml(to_json(xds_bootstrap(found, ("127.0.0.1", server.port)))))
        envoys.start({found.service: path})
        until(lambda: envoys.running[found.service].stats()["listener_manager.total_listeners_warming"] == 0)
        stats = envoys.running[found.service].stats()
        assert stats["listener_manager.total_listeners_active"] == len(found.listeners)
        assert server.refused == []
        assert server.node is not None
        cluster, identity = server.node
        assert cluster == found.service
        assert identity != found.service, "`--service-node` names the replica"
