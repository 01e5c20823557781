"""A raw server and raw clients of an application, for what no client library lets one see or do.

Everything runs on one event loop. The server's behaviour is chosen by the request's path; what reached it is kept byte
by byte, under the name that the client gave the conversation (`?NAME`), and so is what came back.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Coroutine

HEAD_END = b"\r\n\r\n"
LONG = 100 * 1000 * 1000
"""Bytes of the long answer."""
PIECE = b"0123456789abcdef" * 4096
STEP, STEPS = 1.5, 11
"""Seconds between the pieces of what drips, and how many there are: longer than Envoy's own 15 seconds."""
SILENCE = 16.0
"""Seconds without a byte."""
ANSWER = (
    b"HTTP/1.1 200 Fine Indeed\r\nServer: the-app/1\r\nDate: Sat, 01 Jan 2000 00:00:00 GMT\r\nX-Mixed-Case: 1\r\n"
    b"x-envoy-upstream-service-time: 7\r\nset-cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 2\r\n\r\nok"
)


class Heard(NamedTuple):
    """What one end of a conversation got: the head as it is, and of the rest its length and digest."""

    head: bytes
    length: int
    digest: str
    spread: float
    """Seconds between the first byte of the rest and the last."""
    body: bytes = b""
    """The beginning of the rest."""


class Reading:
    """Everything that arrives until the end, or until enough has; long parts are digested, not kept."""

    def __init__(self) -> None:
        self.head = b""
        self.body = bytearray()
        self.length = 0
        self._digest = hashlib.sha256()
        self._first = self._last = 0.0

    def take(self, data: bytes) -> None:
        now = time.monotonic()
        self._first = self._first or now
        self._last = now
        self.length += len(data)
        self._digest.update(data)
        if len(self.body) < 1 << 16:
            self.body += data

    @property
    def heard(self) -> Heard:
        return Heard(self.head, self.length, self._digest.hexdigest(), self._last - self._first, bytes(self.body))


class Server:
    """Plays one service, on sockets of its namespaces."""

    def __init__(self) -> None:
        self.heard: dict[str, Heard] = {}
        self._waiting = 0
        self.expected = 0
        """How many requests to `/together` are held until all are there."""
        self._together = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Requests of one connection, one after another: the caller may keep it."""
        try:
            while True:
                try:
                    head = await reader.readuntil(HEAD_END)
                except asyncio.IncompleteReadError:
                    return
                path, _, name = head.split(b" ", 2)[1].decode().partition("?")
                await self._answer(path, name, head, reader, writer)
                await writer.drain()
                if path in ("/tunnel", "/until-close"):
                    return
        except ConnectionError:
            pass  # a client that goes away is part of some conversations
        finally:
            writer.close()

    async def _answer(
        self, path: str, name: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        reading = Reading()
        reading.head = head
        if b"expect: 100-continue" in head.lower():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        async for data in body(head, reader):
            reading.take(data)
        self.heard[name] = reading.heard
        if path == "/long":
            writer.write(b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: %d\r\n\r\n" % LONG)
            left = LONG
            while left:
                piece = PIECE[: min(left, len(PIECE))]
                left -= len(piece)
                writer.write(piece)
                await writer.drain()
        elif path == "/drip":
            writer.write(b"HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            for number in range(STEPS):
                writer.write(b"1\r\n%c\r\n" % (97 + number))
                await asyncio.sleep(STEP)
            writer.write(b"0\r\n\r\n")
        elif path == "/silence":
            await asyncio.sleep(SILENCE)
            writer.write(ANSWER)
        elif path == "/trailers":
            writer.write(b"HTTP/1.1 200 OK\r\nDate: x\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n")
            writer.write(b"2\r\nok\r\n0\r\nx-sum: 2\r\n\r\n")
        elif path == "/tunnel":
            writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nDate: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            while data := await reader.read(65536):
                writer.write(data.upper())
        elif path == "/until-close":
            writer.write(b"HTTP/1.0 200 OK\r\nDate: x\r\nServer: old\r\n\r\nuntil it closes")
        elif path == "/together":
            self._waiting += 1
            if self._waiting >= self.expected:
                self._together.set()
            await self._together.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(ANSWER)


async def body(head: bytes, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The body after a head, framing and trailers included, as it comes."""
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        while True:
            size = await reader.readuntil(b"\r\n")
            yield size
            length = int(size, 16)
            if length == 0:
                while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
                    yield line
                return
            yield await reader.readexactly(length + 2)
    elif b"content-length: " in fields:
        left = int(fields.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while left:
            data = await reader.read(min(left, 1 << 20))
            if not data:
                return
            left -= len(data)
            yield data


async def said(opened: socket.socket, pieces: AsyncIterator[bytes], *, until_close: bool = False) -> Heard:
    """Send a request in pieces, and read one answer meanwhile (or everything until the end)."""
    opened.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=opened, limit=1 << 20)
    reading = Reading()

    async def send() -> None:
        async for piece in pieces:
            writer.write(piece)
            await writer.drain()

    sending = asyncio.create_task(send())
    try:
        if until_close:
            await sending
            while data := await reader.read(65536):
                reading.take(data)
        else:
            reading.head = await reader.readuntil(HEAD_END)
            if reading.head.startswith(b"HTTP/1.1 100"):
                reading.head += await reader.readuntil(HEAD_END)
            async for data in body(reading.head.rpartition(b"HTTP/")[2], reader):
                reading.take(data)
        await sending
        return reading.heard
    finally:
        sending.cancel()
        writer.close()


async def at_once(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def dripping(head: bytes, letters: int) -> AsyncIterator[bytes]:
    """A request whose body takes its time."""
    yield head
    for number in range(letters):
        await asyncio.sleep(STEP)
        yield b"%c" % (97 + number)


async def one_after(seconds: float, *pieces: bytes) -> AsyncIterator[bytes]:
    """Pieces with a pause after each."""
    for piece in pieces:
        yield piece
        await asyncio.sleep(seconds)


async def all_of(tasks: dict[str, Coroutine[None, None, Heard]]) -> dict[str, Heard]:
    """Every conversation at the same time."""
    found = await asyncio.gather(*tasks.values())
    return dict(zip(tasks, found, strict=True))
