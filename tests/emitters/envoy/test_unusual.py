"""Legal but unusual traffic: as without an ADM, or as docs/invisible.md says.

Every test has an ADM at both ends of the call, with policies that do nothing to these requests.
"""

from __future__ import annotations

import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hpack import Encoder

from emitters.addresses import Addresses
from emitters.dial import binds, dials
from tests.emitters.envoy.support import ENVOY, exchange, load, private, requests_of, serving, written
from tests.testbed.client import Target
from tests.testbed.envoys import Envoys

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

CALLS = """
service front { http 8000 }
service back { http 8001 -> 8002 }
service other { http 8003 }
call front -> back, other
"""
LEAVING = """
@egress
policy seen_leaving = request_count() on front -> back
"""
ARRIVING = """
@ingress
policy seen_arriving = request_count() on front -> back
"""
TEXT = CALLS + LEAVING + ARRIVING
GET = b"GET / HTTP/1.1\r\nHost: back\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 2\r\n\r\nok"


class Ways(NamedTuple):
    """The same service, directly and through both ADMs."""

    direct: Target
    through: Target
    envoys: Envoys


@contextmanager
def ways(folder: Path, handler: Callable[[socket.socket], None], text: str = TEXT) -> Iterator[Ways]:
    """`handler` plays the service `back`."""
    program, placement = load(text)
    addresses = private(Addresses.loopback(program))
    (bind,) = [bind for bind in binds(program, placement, addresses) if bind.service == "back"]
    (dial,) = [dial for dial in dials(program, placement, addresses) if dial.destination == "back"]
    assert ENVOY is not None
    with serving(bind.address, bind.port, handler), Envoys(folder, ENVOY) as envoys:
        envoys.start(written(program, placement, addresses, folder))
        yield Ways(
            Target(dial.sender, bind.address, bind.port, "back"),
            Target(dial.sender, dial.address, dial.port, "back"),
            envoys,
        )


# ---- connections that end ----


def _one(target: Target) -> bytes:
    with target.open(10) as connection:
        connection.sendall(GET)
        return connection.recv(65536).split(b"\r\n")[0]


