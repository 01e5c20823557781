"""Probes that the ADM of a pod answers, by a real Envoy that checks real processes on loopback."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import socket
import ssl
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from emitters.envoy import Mode, passthrough
from emitters.envoy.health_checks import AGAIN, probe_resources
from emitters.health_probes import (
    MAX_PERIOD,
    MAX_PROBES,
    MAX_TIMEOUT,
    Probe,
    ProbeHeader,
    ProbeKind,
    ServiceProbes,
    WrittenProbe,
    fault,
    path,
)
from emitters.ports import PROBE_PORT, STARTUP_PORT, STOP_PATH, STOP_PORT
from tests.emitters.envoy.ads import Ads
from tests.emitters.envoy.pod_bed import envoy, get, until, write
from tests.emitters.envoy.support import ENVOY
from tests.emitters.envoy.test_pod_bootstrap import ADDRESSES, PROGRAM
from tests.emitters.interception.namespaces import NEEDS_ROOT
from tests.serve.pki import Authority
from tests.testbed.mesh import kernel
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform"), pytest.mark.long]
HTTP, HTTPS, GRPC, TCP = 8080, 8443, 9000, 7000
HEADERS = (ProbeHeader("X-Probe", "50%REQ(x)%"), ProbeHeader("Host", "shop.example"), ProbeHeader("X-Probe", "two"))


def probe(
    kind: ProbeKind, port: int, rest: str | None = None, headers: tuple[ProbeHeader, ...] = (), period: int = 1
) -> Probe:
    return Probe(path(WrittenProbe(kind, str(port), rest), port, headers, period, 1), port, headers, period, 1)


PROBES = (
    probe(ProbeKind.HTTP, HTTP, "/live/../%2fhealthz?x=y", HEADERS),
    probe(ProbeKind.HTTPS, HTTPS),
    probe(ProbeKind.GRPC, GRPC, "/db"),
    probe(ProbeKind.TCP, TCP),
)


@dataclass
class Web:
    """An HTTP server, with TLS if it has a certificate."""

    port: int
    address: str = "127.0.0.1"
    certificate: Path | None = None
    status: int = 200
    headers: int = 0

    def start(self) -> None:
        web = self
        self.requests: list[tuple[str, str, Any]] = []
        self.peers: set[str] = set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.requests.append((self.command, self.path, self.headers))
                web.peers.add(self.client_address[0])
                self.send_response(web.status)
                for number in range(web.headers):
                    self.send_header(f"x-{number}", "a")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        kind = type("Server", (http.server.ThreadingHTTPServer,), {"address_family": family})
        self.server = kind((self.address, self.port), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_3  # a kubelet speaks it
            context.load_cert_chain(self.certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@dataclass
class Process:
    """The processes of a pod."""

    web: Web
    secure: Web
    health: health.HealthServicer
    rpc: Any
    plain: socket.socket

    def stop(self) -> None:
        self.web.stop()
        self.secure.stop()
        self.rpc.stop(None).wait(5)
        self.plain.close()


def process(folder: Path) -> Process:
    pair = Authority("pods").issue(dns=("other.example",))
    certificate = folder / "process.pem"
    certificate.write_bytes(pair.key + pair.certificate)
    made = Process(Web(HTTP), Web(HTTPS, certificate=certificate), *serving(), socket.create_server(("127.0.0.1", TCP)))
    made.web.start()
    made.secure.start()
    return made


def serving() -> tuple[health.HealthServicer, Any]:
    servicer = health.HealthServicer()
    servicer.set("db", health_pb2.HealthCheckResponse.SERVING)
    server = grpc.server(ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    server.add_insecure_port(f"127.0.0.1:{GRPC}")
    server.start()
    return servicer, server


@contextlib.contextmanager
def answering(folder: Path, probes: ServiceProbes) -> Iterator[Ads]:
    """An ADM that enforces nothing, and answers these probes."""
    port = free_port()
    credentials = write(folder, port)
    own = passthrough(PROGRAM, ADDRESSES, Mode.POD)
    assert own is not None
    made = probe_resources(probes)
    resources = replace(own, routes={**own.routes, **made.routes}, clusters={**own.clusters, **made.clusters})
    with Ads(resources, port, credentials) as server, envoy(folder):
        until(lambda: get(STARTUP_PORT, "/ready") is not None)
        assert server.refused == []
        yield server
        assert server.refused == []


def ask(asked: str, method: str = "GET", host: str = "127.0.0.1", headers: dict[str, str] | None = None) -> Any:
    """Status, headers and body of the ADM's answer to a probe."""
    connection = http.client.HTTPConnection(host, PROBE_PORT, timeout=5)
    try:
        connection.request(method, asked, headers=headers or {})
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def statuses() -> list[int]:
    return [ask(one.path)[0] for one in PROBES]


