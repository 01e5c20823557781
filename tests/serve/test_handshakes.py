"""Failed TLS handshakes are logged and counted, with the reason and the address."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from admc.serve.auth import grpc_log
from admc.serve.auth.grpc_log import MAX_LINE, MAX_MESSAGE, MAX_REPEATS, EventWriter, LogParser
from admc.serve.auth.handshakes import REASONS, cause_of, grpc_tracing
from admc.testbed.envoys import Envoys, envoy_binary
from tests.serve.pki import Authority, Pair
from tests.serve.server_process import SECONDS, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
PROGRAM = """
app shop
service web  { http 8080  namespace shop }
service cart { http 8081  namespace shop }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "silver") on web -> cart
"""
OWN = "spiffe://cluster.local/ns/shop/sa/web"
SERVERS = Authority("servers")
CLIENTS = Authority("clients")
OPTIONS = (
    *("--mode", "explicit", "--tls-client-ca", "clients.crt"),
    *("--tls-cert", "server.crt", "--tls-key", "server.key"),
)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


@contextmanager
def over_tls(folder: Path) -> Iterator[Served]:
    (folder / "policies.adm").write_text(PROGRAM)
    SERVERS.issue(dns=("localhost",)).write(folder, "server")
    (folder / "clients.crt").write_bytes(CLIENTS.certificate)
    with served(folder, "policies.adm", *OPTIONS, plaintext=False) as server:
        yield server


def connected(server: Served) -> tuple[socket.socket, str]:
    """A connection, and its address as the server's log has it."""
    host, _, port = server.xds.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=SECONDS)
    return plain, "ipv4:{}:{}".format(*plain.getsockname())


def shaken(server: Served, folder: Path, pair: Pair | None, alpn: str = "h2") -> str:
    """Try a TLS handshake; the address of the client."""
    context = ssl.create_default_context(cadata=SERVERS.certificate.decode())
    context.set_alpn_protocols([alpn])
    if pair is not None:
        context.load_cert_chain(*pair.write(folder, "client"))
    plain, address = connected(server)
    with plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as secured:
                secured.sendall(PREFACE)
                secured.recv(100)
        except OSError:
            pass  # the server's word for it is what is looked at
    return address


def spoken(server: Served, data: bytes) -> str:
    """Send bytes that are not TLS; the address of the client."""
    plain, address = connected(server)
    with plain:
        plain.sendall(data)
        while plain.recv(100):
            pass
    return address


@contextmanager
def connected_by_grpc(server: Served, pair: Pair, trusted: Authority = SERVERS) -> Iterator[grpc.Channel]:
    credentials = grpc.ssl_channel_credentials(trusted.certificate, pair.key, pair.certificate)
    options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(server.xds, credentials, options) as channel:
        yield channel


def serves(channel: grpc.Channel) -> bool:
    """Whether a call gets a response, whatever its status is."""
    try:
        health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=SECONDS)
    except grpc.RpcError as error:
        return bool(error.code() is not grpc.StatusCode.UNAVAILABLE)
    return True


def counted(server: Served, reason: str) -> float:
    return server.metric(f'admc_tls_refusals_total{{reason="{reason}"}}')


