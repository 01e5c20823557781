"""Legal but unusual HTTP/2: as without an ADM, or as docs/invisible.md says."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from hpack import Decoder, Encoder

from tests.emitters.envoy.both_ends import ways
from tests.emitters.envoy.http2_frames import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    frames_until,
)
from tests.emitters.envoy.support import ENVOY

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from admc.testbed.client import Target

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]


# ---- HTTP/2 frames that ask for nothing ----


MANY = 5_000
ADD = struct.pack(">I", 1)


def _head(stream: int, method: str = "POST", flags: int = END_HEADERS) -> bytes:
    fields = [(":method", method), (":scheme", "http"), (":path", "/"), (":authority", "back")]
    return frame(HEADERS, flags, stream, Encoder().encode(fields))


def _answer(flags: int) -> bytes:
    return frame(HEADERS, END_HEADERS | flags, 1, Encoder().encode([(":status", "200")]))


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
                connection.sendall(frame(kind, ACK, 0, data[9:size] if kind == PING else b""))
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
        return frames_until(connection, lambda kind, stream, rest: (kind, stream) == (HEADERS, last))


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


def _through_whole(folder: Path, before: bytes) -> bool:
    """Whether the answer of a service that sends frames in front of its end arrives as the service gave it."""
    found: list[tuple[int, bytes]] = []

    def ended(kind: int, stream: int, rest: bytes) -> bool:
        if (kind, stream) == (HEADERS, 1):
            found.append((kind, dict(Decoder().decode(rest[1:], raw=True))[b":status"]))
        last = stream == 1 and (kind == RESET or (kind == DATA and bool(rest[0] & END_STREAM)))
        if last:
            found.append((kind, b""))
        return last

    with ways(folder, lambda connection: _plain_http_2(connection, before)) as app, app.through.open(20) as ask:
        ask.sendall(PREFACE + _head(1, "GET", END_HEADERS | END_STREAM))
        assert frames_until(ask, ended)
    return found == [(HEADERS, b"200"), (DATA, b"")]


@pytest.mark.parametrize("name", list(BACK))
def test_nor_do_those_of_a_service(tmp_path: Path, name: str) -> None:
    assert _through_whole(tmp_path, BACK[name] * MANY)


@pytest.mark.parametrize(("name", "count", "whole"), [("empty DATA", 10_001, False), ("WINDOW_UPDATE", 6, True),
    ("WINDOW_UPDATE", 50, False)])  # fmt: skip
def test_those_of_a_service_have_the_bounds_of_the_page(tmp_path: Path, name: str, count: int, whole: bool) -> None:
    frames = {**BACK, "WINDOW_UPDATE": frame(WINDOW, 0, 0, ADD)}
    assert _through_whole(tmp_path, frames[name] * count) is whole


REFUSED, CANCEL = 7, 8


@pytest.mark.parametrize(
    ("begun", "code", "frames"),
    [
        (b"", REFUSED, [(HEADERS, b"503"), (DATA, b"")]),
        (b"", CANCEL, [(HEADERS, b"503"), (DATA, b"")]),
        (_answer(0), CANCEL, [(HEADERS, b"200"), (RESET, struct.pack(">I", 2))]),
    ],
    ids=["refused", "cancelled", "cancelled in the middle"],
)
def test_a_stream_that_a_service_resets_is_what_the_page_says(
    tmp_path: Path, begun: bytes, code: int, frames: list[tuple[int, bytes]]
) -> None:
    def reset(connection: socket.socket) -> None:
        connection.sendall(frame(SETTINGS, 0, 0))
        assert frames_until(connection, lambda kind, stream, rest: kind == HEADERS, skip=len(PREFACE) - 9)
        connection.sendall(begun + frame(RESET, 0, 1, struct.pack(">I", code)))
        connection.recv(65536)
        connection.recv(65536)

    found: list[tuple[int, bytes]] = []

    def note(kind: int, stream: int, rest: bytes) -> bool:
        if stream == 1 and kind == HEADERS:
            found.append((kind, dict(Decoder().decode(rest[1:], raw=True))[b":status"]))
        elif stream == 1 and kind in (DATA, RESET):
            found.append((kind, rest[1:] if kind == RESET else b""))
        return len(found) == 2

    with ways(tmp_path, reset) as app, app.through.open(20) as asked:
        asked.sendall(PREFACE + _head(1, "GET", END_HEADERS | END_STREAM))
        assert frames_until(asked, note)
    assert found == frames


@pytest.mark.parametrize(("count", "answered"), [(5, True), (50, False)])
def test_window_updates_before_the_answer_are_counted_as_the_page_says(
    tmp_path: Path, count: int, answered: bool
) -> None:
    with ways(tmp_path, _plain_http_2) as app:
        updates = _head(1) + frame(WINDOW, 0, 1, ADD) * count + END
        assert _answered(app.direct, updates)
        assert _answered(app.through, updates) is answered