def within_a_period(expected: list[int]) -> None:
    """A period, and the time of a check on a slow machine."""
    deadline = time.monotonic() + 3
    while statuses() != expected:
        assert time.monotonic() < deadline, (statuses(), expected)
        time.sleep(0.05)


def test_the_adm_answers_by_the_last_check_of_the_process_and_asks_it_nothing_else(folder: Path, alone: None) -> None:
    made = process(folder)
    with answering(folder, ServiceProbes("127.0.0.1", PROBES)):
        within_a_period([200] * 4)
        method, asked, headers = made.web.requests[0]
        assert (method, asked) == ("GET", "/live/../%2fhealthz?x=y")
        assert headers["host"] == "shop.example"
        assert headers.get_all("x-probe") == ["50%REQ(x)%", "two"]
        assert headers["user-agent"].startswith("kube-probe/")
        assert headers["accept"] == "*/*"
        assert {name.lower() for name in headers} == {"host", "x-probe", "user-agent", "accept"}
        assert made.web.peers == {"127.0.0.6"}
        assert made.secure.requests[0][1] == "/"
        assert made.secure.requests[0][2]["host"] == f"127.0.0.1:{HTTPS}"

        # What is asked of the listener reaches no process.
        before, began = len(made.web.requests), time.monotonic()
        for _ in range(300):
            assert ask(PROBES[0].path)[0] == 200
        for other in ("/", "/healthz", "/ready", PROBES[0].path[:-10], "/probe/http/8080", f"{PROBES[1].path}/x", "//"):
            status, answered, body = ask(other)
            assert (status, body) == (404, b""), other
            assert not any("envoy" in name for name in answered)
        for method in ("POST", "HEAD", "PUT", "OPTIONS", "DELETE"):
            assert ask(PROBES[0].path, method)[0] == 404
        retries = {"x-admc-hold-envoy-retry-on": "5xx", "x-envoy-retry-on": "5xx", "x-admc-hold-envoy-max-retries": "9"}
        assert ask(PROBES[0].path, headers=retries)[0] == 200
        assert len(made.web.requests) - before <= time.monotonic() - began + 2, "only the checks reach it"
        assert ask(PROBES[0].path, host="::1")[0] == 200

        # Ill, but there.
        made.web.status = made.secure.status = 500
        made.health.set("db", health_pb2.HealthCheckResponse.NOT_SERVING)
        made.plain.close()
        within_a_period([503] * 4)
        status, answered, body = ask(PROBES[0].path)
        assert (status, body) == (503, b"")
        assert not any("envoy" in name for name in answered)
        made.web.status, made.secure.status = 399, 302
        made.health.set("db", health_pb2.HealthCheckResponse.SERVING)
        made.plain = socket.create_server(("127.0.0.1", TCP))
        within_a_period([200] * 4)

        # A pod that ends is not ill.
        assert get(STOP_PORT, STOP_PATH) == (200, b"OK\n")
        steady = time.monotonic() + 2.5
        while time.monotonic() < steady:
            assert statuses() == [200] * 4
            time.sleep(0.1)

        # Gone, and back.
        made.stop()
        within_a_period([503] * 4)
        made = process(folder)
        within_a_period([200] * 4)
        made.stop()


