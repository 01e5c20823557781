"""Reads the log that gRPC's core writes to file descriptor 2, its only report of TLS handshakes that fail.

    core -- descriptor 2 --> this program -- failed handshakes, a line of JSON each --> the server
                                          -- everything else, as events --> standard error

This program runs as a process of its own, so it passes on core's last lines even after a crash of the server, and a
busy server does not block core's writes. It needs only the standard library. It ends when no process holds the write
end of its standard input.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import time
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CHUNK: Final = 1 << 16
MAX_LINE: Final = 1 << 14
"""Bytes; core's longest lines have 1,300."""
MAX_MESSAGE: Final = 500
"""Characters of the text of an event; a longer text becomes several events. Short writes are atomic, so the lines of
this program and of the server do not mix."""
MAX_ERROR: Final = 300
"""Characters of the error of a handshake."""
MAX_REPEATS: Final = 20
"""Events that are written for one source line of core until the next count; further events are only counted."""
COUNT_SECONDS: Final = 300.0
"""Between two counts of left-out events."""
IDLE_SECONDS: Final = 0.2
"""Text without a line break is a complete line after this time, because core writes a whole line at once."""

_RECORD: Final = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w.-]+:\d+)\] (.*)")
_LEVELS: Final = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
_STEP: Final = "CallNextHandshakerLocked: error="
_PEER: Final = re.compile(r"grpc\.internal\.endpoint_peer_address=([^,} ]+)")
_EXPECTED: Final = ("handshake_manager ", "handshake manager ", "Handshake failed with error ", "gRPC Tracers: ")
"""The beginnings of core's other lines about handshakes, and of its notice that tracing is on."""
_VERBOSITY_NOTICE: Final = "Log level INFO is not suitable"
_CONTINUATION: Final = re.compile(r"=== Source Location Trace: === ?|src/[\w./]+:\d+|")
"""The lines that follow a line with an error."""


class LogParser:
    """Parses core's log, which arrives in pieces of any size."""

    def __init__(self, failed: Callable[[str, str], None], other: Callable[[str, str, str], None]) -> None:
        """`failed` receives the peer and the error of a failed handshake; `other` receives the level, core's source
        line and the text of any other line."""
        self._failed = failed
        self._other = other
        self._rest = b""
        self._error: str | None = None
        """The error of a handshake whose peer is in a later line."""
        self._shows_error = False
        """Whether further lines of an error may follow."""

    def feed(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line)
        while len(self._rest) > MAX_LINE:
            self._line(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]

    def pause(self) -> None:
        """Take the text so far as complete, because nothing has arrived for a while."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._line(rest)
        self._report("")

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        record = _RECORD.fullmatch(text)
        if record is None:
            self._follow(text)
            return
        self._report("")
        level, place, text = record.groups()
        step, self._shows_error = text.startswith(_STEP), False
        if step:
            if not text.startswith("OK ", len(_STEP)):
                self._error, self._shows_error = text[len(_STEP) :], True
                self._report_if_peer(text)
        elif text.startswith(_EXPECTED):
            self._shows_error = True
        elif not text.startswith(_VERBOSITY_NOTICE):
            self._other(_LEVELS[level], place, text)

    def _follow(self, text: str) -> None:
        if self._error is not None and text.startswith(" shutdown="):
            self._report_if_peer(text)
        elif not (self._shows_error and _CONTINUATION.fullmatch(text)):
            self._other("error", "", text)

    def _report_if_peer(self, text: str) -> None:
        peer = _PEER.search(text)
        if peer is not None:
            self._report(peer[1])

    def _report(self, peer: str) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._failed(peer, error.partition(" shutdown=")[0].strip()[:MAX_ERROR])


class EventWriter:
    """Writes events in the same form as the server. Events that repeat often are counted instead."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._counts: Counter[str] = Counter()
        self._until = time.monotonic() + COUNT_SECONDS

    def write(self, level: str, place: str, text: str) -> None:
        if place:
            self._counts[place] += 1
            if self._counts[place] > MAX_REPEATS:
                return
        for start in range(0, max(len(text), 1), MAX_MESSAGE):
            fields = {"event": "message", "message": text[start : start + MAX_MESSAGE]}
            self._event(level, fields | ({"place": place} if place else {}))

    def flush_if_due(self) -> None:
        """Write the numbers of left-out events, if the interval is over."""
        if time.monotonic() >= self._until:
            self.flush()

    def flush(self) -> None:
        self._until = time.monotonic() + COUNT_SECONDS
        counts, self._counts = self._counts, Counter()
        for place, number in counts.items():
            if number > MAX_REPEATS:
                self._event(
                    "warning", {"event": "left_out", "of": "message", "place": place, "lines": number - MAX_REPEATS}
                )

    def _event(self, level: str, fields: Mapping[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": now, "level": level, "logger": "grpc", **fields}).encode() + b"\n")


def main() -> None:
    """Read standard input; write failed handshakes to standard output, all else to standard error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # this program ends after the server, to pass on core's last lines

    def failed(peer: str, error: str) -> None:
        try:
            os.write(1, json.dumps({"peer": peer, "error": error}).encode() + b"\n")
        except BrokenPipeError:
            events.write("warning", "", f"failed handshake of {peer}: {error}")  # the server has ended

    def write(line: bytes) -> None:
        try:
            os.write(2, line)
        except OSError:
            return  # standard error is closed: there is no other place for events

    events = EventWriter(write)
    parser = LogParser(failed, events.write)
    while True:
        events.flush_if_due()
        if not select.select([0], [], [], IDLE_SECONDS)[0]:
            parser.pause()
            select.select([0], [], [], COUNT_SECONDS)
        data = os.read(0, CHUNK)
        if not data:
            break
        parser.feed(data)
    parser.pause()
    events.flush()


if __name__ == "__main__":
    main()