@pytest.mark.long
def test_each_cause_is_reported_with_the_address(tmp_path: Path) -> None:
    with over_tls(tmp_path) as server:
        assert {reason: counted(server, reason) for reason in REASONS} == dict.fromkeys(REASONS, 0)
        silent, silent_address = connected(server)
        stranger = Authority("strangers")
        forger = Authority("clients")  # the same name, and another key
        expected = [
            ("expired", shaken(server, tmp_path, CLIENTS.issue(OWN, seconds=-60))),
            ("not_yet_valid", shaken(server, tmp_path, CLIENTS.issue(OWN, seconds=7200, begins=3600))),
            ("authority", shaken(server, tmp_path, stranger.issue(OWN))),
            ("authority", shaken(server, tmp_path, forger.issue(OWN))),
            ("no_certificate", shaken(server, tmp_path, None)),
            ("no_http2", shaken(server, tmp_path, CLIENTS.issue(OWN), alpn="http/1.1")),
            ("no_tls", spoken(server, PREFACE)),
            ("no_tls", spoken(server, b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")),
        ]
        refused = lambda: [e for e in server.events("handshake_refused") if e["reason"] != "silent"]  # noqa: E731
        server.until(lambda: len(refused()) == len(expected))
        found = refused()
        assert [(event["reason"], event["peer"]) for event in found] == expected
        assert all(event["why"] and event["said"] and event["level"] == "warning" for event in found)
        assert counted(server, "expired") == 1
        assert counted(server, "no_tls") == 2

        # A client that opens a connection and closes it is counted, and not logged.
        connected(server)[0].close()
        server.until(lambda: counted(server, "closed") == 1)

        # The connection of a silent client is closed after 10 s.
        server.until(lambda: counted(server, "silent") == 1)
        assert silent.recv(1) == b""
        silent.close()
        assert server.events("handshake_refused")[-1]["peer"] == silent_address

        # Of repeated failures the log has a few lines, and the metric counts all of them.
        for _ in range(5):
            shaken(server, tmp_path, None)
        server.until(lambda: counted(server, "no_certificate") == 6)
        assert server.stop() == 0
        found = server.events("handshake_refused")
        assert [event["reason"] for event in found].count("no_certificate") == 3
        (left_out,) = server.events("left_out")
        said = {key: left_out[key] for key in ("of", "peer", "reason", "lines")}
        assert said == {"of": "handshake_refused", "peer": "ipv4:127.0.0.1", "reason": "no_certificate", "lines": 3}
        assert server.events("message") == []


@pytest.mark.long
def test_the_causes_of_grpc_clients_differ_and_other_clients_are_served_meanwhile(tmp_path: Path) -> None:
    with over_tls(tmp_path) as server, connected_by_grpc(server, CLIENTS.issue(OWN)) as good:
        assert serves(good)
        with connected_by_grpc(server, CLIENTS.issue(OWN, seconds=-60)) as bad:
            assert not serves(bad)
        assert server.until_event("handshake_refused")["reason"] == "expired"
        assert serves(good)
        with connected_by_grpc(server, CLIENTS.issue(OWN), CLIENTS) as bad:
            assert not serves(bad)
        server.until(lambda: counted(server, "closed") >= 1)  # such a client of gRPC does not say why it hangs up
        with grpc.insecure_channel(server.xds) as plain:
            assert not serves(plain)
        server.until(lambda: counted(server, "no_tls") >= 1)


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
def test_the_causes_of_envoys_differ(tmp_path: Path, alone: None) -> None:
    assert ENVOY is not None
    pairs = {
        "expired": (CLIENTS.issue(OWN, seconds=-60), SERVERS),
        "authority": (Authority("strangers").issue(OWN), SERVERS),
        "client": (CLIENTS.issue(OWN), CLIENTS),
    }
    with over_tls(tmp_path) as server, Envoys(tmp_path / "logs", ENVOY) as envoys:
        envoys.launch({reason: asking(server, tmp_path / reason, *pair) for reason, pair in pairs.items()})
        for reason in pairs:
            server.until(lambda reason=reason: counted(server, reason) >= 1)  # type: ignore[misc]
        said = {event["reason"]: event["said"] for event in server.events("handshake_refused")}
        assert said["client"].endswith("TLSV1_ALERT_UNKNOWN_CA")


def asking(server: Served, folder: Path, pair: Pair, trusted: Authority) -> Path:
    """A bootstrap that only connects to the server over TLS."""
    folder.mkdir()
    certificate, key = pair.write(folder, "client")
    (folder / "ca.crt").write_bytes(trusted.certificate)
    host, _, port = server.xds.rpartition(":")
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
        "sni": "localhost",
        "common_tls_context": {
            "alpn_protocols": ["h2"],
            "tls_certificates": [
                {"certificate_chain": {"filename": str(certificate)}, "private_key": {"filename": str(key)}}
            ],
            "validation_context": {"trusted_ca": {"filename": str(folder / "ca.crt")}},
        },
    }
    http2 = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    address = {"socket_address": {"address": host, "port_value": int(port)}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
    cluster = {
        "name": "xds",
        "type": "STATIC",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "load_assignment": {"cluster_name": "xds", "endpoints": endpoints},
    }
    ads = {
        "api_type": "DELTA_GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}],
    }
    bootstrap = {
        "node": {"id": "web-1", "cluster": "web"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
        "dynamic_resources": {
            "ads_config": ads,
            "cds_config": {"ads": {}, "resource_api_version": "V3"},
            "lds_config": {"ads": {}, "resource_api_version": "V3"},
        },
        "static_resources": {"clusters": [cluster]},
    }
    path = folder / "bootstrap.json"
    path.write_text(json.dumps(bootstrap))
    return path


@pytest.mark.long
def test_a_killed_monitor_process_is_replaced(tmp_path: Path) -> None:
    with over_tls(tmp_path) as server:
        (listening,) = [pid for pid in children(server.process.pid) if "grpc_log" in command(pid)]
        os.kill(listening, signal.SIGKILL)
        server.until_event("handshakes_unheard")
        shaken(server, tmp_path, None)  # it is not reported, and blocks nothing
        server.until(lambda: any("grpc_log" in command(pid) for pid in children(server.process.pid)))
        server.until(lambda: shaken(server, tmp_path, None) and counted(server, "no_certificate"))
        (listening,) = [pid for pid in children(server.process.pid) if "grpc_log" in command(pid)]
        server.stop(signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while command(listening):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_user_may_read_the_log_of_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRPC_TRACE", "")
    with over_tls(tmp_path) as server:
        assert not [pid for pid in children(server.process.pid) if "grpc_log" in command(pid)]
        assert "admc_tls_refusals_total" not in server.get("/metrics")[1]


@pytest.mark.parametrize(
    ("tls", "chosen", "found"),
    [(True, None, ("handshaker", "INFO")), (True, "http", ("http", "NONE")), (False, None, (None, "NONE"))],
)
def test_core_is_asked_only_as_long_as_it_looks(
    tls: bool, chosen: str | None, found: tuple[str | None, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables affect neither child processes nor later imports in this process."""
    for name, value in (("GRPC_TRACE", chosen), ("GRPC_VERBOSITY", None)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    before = dict(os.environ)
    with grpc_tracing(tls=tls):
        assert (os.environ.get("GRPC_TRACE"), os.environ["GRPC_VERBOSITY"]) == found
    assert dict(os.environ) == before


def children(pid: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def command(pid: int) -> str:
    """Empty if there is no such process any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


# ---- what is written, and what comes of it ----

HEAD = "1122 06:19:34.196226    4061 "
STEP = f"I{HEAD}handshaker.cc:155] CallNextHandshakerLocked: error="
OK = f"{STEP}OK shutdown=false index=0, args={{endpoint=0x7f, args={{}}}}\n"
REFUSED = f"""I{HEAD}ssl_transport_security.cc:2563] Handshake failed with error SSL_ERROR_SSL: error:1: it has expired
{STEP}UNKNOWN: it has expired: OK
=== Source Location Trace: ===
src/core/util/status_helper.cc:68
 shutdown=false index=2, args={{args={{a=1, grpc.internal.endpoint_peer_address=ipv6:%5B::1%5D:39230, b=2}}}}
I{HEAD}channel_trace.h:396] handshake manager 0x7fd7680020b0: Failed with error: UNKNOWN: it has expired: OK
=== Source Location Trace: ===
src/core/util/status_helper.cc:68

"""
FATAL = f"F{HEAD}server.cc:12] Check failed: all is lost\n"


class Parsed:
    """The results of a parser."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []
        self.others: list[tuple[str, str, str]] = []
        self.parser = LogParser(lambda *report: self.failed.append(report), lambda *event: self.others.append(event))


@pytest.mark.parametrize("size", [1, 7, 100, 100_000])
def test_refusals_are_found_in_pieces_of_any_size(size: int) -> None:
    parsed, data = Parsed(), (OK + REFUSED + "Traceback\n" + OK + REFUSED + FATAL).encode()
    for start in range(0, len(data), size):
        parsed.parser.feed(data[start : start + size])
    assert parsed.failed == [("ipv6:%5B::1%5D:39230", "UNKNOWN: it has expired: OK")] * 2
    assert parsed.others == [("error", "", "Traceback"), ("critical", "server.cc:12", "Check failed: all is lost")]


def test_an_error_without_a_peer_and_half_a_line_are_reported() -> None:
    parsed = Parsed()
    parsed.parser.feed(f"{STEP}UNKNOWN: why\n".encode())
    parsed.parser.feed(b"half")
    parsed.parser.pause()
    assert parsed.failed == [("", "UNKNOWN: why")]
    assert parsed.others == [("error", "", "half")]


def test_a_line_without_end_is_not_kept() -> None:
    parsed = Parsed()
    for _ in range(100):
        parsed.parser.feed(b"x" * 10_000)
    assert len(parsed.parser._rest) <= MAX_LINE
    assert sum(len(words) for _, _, words in parsed.others) > 900_000


def test_events_are_short_and_repetition_is_counted() -> None:
    lines: list[bytes] = []
    events = EventWriter(lines.append)
    for _ in range(MAX_REPEATS + 5):
        events.write("error", "a.cc:1", "\x1b\u2028" * MAX_MESSAGE)
    events.write("error", "b.cc:2", "short")
    events.write("error", "", "not of core")
    events.flush()
    found = [json.loads(line) for line in lines]
    assert all(len(line) < 4096 and line.count(b"\n") == 1 and b"\x1b" not in line for line in lines)
    assert [event["message"] for event in found if event.get("place") == "a.cc:1" and "message" in event] == [
        "\x1b\u2028" * (MAX_MESSAGE // 2)
    ] * (2 * MAX_REPEATS)
    assert found[-3]["message"] == "short"
    assert (found[-1]["event"], found[-1]["place"], found[-1]["lines"]) == ("left_out", "a.cc:1", 5)


def test_the_last_lines_of_a_crashed_server_are_passed_on() -> None:
    """The server has already ended when they are read."""
    command = [sys.executable, "-I", "-S", grpc_log.__file__]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate((OK + REFUSED + FATAL).encode(), timeout=SECONDS)
    assert process.returncode == 0
    found = [json.loads(line) for line in errors.splitlines()]
    assert [(event["level"], event["message"]) for event in found] == [
        ("warning", "failed handshake of ipv6:%5B::1%5D:39230: UNKNOWN: it has expired: OK"),
        ("critical", "Check failed: all is lost"),
    ]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "Ssl handshake failed: error:1:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unsuitable",
            "certificate",
        ),
        ("UNKNOWN: Ssl handshake failed: SSL_ERROR_SSL: error:1:OPENSSL_internal:NO_SHARED_CIPHER: x: OK", "other"),
        ("something else", "other"),
    ],
)
def test_an_unknown_error_is_counted_too(said: str, reason: str) -> None:
    assert cause_of(said).reason == reason
    assert reason in REASONS
