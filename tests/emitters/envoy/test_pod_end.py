"""A pod that ends: the hook of the pod's bootstrap makes an ADM close connections, and nothing else does."""

from __future__ import annotations

import dataclasses
import json
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from admc.testbed.echo import EchoServices, Endpoint
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy import Mode, emit
from emitters.envoy.chains.clusters import endpoints
from emitters.envoy.messages.typed import message
from emitters.envoy.resources import ENDPOINTS, PROBES, ROUTES, SIBLINGS
from emitters.ports import ADMIN_PORT, STARTUP_PORT, STOP_PATH, STOP_PORT
from tests.emitters.envoy.ads import Ads
from tests.emitters.envoy.http2_frames import PREFACE
from tests.emitters.envoy.pod_bed import ask, envoy, get, until, write
from tests.emitters.envoy.support import ENVOY, load, private
from tests.testbed.callers import WIRES, RequestSpec
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.testbed.callers import Connection, Dial, Response

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
TEXT = """
service front { http 8000 }
service back  { http web 8001  grpc rpc 8002 }
service store { http web 8003  grpc rpc 8004 }
call front -> back:web, back:rpc
call back -> store:web, store:rpc
@ingress
policy closed = deny() on front -> back when path == "/closed"
@egress
policy seen = request_count() on back -> store
"""
WAYS = {
    **{("back", protocol): number for protocol, number in (("http", 8001), ("h2c", 8001), ("grpc", 8002))},
    **{("store", protocol): number for protocol, number in (("http", 8003), ("h2c", 8003), ("grpc", 8004))},
}
"""Destination and protocol -> the port: ingress and egress of the ADM of `back`."""
DONE = {"http": 200, "h2c": 200, "grpc": 0}
REFUSED = {"http": 403, "h2c": 403, "grpc": 7}


@contextmanager
def adm_of_back(folder: Path) -> Iterator[Mapping[tuple[str, str], Dial]]:
    """The ADM of `back` as it runs in a pod, but for redirection: each hop has an address of its own."""
    program, placement = load(TEXT)
    addresses = private(loopback(program))
    (adm,) = emit(program, placement, addresses, Mode.EXPLICIT)
    # What an ADM in a pod asks for before it starts.
    siblings, probes = message(ENDPOINTS, endpoints(SIBLINGS, (), 1)), message(ROUTES, {"name": PROBES})
    adm = dataclasses.replace(
        adm, endpoints={**adm.endpoints, SIBLINGS: siblings}, routes={**adm.routes, PROBES: probes}
    )
    protocols = {
        (name, port.number): port.protocol.value for name, item in program.services.items() for port in item.ports
    }
    where = [
        Endpoint(bind.service, bind.number, protocols[bind.service, bind.number], bind.address, bind.port)
        for bind in binds(program, placement, addresses)
    ]
    dialled = {(dial.destination, dial.number): dial for dial in dials(program, placement, addresses)}

    def opener(destination: str, number: int) -> Dial:
        dial = dialled[destination, number]
        return lambda: socket.create_connection((dial.address, dial.port), 10, (dial.sender, 0))

    port = free_port()
    credentials = write(folder, port)
    with EchoServices(where), Ads(adm, port, credentials) as ads, envoy(folder):
        until(lambda: get(STARTUP_PORT, "/ready") == (200, b"LIVE\n"))
        yield {way: opener(way[0], number) for way, number in WAYS.items()}
        assert ads.refused == []


def send(connection: Connection, way: tuple[str, str], path: str = "/") -> Response:
    destination, protocol = way
    return connection.send(RequestSpec("", destination, protocol, path), "")


def state() -> str:
    status, body = ask(ADMIN_PORT, "GET", "/server_info")
    assert status == 200
    return str(json.loads(body)["state"])


def asked_of_admin() -> int:
    """How many requests the listener of the hook has passed on."""
    _, body = ask(ADMIN_PORT, "GET", "/stats?filter=cluster.stop.upstream_rq_total")
    return int(body.split()[-1])


def raw(content: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", STOP_PORT), 10) as connection:
        connection.sendall(content)
        return connection.recv(65536)


def test_after_the_hook_each_connection_ends_with_its_next_response_and_policies_hold(
    folder: Path, alone: None
) -> None:
    with adm_of_back(folder) as opens:
        kept = {way: WIRES[way[1]](opens[way]) for way in WAYS}
        for way, connection in kept.items():
            for _ in range(2):
                answer = send(connection, way)
                assert (answer.status, answer.last) == (DONE[way[1]], False), way
        assert ask(STOP_PORT, "GET", STOP_PATH, host="::1") == (200, b"OK\n")
        for way, connection in kept.items():
            answer = send(connection, way)
            assert (answer.status, answer.last) == (DONE[way[1]], True), way
            connection.close()
            # New connections are still accepted: callers do not know yet that the pod ends.
            fresh = WIRES[way[1]](opens[way])
            answer = send(fresh, way)
            assert (answer.status, answer.last) == (DONE[way[1]], True), way
            fresh.close()
        for protocol in DONE:
            connection = WIRES[protocol](opens["back", protocol])
            answer = send(connection, ("back", protocol), "/closed")
            assert (answer.status, answer.last) == (REFUSED[protocol], True)
            connection.close()
        assert get(STARTUP_PORT, "/ready") == (200, b"LIVE\n")
        assert ask(STOP_PORT, "GET", STOP_PATH) == (200, b"OK\n"), "a hook may come twice"


def test_no_other_request_reaches_the_admin_interface(folder: Path, alone: None) -> None:
    with adm_of_back(folder) as opens:
        paths = ["/", f"{STOP_PATH}/", f"{STOP_PATH}?", f"{STOP_PATH}?x=1", f"/{STOP_PATH}", "/DRAIN", "/%64rain"]
        paths += [f"/x/..{STOP_PATH}", f"{STOP_PATH};x", "/healthcheck/fail", "/healthcheck/ok", "/quitquitquit"]
        for path in paths:
            assert ask(STOP_PORT, "GET", path)[0] == 404, path
        for method in ("POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"):
            assert ask(STOP_PORT, method, STOP_PATH)[0] == 404, method
        for body in (b"x", b"", iter([b"x"])):
            assert ask(STOP_PORT, "GET", STOP_PATH, body)[0] == 404, body
        start = b"GET http://127.0.0.1:15000/healthcheck/fail HTTP/1.1\r\nhost: x\r\n\r\n"
        assert raw(start).startswith(b"HTTP/1.1 404 ")
        assert not raw(PREFACE).startswith(b"HTTP/1.1 2")
        assert asked_of_admin() == 0
        # A process of the pod reaches the admin interface itself, on loopback.
        assert ask(ADMIN_PORT, "GET", "/healthcheck/fail")[0] == 405
        for path in ("healthcheck/ok", "healthcheck/fail?x", "quitquitquit", "drain_listeners", "logging?level=off"):
            assert ask(ADMIN_PORT, "POST", f"/{path}")[0] == 403, path
        assert state() == "LIVE"
        for way in WAYS:
            connection = WIRES[way[1]](opens[way])
            answer = send(connection, way)
            assert (answer.status, answer.last) == (DONE[way[1]], False), way
            connection.close()
        assert ask(ADMIN_PORT, "POST", "/healthcheck/fail") == (200, b"OK\n")
        assert state() == "DRAINING"