@pytest.mark.parametrize("after", [0.0, 0.01, 0.4], ids=["at once", "10 ms later", "400 ms later"])
def test_a_service_may_close_its_connections_without_a_word(tmp_path: Path, after: float) -> None:
    def close(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(OK)
            time.sleep(after)
            return

    with ways(tmp_path, close) as app:
        for target in app[:2]:
            assert [_one(target) for _ in range(20)] == [b"HTTP/1.1 200 OK"] * 20


def test_a_connection_to_a_service_goes_before_the_service_closes_it(tmp_path: Path) -> None:
    """The service closes what was idle for 2 s. A client asks again on its own connection after that time."""
    opened: list[float] = []

    def serve(connection: socket.socket) -> None:
        opened.append(0.0)
        connection.settimeout(2.0)
        for _ in requests_of(connection):
            connection.sendall(OK)

    with ways(tmp_path, serve) as app, app.through.open(10) as connection:
        for wait in (0.0, 1.997, 2.0):
            time.sleep(wait)
            connection.sendall(GET)
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
    assert len(opened) == 3


def test_where_connections_are_limited_clients_share_them(tmp_path: Path) -> None:
    """Envoy does not apply the limit to the first connection of a pool, so there must not be one for each client."""

    opened: list[float] = []

    def slow(connection: socket.socket) -> None:
        opened.append(0.0)
        for _ in requests_of(connection):
            time.sleep(0.2)
            connection.sendall(OK)

    limit = "policy few = circuit_breaking(max_connections: 1) on front -> back\n"
    with ways(tmp_path, slow, TEXT + limit) as app:
        clients = [app.through.open(10) for _ in range(4)]
        for client in clients:
            client.sendall(GET)
        assert [client.recv(65536).split(b"\r\n")[0] for client in clients] == [b"HTTP/1.1 200 OK"] * 4
        for client in clients:
            client.close()
    assert len(opened) == 1


def test_the_answer_to_a_client_that_closes_its_half_is_lost_as_the_page_says(tmp_path: Path) -> None:
    def slow(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            time.sleep(0.2)
            connection.sendall(OK)

    def ask(target: Target) -> bytes:
        with target.open(10) as connection:
            connection.sendall(GET)
            connection.shutdown(1)
            return connection.recv(65536)

    with ways(tmp_path, slow) as app:
        assert (ask(app.direct), ask(app.through)) == (OK, b"")


# ---- answers ----


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_an_answer_to_a_request_for_a_websocket_is_what_the_page_says(tmp_path: Path, status: int) -> None:
    answer = f"HTTP/1.1 {status} So\r\nDate: x\r\nX-Own: 1\r\nContent-Length: 5\r\n\r\nhello".encode()

    def refuse(connection: socket.socket) -> None:
        for _ in requests_of(connection):
            connection.sendall(answer)

    ask = b"GET / HTTP/1.1\r\nHost: back\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with ways(tmp_path, refuse) as app:
        got = exchange(app.through, ask)
    head, _, body = got.partition(b"\r\n\r\n")
    assert head.split()[1] == str(status).encode()
    assert b"x-own: 1" in head.lower()
    assert body == (b"" if status < 400 else b"hello")


def test_a_part_is_not_compressed(tmp_path: Path) -> None:
    body = b"a" * 2000

    def part(connection: socket.socket) -> None:
        for head in requests_of(connection):
            status = head.split()[1][1:]
            fields = b"Content-Range: bytes 0-1999/9999\r\n" if status == b"206" else b""
            connection.sendall(
                b"HTTP/1.1 "
                + status
                + b" So\r\nContent-Type: text/plain\r\n"
                + fields
                + b"Content-Length: 2000\r\n\r\n"
                + body
            )

    for side in ("egress", "ingress"):
        folder = tmp_path / side
        folder.mkdir()
        with ways(folder, part, TEXT + f"@{side}\npolicy small = compression() on front -> back\n") as app:
            ask = b"GET /%d HTTP/1.1\r\nHost: back\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
            whole, piece = (exchange(app.through, ask % status) for status in (200, 206))
        assert b"content-encoding: gzip" in whole
        assert b"content-encoding" not in piece.lower()
        assert piece.endswith(b"\r\n\r\n" + body)


def test_a_limited_answer_is_repeated_and_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """Envoy repeats no request that was answered with `x-envoy-ratelimited`, whoever sent that."""
    answers: list[bytes] = []
    again = b"HTTP/1.1 503 So\r\nDate: x\r\nX-Envoy-RateLimited: true\r\nContent-Length: 0\r\n\r\n"
    good = again.replace(b"503", b"200")

    def limit(connection: socket.socket) -> None:
        for head in requests_of(connection):
            answers.append(head)
            connection.sendall(again if len(answers) < 3 or b"/always" in head else good)

    retry = "policy again = retry(attempts: 3, backoff: 1ms) on front -> back\n"
    seen = 'policy marked = set_response_header(name: "x-seen", value: "1") on front -> back\n'
    with ways(tmp_path, limit, CALLS + seen + retry + ARRIVING) as app:
        first = exchange(app.through, GET)
        assert len(answers) == 3
        last = exchange(app.through, GET.replace(b"GET /", b"GET /always"))
        assert len(answers) == 6
    for got, sent in ((first, good), (last, again)):
        assert sorted(got.split(b"\r\n")) == sorted([*sent.split(b"\r\n"), b"x-seen: 1"])


def test_the_names_of_headers_of_copies_become_lower_case_as_the_page_says(tmp_path: Path) -> None:
    """Those of the request itself do not, and neither do those of another attempt."""
    heads: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        for head in requests_of(connection):
            heads.append(head)
            connection.sendall(OK.replace(b"200", b"503"))

    text = CALLS + (
        "policy copied = mirror(to: back) on front -> other\n"
        "policy again = retry(attempts: 2, backoff: 1ms) on front -> other\n"
    )
    program, placement = load(text)
    addresses = private(Addresses.loopback(program))
    places = {bind.service: bind for bind in binds(program, placement, addresses)}
    (dial,) = [dial for dial in dials(program, placement, addresses) if dial.destination == "other"]
    originals: list[bytes] = []

    def original(connection: socket.socket) -> None:
        for head in requests_of(connection):
            originals.append(head)
            connection.sendall(OK.replace(b"200", b"503"))

    assert ENVOY is not None
    with (
        serving(places["back"].address, places["back"].port, serve),
        serving(places["other"].address, places["other"].port, original),
        Envoys(tmp_path, ENVOY) as envoys,
    ):
        envoys.start(written(program, placement, addresses, tmp_path))
        exchange(Target(dial.sender, dial.address, dial.port, ""), GET.replace(b"\r\n\r\n", b"\r\nX-Mixed: 1\r\n\r\n"))
        time.sleep(0.3)
    assert [b"X-Mixed: 1" in head for head in originals] == [True, True]
    assert heads
    assert all(b"x-mixed: 1" in head for head in heads)


# ---- HTTP/2 frames that ask for nothing ----


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW = 0, 1, 2, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0)
MANY = 5_000
ADD = struct.pack(">I", 1)


def _head(stream: int, method: str = "POST", flags: int = END_HEADERS) -> bytes:
    fields = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "back")]
    return frame(HEADERS, flags, stream, Encoder().encode(fields))


