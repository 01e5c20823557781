"""What gRPC's core says about handshakes that fail: it has no hook for them, only lines on file descriptor 2.

    core -- descriptor 2 --> this program -- refused handshakes, a line of JSON each --> the server
                                          -- whatever else was written, as events --> standard error

A process of its own, run as a script: what core writes last before it ends the server is still passed on, and a server
that is busy keeps nobody from writing. It needs nothing but the standard library, and ends when nobody can write any
more.
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
MAX_WORDS: Final = 500
"""Characters of an event: what has more becomes several. So each is written in one go, between the server's own."""
MAX_SAID: Final = 300
"""Characters of what TLS says of a handshake."""
REPEATS: Final = 20
"""Events from one place in core's text, until the rest of them is counted."""
SECONDS: Final = 300.0
"""Between two counts."""
IDLE_SECONDS: Final = 0.2
"""A line is written at once, so what has not gone on for so long is all there is."""

_RECORD: Final = re.compile(r"([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ([\w.-]+:\d+)\] (.*)")
_LEVELS: Final = {"I": "info", "W": "warning", "E": "error", "F": "critical"}
_STEP: Final = "CallNextHandshakerLocked: error="
_PEER: Final = re.compile(r"grpc\.internal\.endpoint_peer_address=([^,} ]+)")
_EXPECTED: Final = ("handshake_manager ", "handshake manager ", "Handshake failed with error ", "gRPC Tracers: ")
"""How the rest begins of what core says of each handshake, and of having been asked to."""
_RAISED: Final = "Log level INFO is not suitable"
_MORE: Final = re.compile(r"=== Source Location Trace: === ?|src/[\w./]+:\d+|")
"""The lines that follow where an error is shown."""


class Listener:
    """Takes what was written, in pieces of any size."""

    def __init__(self, refused: Callable[[str, str], None], other: Callable[[str, str, str], None]) -> None:
        """`refused` gets the peer of a handshake and what was said of it, `other` a level, a place and words."""
        self._refused = refused
        self._other = other
        self._rest = b""
        self._error: str | None = None
        """Of a handshake whose peer is still to be said."""
        self._shows_error = False
        """Whether the lines of an error may follow."""

    def take(self, data: bytes) -> None:
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line)
        while len(self._rest) > MAX_LINE:
            self._line(self._rest[:MAX_LINE])
            self._rest = self._rest[MAX_LINE:]

    def pause(self) -> None:
        """Nothing has come for a while."""
        if self._rest:
            rest, self._rest = self._rest, b""
            self._line(rest)
        self._tell("")

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace")
        found = _RECORD.fullmatch(text)
        if found is None:
            self._follow(text)
            return
        self._tell("")
        level, place, words = found.groups()
        step, self._shows_error = words.startswith(_STEP), False
        if step:
            if not words.startswith("OK ", len(_STEP)):
                self._error, self._shows_error = words[len(_STEP) :], True
                self._tell_if_here(words)
        elif words.startswith(_EXPECTED):
            self._shows_error = True
        elif not words.startswith(_RAISED):
            self._other(_LEVELS[level], place, words)

    def _follow(self, text: str) -> None:
        if self._error is not None and text.startswith(" shutdown="):
            self._tell_if_here(text)
        elif not (self._shows_error and _MORE.fullmatch(text)):
            self._other("error", "", text)

    def _tell_if_here(self, text: str) -> None:
        found = _PEER.search(text)
        if found is not None:
            self._tell(found[1])

    def _tell(self, peer: str) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            self._refused(peer, error.partition(" shutdown=")[0].strip()[:MAX_SAID])


class Others:
    """Events on standard error, as the server writes them. What comes again and again is counted."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._seen: Counter[str] = Counter()
        self._until = time.monotonic() + SECONDS

    def say(self, level: str, place: str, words: str) -> None:
        if place:
            self._seen[place] += 1
            if self._seen[place] > REPEATS:
                return
        for start in range(0, max(len(words), 1), MAX_WORDS):
            said = {"event": "message", "message": words[start : start + MAX_WORDS]}
            self._event(level, said | ({"place": place} if place else {}))

    def count(self) -> None:
        """Say how many were left out, if it is time for that."""
        if time.monotonic() >= self._until:
            self.end()

    def end(self) -> None:
        self._until = time.monotonic() + SECONDS
        seen, self._seen = self._seen, Counter()
        for place, number in seen.items():
            if number > REPEATS:
                self._event(
                    "warning", {"event": "left_out", "of": "message", "place": place, "lines": number - REPEATS}
                )

    def _event(self, level: str, said: Mapping[str, object]) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": now, "level": level, "logger": "grpc", **said}).encode() + b"\n")


def main() -> None:
    """From standard input: refused handshakes to standard output, all else to standard error."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # whoever ends the server hears it to its end

    def refused(peer: str, said: str) -> None:
        try:
            os.write(1, json.dumps({"peer": peer, "said": said}).encode() + b"\n")
        except BrokenPipeError:
            others.say("warning", "", f"refused handshake of {peer}: {said}")  # the server has gone

    def write(line: bytes) -> None:
        try:
            os.write(2, line)
        except OSError:
            return  # nobody reads it any more, and there is nowhere else to say so

    others = Others(write)
    listener = Listener(refused, others.say)
    while True:
        others.count()
        if not select.select([0], [], [], IDLE_SECONDS)[0]:
            listener.pause()
            select.select([0], [], [], SECONDS)
        data = os.read(0, CHUNK)
        if not data:
            break
        listener.take(data)
    listener.pause()
    others.end()


if __name__ == "__main__":
    main()
