"""Where no policy applies, neither a client nor a service notices the ADM between them.

The same bytes are sent to a service directly and through the ADMs of both ends, and what arrives on either side is
compared byte for byte. What differs all the same is listed in docs/invisible.md.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Request, Target, grpc_call, h2c
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy.held_headers import CONTROL, HELD
from tests.emitters.envoy.support import ENVOY, RawServer, exchange, load, private, running, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

# Two policies that change nothing, so that both ends have an ADM.
TEXT = """
external internet
service front { http 8000 }
service back { http 8001 -> 8002 }
call front -> back
@egress
policy seen_leaving = request_count() on front -> back
@ingress
policy seen_arriving = request_count() on front -> back
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ANSWER_HEADERS = _words(
    "x-envoy-upstream-service-time x-envoy-overloaded x-envoy-degraded x-envoy-ratelimited "
    "x-envoy-attempt-count x-envoy-immediate-health-check-fail x-envoy-decorator-operation "
    "x-forwarded-for x-request-id x-ratelimit-limit via alt-svc strict-transport-security "
    "x-powered-by X-Mixed-Case under_score set-cookie"
)
ANSWER = (
    b"HTTP/1.1 200 Fine Indeed\r\nServer: the-app/1\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\n"
    + b"".join(f"{name}: 1\r\n".encode() for name in ANSWER_HEADERS)
    + b"set-cookie: second\r\nContent-Length: 2\r\n\r\nok"
)
REQUEST_HEADERS = _words(
    "x-envoy-expected-rq-timeout-ms x-envoy-force-trace x-envoy-hedge-on-per-try-timeout "
    "x-envoy-internal x-envoy-ip-tags x-envoy-max-retries x-envoy-original-url "
    "x-envoy-retriable-header-names x-envoy-retriable-status-codes x-envoy-retry-grpc-on "
    "x-envoy-retry-on x-envoy-upstream-alt-stat-name x-envoy-upstream-rq-per-try-timeout-ms "
    "x-envoy-upstream-rq-timeout-alt-response x-envoy-upstream-rq-timeout-ms "
    "x-envoy-upstream-stream-duration-ms x-envoy-attempt-count x-envoy-decorator-operation "
    "x-envoy-downstream-service-cluster x-envoy-external-address x-envoy-original-path "
    "x-envoy-original-dst-host x-envoy-fault-delay-request x-forwarded-for x-forwarded-proto "
    "x-forwarded-host x-forwarded-port x-request-id x-client-trace-id x-b3-traceid traceparent "
    "x-forwarded-client-cert forwarded via grpc-timeout authorization cookie x-ot-span-context "
    "cdn-loop X-Mixed-Case under_score date server content-encoding accept-encoding"
)


@dataclass
class Ways:
    """The same service, directly and through both ADMs."""

    server: RawServer
    direct: Target
    through: Target

    def compare(self, raw: bytes) -> tuple[bytes, bytes]:
        """What arrived at the service and what came back; asserts that both ways agree."""
        found = []
        for way in (self.direct, self.through):
            self.server.received.clear()
            answer = exchange(way, raw)
            found.append((b"".join(self.server.received), answer))
        assert found[1] == found[0]
        return found[0]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("invisible")
    program, placement = load(TEXT)
    addresses = private(loopback(program))
    paths = written(program, placement, addresses, folder)
    assert set(paths) == {"front", "back"}
    (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
    (dial,) = dials(program, placement, addresses)
    assert ENVOY is not None
    with RawServer(bind.address, bind.port, ANSWER) as server, Envoys(folder, ENVOY) as envoys:
        envoys.start(paths)
        yield Ways(
            server,
            Target(dial.sender, bind.address, bind.port, ""),
            Target(dial.sender, dial.address, dial.port, ""),
        )


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a//b/../c%2Fd/./%zz?q=%00&r HTTP/1.1\r\nHost: X.y:8\r\nFooBar: 1\r\nCookie: a=1\r\nCookie: b=2\r\n\r\n",
        b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\nabc",
        b"DELETE / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"QUERY / HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nabc",
        b"TRACE / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"h%d: 1\r\n" % number for number in range(500)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBig: " + b"b" * 200_000 + b"\r\n\r\n",
    ],
    ids=["plain", "paths", "expect", "delete", "query", "trace", "long path", "many headers", "large header"],
)
def test_requests_and_answers_are_the_same_bytes(ways: Ways, raw: bytes) -> None:
    arrived, answer = ways.compare(raw)
    assert arrived == raw
    assert answer == ANSWER


@pytest.mark.parametrize("method", ["FOO", "OPTIONS", "PATCH", "POST", "PUT"])
def test_a_request_that_could_have_a_body_says_that_it_has_none(ways: Ways, method: str) -> None:
    ways.server.received.clear()
    raw = f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert exchange(ways.through, raw) == ANSWER
    assert ways.server.received == [raw.replace(b"x\r\n", b"x\r\ncontent-length: 0\r\n", 1)]