def _frames(connection: socket.socket, until: Callable[[int, int, bytes], bool]) -> bool:
    """Read frames until one fits; False where the connection ends before."""
    data = b""
    connection.settimeout(20)
    while True:
        while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
            kind, flags, stream = data[3], data[4], int.from_bytes(data[5:9], "big")
            if until(kind, stream, bytes([flags]) + data[9:size]):
                return True
            data = data[size:]
        try:
            part = connection.recv(65536)
        except ConnectionError:
            return False
        if not part:
            return False
        data += part


def _plain_http_2(connection: socket.socket, before: bytes = b"") -> None:
    """Answers every stream that has ended with 200; frames of its own come in front of the first answer."""
    connection.sendall(frame(SETTINGS, 0, 0))
    data = b""
    while b"SM\r\n\r\n" not in data:
        data += connection.recv(65536)
    data = data.partition(b"SM\r\n\r\n")[2]
    while True:
        while len(data) >= 9 and len(data) >= (size := 9 + int.from_bytes(data[:3], "big")):
            kind, flags, stream = data[3], data[4], int.from_bytes(data[5:9], "big")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                connection.sendall(frame(HEADERS, END_HEADERS, stream, Encoder().encode([(":status", "200")])))
                connection.sendall(before.replace(b"STRM", struct.pack(">I", stream)) + frame(DATA, END_STREAM, stream))
                before = b""
            elif kind in (SETTINGS, PING) and not flags & ACK:
                connection.sendall(frame(kind, ACK, 0, data[9:size]))
            data = data[size:]
        part = connection.recv(65536)
        if not part:
            return
        data += part


END = frame(DATA, END_STREAM, 1)
ODD = {
    "empty DATA": _head(1) + frame(DATA, 0, 1) * MANY + END,
    "PRIORITY": _head(1) + frame(PRIORITY, 0, 1, b"\0\0\0\0\x10") * MANY + END,
    "PING": _head(1) + frame(PING, 0, 0, b"12345678") * MANY + END,
    "SETTINGS": _head(1) + frame(SETTINGS, 0, 0) * MANY + END,
    "resets": b"".join(
        _head(stream, "GET", END_HEADERS | END_STREAM) + frame(RESET, 0, stream, b"\0\0\0\x08")
        for stream in range(3, 2 * 1000 + 3, 2)
    )
    + _head(2 * 1000 + 3, "GET", END_HEADERS | END_STREAM),
}


def _answered(target: Target, sent: bytes, last: int = 1) -> bool:
    with target.open(20) as connection:
        connection.sendall(PREFACE + sent)
        return _frames(connection, lambda kind, stream, rest: (kind, stream) == (HEADERS, last))


@pytest.mark.parametrize("name", list(ODD))
def test_frames_that_ask_for_nothing_cut_no_connection(tmp_path: Path, name: str) -> None:
    with ways(tmp_path, _plain_http_2) as app:
        for target in app[:2]:
            assert _answered(target, ODD[name], 2003 if name == "resets" else 1)


BACK = {
    "empty DATA": frame(DATA, 0, 0)[:5] + b"STRM",
    "PRIORITY": frame(PRIORITY, 0, 0, b"12345")[:5] + b"STRM\0\0\0\0\x10",
    "PING": frame(PING, 0, 0, b"12345678"),
    "SETTINGS": frame(SETTINGS, 0, 0),
}


@pytest.mark.parametrize("name", list(BACK))
def test_nor_do_those_of_a_service(tmp_path: Path, name: str) -> None:
    with (
        ways(tmp_path, lambda connection: _plain_http_2(connection, BACK[name] * MANY)) as app,
        app.through.open(20) as ask,
    ):
        ask.sendall(PREFACE + _head(1, "GET", END_HEADERS | END_STREAM))
        assert _frames(ask, lambda kind, stream, rest: (kind, stream, rest[:1]) == (DATA, 1, bytes([END_STREAM])))


@pytest.mark.parametrize(("count", "answered"), [(5, True), (50, False)])
def test_window_updates_before_the_answer_are_counted_as_the_page_says(
    tmp_path: Path, count: int, answered: bool
) -> None:
    with ways(tmp_path, _plain_http_2) as app:
        updates = _head(1) + frame(WINDOW, 0, 1, ADD) * count + END
        assert _answered(app.direct, updates)
        assert _answered(app.through, updates) is answered
