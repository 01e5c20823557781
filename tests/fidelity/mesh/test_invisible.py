"""Where no policy has an effect, an application as compiled behaves as without a mesh.

The same conversations twice, every one through the ADMs of both ends: what arrived at the service and what came back is
compared byte by byte. What may differ all the same is listed in docs/invisible.md.
"""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, NamedTuple

import pytest

import dsl
from solver.place import place
from tests.fidelity.mesh.conversing import (
    ANSWER,
    LONG,
    STEP,
    STEPS,
    Heard,
    Server,
    all_of,
    at_once,
    dripping,
    one_after,
    said,
)
from tests.testbed.mesh import Family, Mesh, Mode
from tests.testbed.mesh.needed import AS_COMPILED_LONG, NEEDS_MESH

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

pytestmark = [pytest.mark.long, NEEDS_MESH]

# Policies without an effect: their matches hold for no request here, and no client opens so many connections.
TEXT = """\
app invisible
service front { http 80 }
service back  { http web 80 -> 8080  tcp raw 70 -> 7070 }
call front -> back:web, back:raw
@egress
policy out_web = deny() on front -> back:web when header("x-bite") == "1"
@ingress
policy in_web  = deny() on front -> back:web when header("x-bite") == "1"
@egress
policy out_raw = connection_rate_limit(connections: 1000000, per: 1s) on front -> back:raw
@ingress
policy in_raw  = connection_rate_limit(connections: 1000000, per: 1s) on front -> back:raw
"""
PARALLEL = 2000
FILES = 20_000
"""Open files that 2,000 connections need at each of two ADMs, a client and a server."""
SLOWLY = STEP * (STEPS - 1) - 2
"""Seconds that what drips is spread over at least; the first and the last may be late."""


class Both(NamedTuple):
    """What each end of each conversation heard."""

    server: dict[str, Heard]
    client: dict[str, Heard]


@pytest.fixture(scope="module", autouse=True)
def enough_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _bed(mode: Mode) -> Mesh:
    program = dsl.load_text(TEXT)
    return Mesh(program, place(program) if mode is not Mode.NONE else None, mode, echoes=False)


async def _served(
    mesh: Mesh,
    port: int,
    handler: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    family: Family = Family.IPV4,
) -> asyncio.Server:
    listener = mesh.listen("back", port, family=family)
    listener.setblocking(False)
    return await asyncio.start_server(handler, sock=listener, limit=1 << 20, backlog=4096)


def _dial(mesh: Mesh, port: int, family: Family = Family.IPV4) -> socket.socket:
    return mesh.connect("front", mesh.address("back", family=family), port)


def _get(path: str, *lines: str, version: str = "1.1") -> bytes:
    fields = [f"GET {path}?{path.strip('/')} HTTP/{version}", *(["Host: back"] if version == "1.1" else []), *lines]
    return "\r\n".join([*fields, "", ""]).encode()


ODD = (
    "X-Mixed-Case: Yes", "x-envoy-retry-on: 5xx", "x-envoy-upstream-rq-timeout-ms: 1", "X-Forwarded-For: 1.2.3.4",
    "X-Request-Id: mine", "Via: me", "Cookie: a=1", "Cookie: b=2", "under_score: 1", "empty: ", "Accept-Encoding: gzip",
)  # fmt: skip


def _conversations(mesh: Mesh) -> dict[str, Coroutine[None, None, Heard]]:
    upload = b"POST /upload?upload HTTP/1.1\r\nHost: back\r\nContent-Length: %d\r\n\r\n" % STEPS
    chunked = b"POST /trailers?trailers HTTP/1.1\r\nHost: back\r\nTransfer-Encoding: chunked\r\nTrailer: x-end\r\n\r\n"
    waiting = b"POST /continue?continue HTTP/1.1\r\nHost: back\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    return {
        "plain": said(_dial(mesh, 80), at_once(_get("/plain"))),
        "odd": said(_dial(mesh, 80), at_once(_get("/odd", *ODD))),
        "paths": said(_dial(mesh, 80), at_once(b"GET /a//b/../c%2Fd/./%zz?paths HTTP/1.1\r\nHost: X.y:8\r\n\r\n")),
        "long": said(_dial(mesh, 80), at_once(_get("/long"))),
        "drip": said(_dial(mesh, 80), at_once(_get("/drip"))),
        "silence": said(_dial(mesh, 80), at_once(_get("/silence"))),
        "upload": said(_dial(mesh, 80), dripping(upload, STEPS)),
        "trailers": said(_dial(mesh, 80), at_once(chunked, b"3\r\nabc\r\n0\r\nx-end: 3\r\n\r\n")),
        "continue": said(_dial(mesh, 80), one_after(1.0, waiting, b"abc")),
    }


async def _http(mode: Mode) -> Both:
    with _bed(mode) as mesh:
        played = Server()
        server = await _served(mesh, 8080, played.serve)
        async with asyncio.timeout(90):
            client = await all_of(_conversations(mesh))
        server.close()
        return Both(played.heard, client)