def test_a_process_that_does_not_answer_in_time_is_not_healthy_and_soon_asked_again(folder: Path, alone: None) -> None:
    silent = socket.create_server(("127.0.0.1", HTTP))
    asked, not_asked = (probe(ProbeKind.HTTP, HTTP, rest, period=600) for rest in ("/asked", "/not-asked"))
    with answering(folder, ServiceProbes("127.0.0.1", (asked, not_asked))):
        until(lambda: ask(asked.path)[0] == 503)  # Envoy has one interval before the first request, and one after it
        silent.close()
        web = Web(HTTP)
        web.start()
        until(lambda: {"/asked", "/not-asked"} <= {request[1] for request in web.requests})
        until(lambda: ask(asked.path)[0] == ask(not_asked.path)[0] == 200)
        count, steady = len(web.requests), time.monotonic() + 2 * AGAIN
        while time.monotonic() < steady:
            assert ask(asked.path)[0] == 200
            time.sleep(0.2)
        assert len(web.requests) == count, "a process that is healthy is asked once in a period"
        web.stop()


def asked_over_http2(listener: socket.socket) -> dict[str, str]:
    """The headers of the next request there. A connection may have ended before its request came."""
    listener.settimeout(20)
    while True:
        connection, _ = listener.accept()
        server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        server.initiate_connection()
        with connection, contextlib.suppress(ConnectionError):
            connection.sendall(server.data_to_send())
            while data := connection.recv(65536):
                for event in server.receive_data(data):
                    if isinstance(event, RequestReceived):
                        return dict(event.headers)


def test_envoy_sends_exactly_whatever_a_probe_may_have(folder: Path, alone: None) -> None:
    rest = "/~!$&'()*+,;=:@-._%20//%2f/..?~!$&'()*+,;=:@-._%2F?/"
    value = "".join(map(chr, range(0x21, 0x7F))) + " \t!"
    listed = [ProbeHeader("!#$%&'*+.^_`|~0aZ-", value), ProbeHeader("Accept", "text/x"), ProbeHeader("x-empty", "")]
    listed += [ProbeHeader("User-Agent", "%START_TIME%"), *(ProbeHeader(f"x-{number}", "a") for number in range(12))]
    headers = tuple(listed)
    longest = Probe(
        path(WrittenProbe(ProbeKind.HTTP, "web", rest), HTTP, headers, MAX_PERIOD, MAX_TIMEOUT),
        HTTP,
        headers,
        MAX_PERIOD,
        MAX_TIMEOUT,
    )
    others = [probe(ProbeKind.HTTP, HTTP, f"/{number}") for number in range(MAX_PROBES - 2)]
    service = probe(ProbeKind.GRPC, GRPC, "/~!$&'()*+,;=:@-._/")
    every = (longest, service, *others)
    assert not any(map(fault, every))
    web = Web(HTTP, headers=500)
    web.start()
    with socket.create_server(("127.0.0.1", GRPC)) as rpc, answering(folder, ServiceProbes("127.0.0.1", every)):
        sent = asked_over_http2(rpc)
        assert sent[":authority"] == f"127.0.0.1:{GRPC}", "a server may reset a stream to what is no host"
        until(lambda: all(ask(one.path)[0] == 200 for one in every if one is not service))
        assert ask(service.path)[0] == 503
        (asked,) = (found for found in web.requests if found[1] == rest)
        for header in headers:
            assert asked[2].get_all(header.name) == [header.value]
    web.stop()


@pytest.fixture
def with_ipv6() -> Iterator[None]:
    """A network of its own, with the address that the rules container of a pod adds."""
    home, own = os.open("/proc/thread-self/ns/net", os.O_RDONLY), kernel.new_network()
    with kernel.inside(own, home):
        for command in ("link set lo up", "addr add ::6/128 dev lo"):
            subprocess.run(["ip", *command.split()], check=True)
        yield
    os.close(own)
    os.close(home)


@NEEDS_ROOT
def test_in_a_network_of_ipv6_alone_the_process_is_asked_there(folder: Path, with_ipv6: None) -> None:
    web = Web(HTTP, "::1")
    web.start()
    one = probe(ProbeKind.HTTP, HTTP, "/healthz")
    with answering(folder, ServiceProbes("::1", (one,))):
        until(lambda: ask(one.path)[0] == 200)
        assert web.requests[0][2]["host"] == f"[::1]:{HTTP}"
        assert web.peers == {"::6"}
    web.stop()
