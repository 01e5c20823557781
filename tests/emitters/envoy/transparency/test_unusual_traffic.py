"""Legal but unusual traffic: as without an ADM, or as docs/invisible.md says.

Every test has an ADM at both ends of the call, with policies that do nothing to these requests.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Target
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy.held_headers import RATE_LIMITED
from tests.emitters.envoy.both_ends import ARRIVING, CALLS, GET, OK, TEXT, ways
from tests.emitters.envoy.support import ENVOY, exchange, load, private, requests_of, serving, written

if TYPE_CHECKING:
    import socket
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

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
    """The service closes what was idle for 2 s. A client asks again on its own connection before that, and then."""
    opened: list[float] = []

    def serve(connection: socket.socket) -> None:
        opened.append(0.0)
        connection.settimeout(2.0)
        for _ in requests_of(connection):
            connection.sendall(OK)

    with ways(tmp_path, serve) as app, app.through.open(10) as connection:
        for wait in (0.0, 1.5, 2.0):
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
    assert b"connection: close" in head
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


@pytest.mark.parametrize("side", ["egress", "ingress"])
def test_a_request_that_was_held_back_has_a_length_and_no_trailers_as_the_page_says(tmp_path: Path, side: str) -> None:
    arrived: list[bytes] = []

    def note(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"abc"):
            data += connection.recv(65536)
        connection.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            data += connection.recv(65536)
        arrived.append(data)
        connection.sendall(OK)

    sent = b"POST / HTTP/1.1\r\nHost: back\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx-end: 3\r\n\r\n"
    held = f"@{side}\npolicy held = buffer_limit(max: 1KB) on front -> back\n"
    with ways(tmp_path, note, CALLS + held + ARRIVING) as app:
        assert exchange(app.through, sent) == OK
    assert arrived == [b"POST / HTTP/1.1\r\nHost: back\r\ncontent-length: 3\r\n\r\nabc"]


def test_a_limited_answer_is_repeated_and_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """By itself, Envoy repeats no request that was answered with this header, from a proxy or a service."""
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


@pytest.mark.parametrize("name", ["x-envoy-ratelimited", RATE_LIMITED], ids=["its own name", "the name that is obeyed"])
def test_so_is_one_of_a_service_that_a_share_goes_to(tmp_path: Path, name: str) -> None:
    heads: list[bytes] = []
    limited = f"HTTP/1.1 503 So\r\nDate: x\r\n{name}: true\r\nContent-Length: 0\r\n\r\n".encode()

    def limit(connection: socket.socket) -> None:
        for head in requests_of(connection):
            heads.append(head)
            connection.sendall(limited)

    policies = (
        "policy again = retry(attempts: 2, backoff: 1ms) on front -> other\n"
        "policy moved = split(to: back, percent: 100%) on front -> other\n"
    )
    with ways(tmp_path, limit, CALLS + policies, dialled="other") as app:
        got = exchange(app.through, GET)
    assert len(heads) == 2
    # A service has no use for a name of the proxy's own, and gets no other header shown by it.
    arrives = limited if name != RATE_LIMITED else limited.replace(f"{name}: true\r\n".encode(), b"")
    assert sorted(got.split(b"\r\n")) == sorted(arrives.split(b"\r\n"))


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
    addresses = private(loopback(program))
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