async def _twice() -> tuple[Both, Both]:
    direct, through = await asyncio.gather(_http(Mode.NONE), _http(Mode.COMPILED))
    return direct, through


def _head(heard: Heard) -> tuple[bytes, tuple[bytes, ...]]:
    """The first line, and all others in an order of their own: between different names it means nothing."""
    first, *rest = heard.head.rstrip(b"\r\n").split(b"\r\n")
    return first, tuple(sorted(rest))


def test_conversations_are_the_same_at_both_ends() -> None:
    direct, through = asyncio.run(_twice())
    assert direct.client["plain"].head + b"ok" == ANSWER
    for name in direct.client:
        for there, here in zip(through, direct, strict=True):
            assert _head(there[name]) == _head(here[name]), name
            assert (there[name].length, there[name].digest) == (here[name].length, here[name].digest), name
    for heard in (direct, through):
        assert heard.client["long"].length == LONG
        assert heard.client["drip"].spread > SLOWLY  # each piece as it comes, not all at the end
        assert heard.server["upload"].spread > SLOWLY
        assert heard.client["continue"].head.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")


@pytest.fixture(scope="module", params=AS_COMPILED_LONG)
def compiled(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    with _bed(request.param) as mesh:
        yield mesh


def test_what_speaks_http_1_0_at_either_end_is_understood(compiled: Mesh) -> None:
    async def both() -> Both:
        played = Server()
        async with await _served(compiled, 8080, played.serve):
            old = await said(_dial(compiled, 80), at_once(_get("/old", version="1.0")), until_close=True)
            closing = at_once(_get("/until-close", "Connection: close"))
            return Both(played.heard, {"old": old, "until-close": await said(_dial(compiled, 80), closing)})

    heard = asyncio.run(asyncio.wait_for(both(), 30))
    assert heard.client["old"].body.startswith(b"HTTP/1.0 200 Fine Indeed\r\n")
    assert heard.client["old"].body.endswith(b"\r\n\r\nok")
    assert heard.server["old"].head.startswith(b"GET /old?old HTTP/1.1\r\n")
    assert b"until it closes" in heard.client["until-close"].body
    assert heard.client["until-close"].head.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize("family", list(Family))
def test_a_websocket_is_a_tunnel(compiled: Mesh, family: Family) -> None:
    async def talk() -> list[bytes]:
        played = Server()
        async with await _served(compiled, 8080, played.serve, family):
            opened = _dial(compiled, 80, family)
            opened.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=opened)
            writer.write(_get("/tunnel", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x"))
            found = [(await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]]
            for word in (b"hello", b"a" * 100_000):
                writer.write(word)
                found.append(await reader.readexactly(len(word)))
            writer.write_eof()
            found.append(await reader.read())
            writer.close()
            return found

    found = asyncio.run(asyncio.wait_for(talk(), 30))
    assert found == [b"HTTP/1.1 101 Switching Protocols", b"HELLO", b"A" * 100_000, b""]


@pytest.mark.parametrize("family", list(Family))
def test_a_half_closed_connection_goes_on_in_the_other_direction(compiled: Mesh, family: Family) -> None:
    """First the client says that it has said everything, and then, on another connection, the server."""
    much = b"answer--" * 200_000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readline()
        if first == b"client first\n":
            said = await reader.read()
            await asyncio.sleep(0.3)
            writer.write(said.upper() + much)
        else:
            writer.write(much)
            writer.write_eof()
            heard.append(await reader.read())
        await writer.drain()
        writer.close()

    async def talk() -> tuple[bytes, bytes]:
        async with await _served(compiled, 7070, serve, family):
            ends = []
            for _ in range(2):
                opened = _dial(compiled, 70, family)
                opened.setblocking(False)
                ends.append(await asyncio.open_connection(sock=opened))
            (reader, writer), (other, back) = ends
            writer.write(b"client first\nquestion")
            writer.write_eof()
            first = await reader.read()
            back.write(b"server first\n")
            second = await other.read()  # the server has said everything, and still listens
            await asyncio.sleep(0.3)
            back.write(b"still here")
            back.write_eof()
            while not heard:
                await asyncio.sleep(0.01)
            writer.close()
            back.close()
            return first, second

    heard: list[bytes] = []
    first, second = asyncio.run(asyncio.wait_for(talk(), 30))
    assert first == b"QUESTION" + much
    assert second == much
    assert heard == [b"still here"]


def test_two_thousand_requests_at_once_are_two_thousand_requests(compiled: Mesh) -> None:
    """The service answers none before all of them have arrived."""

    async def ask() -> list[Heard]:
        played = Server()
        played.expected = PARALLEL
        async with await _served(compiled, 8080, played.serve):
            dialled = [await asyncio.to_thread(_dial, compiled, 80) for _ in range(PARALLEL)]
            return await asyncio.gather(*(said(each, at_once(_get("/together"))) for each in dialled))

    heard = asyncio.run(asyncio.wait_for(ask(), 60))
    assert {each.head.split(b"\r\n")[0] for each in heard} == {b"HTTP/1.1 200 OK"}
    assert len(heard) == PARALLEL