@pytest.mark.parametrize("protocol", ["foo", "h2c", "TLS/1.0", "web"])
def test_an_upgrade_to_an_unknown_protocol_does_not_arrive(ways: Ways, protocol: str) -> None:
    ways.server.received.clear()
    asked = f"Connection: Upgrade\r\nUpgrade: {protocol}\r\n".encode()
    assert exchange(ways.through, b"GET / HTTP/1.1\r\nHost: x\r\n" + asked + b"\r\n") == ANSWER
    assert ways.server.received == [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"]


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /#a HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"QUERY / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", b"400"),
        (b"GET /\xc3\xa9 HTTP/1.1\r\nHost: x\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", b"501"),
    ],
)
def test_what_envoy_refuses_by_itself_is_what_the_page_says(ways: Ways, raw: bytes, status: bytes) -> None:
    ways.server.received.clear()
    assert exchange(ways.through, raw).split()[1] == status
    assert ways.server.received == []


CHUNKED = b"HTTP/1.1 200 Fine Indeed\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
SHORT = b"HTTP/1.1 200 Fine Indeed\r\nDate: x\r\nContent-Length: 2\r\n\r\nok"
HINT = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
BROKEN = b"HTTP/1.1 502 Bad Gateway\r\n"


@pytest.mark.parametrize(
    ("sent", "comes"),
    [
        (SHORT.replace(b"Fine Indeed", b""), SHORT.replace(b"Fine Indeed", b"OK")),
        (SHORT.replace(b"Date", b"Connection: close\r\nDate"), SHORT),
        (SHORT.replace(b"Date", b"Connection: X-A\r\nX-A: 1\r\nDate"), SHORT.replace(b"Date", b"X-A: 1\r\nDate")),
        (SHORT.replace(b"Date", b"Connection: Upgrade\r\nUpgrade: h2c\r\nDate"), SHORT),
        (SHORT.replace(b"Date", b"X-A: 1\r\n 2\r\nDate"), SHORT.replace(b"Date", b"X-A: 1 2\r\nDate")),
        (
            b"HTTP/1.1 204 Fine Indeed\r\nDate: x\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 204 Fine Indeed\r\nDate: x\r\n\r\n",
        ),
        (CHUNKED.replace(b"2\r\nok", b"2;a=b\r\nok"), CHUNKED),
        (CHUNKED.replace(b"Date", b"Content-Length: 2\r\nDate"), BROKEN),
        (SHORT.replace(b"Date", b"Content-Length: 2\r\nDate"), BROKEN),
        (CHUNKED.replace(b"chunked", b"gzip, chunked"), BROKEN),
        (SHORT.replace(b"Date: x", b"Date: x\r\nDate: y"), SHORT.replace(b"Date: x", b"Date: x,y")),
        (HINT + SHORT, HINT + SHORT),
        (HINT + HINT + SHORT, HINT + SHORT),
        (HINT.replace(b"103", b"199") + SHORT, SHORT),
    ],
    ids=[
        "no reason", "close", "named by connection", "upgrade", "folded", "length of nothing", "chunk extension",
        "two framings", "two lengths", "two codings", "two dates", "hint", "two hints", "unknown hint",
    ],
)  # fmt: skip
def test_what_becomes_of_an_answer_is_what_the_page_says(ways: Ways, sent: bytes, comes: bytes) -> None:
    ways.server.answer = sent
    try:
        answer = exchange(ways.through, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    finally:
        ways.server.answer = ANSWER
    if comes is BROKEN:
        assert answer.startswith(BROKEN)
    else:
        assert sorted(answer.split(b"\r\n")) == sorted(comes.split(b"\r\n"))


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (b"Connection: close\r\n", b""),
        (b"Connection: X-A\r\nX-A: 1\r\n", b""),
        (b"TE: trailers, gzip\r\n", b"TE: trailers\r\n"),
        (b"Connection: TE\r\nTE: trailers\r\n", b"TE: trailers\r\n"),
        (b"X-A: 1\r\n 2\r\n", b"X-A: 1 2\r\n"),
        (b"X-L: caf\xe9\r\n!#$%&'*+-.^_`|~: 1\r\n", b"X-L: caf\xe9\r\n!#$%&'*+-.^_`|~: 1\r\n"),
    ],
    ids=["close", "named by connection", "te", "te that is named", "folded", "odd letters"],
)
def test_what_becomes_of_a_request_is_what_the_page_says(ways: Ways, sent: bytes, arrives: bytes) -> None:
    ways.server.received.clear()
    assert exchange(ways.through, b"GET / HTTP/1.1\r\nHost: x\r\n" + sent + b"\r\n")
    assert ways.server.received == [b"GET / HTTP/1.1\r\nHost: x\r\n" + arrives + b"\r\n"]


def test_headers_that_envoy_would_obey_or_remove_are_headers_like_any_other(ways: Ways) -> None:
    lines = "".join(f"{name}: {index}\r\n" for index, name in enumerate(REQUEST_HEADERS))
    raw = f"GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode()
    ways.server.received.clear()
    assert exchange(ways.through, raw) == ANSWER
    (arrived,) = ways.server.received
    # Their order among the others may change: between different names it means nothing.
    assert sorted(arrived.lower().split(b"\r\n")) == sorted(raw.lower().split(b"\r\n"))


@pytest.mark.parametrize(
    ("values", "arrives"),
    [(("",), []), (("a", "b"), [b"a,b"]), (("a, b",), [b"a, b"]), (("", "b"), [b"b"])],
    ids=["empty", "two lines", "one line", "one of two empty"],
)
def test_what_becomes_of_the_values_of_the_held_header_is_what_the_page_says(
    ways: Ways, values: tuple[str, ...], arrives: list[bytes]
) -> None:
    lines = "".join(f"{HELD}: {value}\r\n" for value in values)
    ways.server.received.clear()
    assert exchange(ways.through, f"GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
    (arrived,) = ways.server.received
    fields = [line.partition(b": ") for line in arrived.split(b"\r\n")[1:] if line]
    assert [value for key, _, value in fields if key.lower() == HELD.encode()] == arrives


def test_no_client_can_order_a_retry_or_a_timeout(ways: Ways) -> None:
    ways.server.received.clear()
    ways.server.answer = b"HTTP/1.1 503 No\r\nContent-Length: 0\r\nDate: x\r\n\r\n"
    try:
        for prefix, arrive in (("x-envoy", True), (CONTROL, False)):
            orders = {"retry-on": "5xx", "max-retries": "3", "upstream-rq-timeout-ms": "1"}
            lines = "".join(f"{prefix}-{name}: {value}\r\n" for name, value in orders.items()).encode()
            answer = exchange(ways.through, b"GET / HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")
            assert answer == ways.server.answer
            (request,) = ways.server.received
            assert (lines in request) is arrive
            assert arrive or prefix.encode() not in request
            ways.server.received.clear()
    finally:
        ways.server.answer = ANSWER


def test_a_client_that_speaks_tls_to_a_port_of_http_gets_400(ways: Ways) -> None:
    """`check` warns of such a declaration (`ADM432`)."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="api.example")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    ways.server.received.clear()
    assert exchange(ways.through, outgoing.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert ways.server.received == []


def test_http_1_0(ways: Ways) -> None:
    assert exchange(ways.through, b"GET /old HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 Fine Indeed\r\n")
    assert ways.server.received[-1].startswith(b"GET /old HTTP/1.1\r\n")


def test_a_connection_that_changes_its_protocol_is_a_tunnel(tmp_path: Path) -> None:
    raw = b"GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    program, placement = load(TEXT)
    addresses = private(loopback(program))
    paths = written(program, placement, addresses, tmp_path)
    (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
    (dial,) = dials(program, placement, addresses)
    agreed = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(agreed)
            while data := connection.recv(65536):
                connection.sendall(data.upper())

    assert ENVOY is not None
    with socket.create_server((bind.address, bind.port)) as listener, Envoys(tmp_path, ENVOY) as envoys:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        envoys.start(paths)
        with socket.create_connection((dial.address, dial.port), 5, (dial.sender, 0)) as client:
            client.sendall(raw)
            head = client.recv(65536)
            assert head.split(b"\r\n")[0] == agreed.split(b"\r\n")[0]
            client.sendall(b"hello")
            assert client.recv(65536) == b"HELLO"


@pytest.mark.long
def test_no_breaker_trips_at_a_thousand_requests(ways: Ways) -> None:
    """Envoy by itself lets 1,024 requests through at a time."""
    count = 1_100
    arrived = 0
    all_arrived = asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        await reader.readuntil(b"\r\n\r\n")
        arrived += 1
        if arrived == count:
            all_arrived.set()
        await all_arrived.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def ask(dial: Target) -> bytes:
        reader, writer = await asyncio.open_connection(dial.address, dial.port, local_addr=(dial.source, 0))
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        line = await reader.readline()
        writer.close()
        return line

    async def all_at_once(folder: Path) -> list[bytes]:
        program, placement = load(TEXT)
        addresses = private(loopback(program))
        paths = written(program, placement, addresses, folder)
        (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
        (dial,) = dials(program, placement, addresses)
        target = Target(dial.sender, dial.address, dial.port, "")
        assert ENVOY is not None
        server = await asyncio.start_server(hold, bind.address, bind.port, backlog=2048)
        async with server:
            with Envoys(folder, ENVOY) as envoys:
                envoys.start(paths)
                return await asyncio.wait_for(asyncio.gather(*(ask(target) for _ in range(count))), 30)

    import tempfile
    from pathlib import Path as Folder

    with tempfile.TemporaryDirectory() as folder:
        assert set(asyncio.run(all_at_once(Folder(folder)))) == {b"HTTP/1.1 200 OK\r\n"}


def test_the_version_of_http_is_kept(tmp_path: Path) -> None:
    text = TEXT + "service rpc { grpc 8005 }\ncall front -> rpc\npolicy g = request_count() on front -> rpc\n"
    with running(text, tmp_path) as live:
        assert (reply := h2c(live.target("front", "back"), Request())).seen is not None, reply
        assert reply.seen.protocol == "h2c"
        answer = grpc_call(live.target("front", "rpc"), Request("POST", "/s/M", body=b"x"))
        assert answer.label == "OK"
