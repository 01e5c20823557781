"""python -m admc.pod wait ARGUMENTS: ends when the ADMs that need this pod's address have it.

    token, authority --WaitUntilKnown--> lines with the reasons to wait; at the end OK

It never gives up: without a server it waits, and asks again. Only wrong arguments (exit 1) or SIGTERM end it earlier.
It prints a line on stderr each time the reasons change. It sends the token alone: by that the server identifies the
pod, and it takes the pod's addresses from its own records.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

METHOD: Final = "/admc.v1.Pods/WaitUntilKnown"
FIRST_SECONDS: Final = 0.2
"""The pause after a failed attempt; it doubles with each further one."""
LONGEST_SECONDS: Final = 5.0
_LINE: Final = 1000
"""The most characters of a printed line."""
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", 1 << 16),
    # With keepalives, the client notices a server that is gone without closing the connection.
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_http_proxy", 0),
)


class Target(NamedTuple):
    """The arguments of the program."""

    server: str
    ca: Path
    token: Path
    name: str
    """The name of the installation, for messages."""


def main(arguments: Sequence[str]) -> int:
    """Wait, and return the exit code: 0 once the address of the pod is known, 1 after wrong arguments."""
    target = _parsed(arguments)
    if target is None:
        return 1
    # A process with id 1 ignores a signal that it does not handle, and the pod would stay until it is killed.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    say = _Lines(target)
    for failures in _attempts():
        try:
            for line in _asked(target):
                failures.clear()
                say(line)
        except OSError as error:
            say(f"cannot read `{error.filename}`: {(error.strerror or 'the system refused').lower()}")
        except grpc.RpcError as error:
            say(_failure(error))
        else:
            say("the address of this pod is known")
            return 0
    return 1


def _parsed(arguments: Sequence[str]) -> Target | None:
    parser = argparse.ArgumentParser("python -m admc.pod wait", allow_abbrev=False)
    parser.add_argument("--server", required=True, metavar="HOST:PORT")
    parser.add_argument("--ca", required=True, type=Path, metavar="FILE")
    parser.add_argument("--token", required=True, type=Path, metavar="FILE")
    parser.add_argument("--name", required=True)
    try:
        options = parser.parse_args(arguments)
    except SystemExit:
        return None
    return Target(options.server, options.ca, options.token, options.name)


def _attempts() -> Iterator[list[None]]:
    """Yield before each attempt, without end, with pauses in between. The caller clears the list of failures once an
    attempt has reached the server."""
    failures: list[None] = []
    while True:
        yield failures
        pause = min(FIRST_SECONDS * 2 ** min(len(failures), 10), LONGEST_SECONDS)
        failures.append(None)
        time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all pods ask at once


def _asked(target: Target) -> Iterator[str]:
    """Yield the lines of one answer. Raises `grpc.RpcError` unless the answer ends with OK, and `OSError`.

    Both files are read for each attempt: the kubelet replaces the token, and the authority may be replaced too.
    """
    token = target.token.read_text("ascii", "ignore").strip()
    credentials = grpc.ssl_channel_credentials(target.ca.read_bytes())
    with grpc.secure_channel(target.server, credentials, options=_OPTIONS) as channel:
        ask: Any = channel.unary_stream(METHOD)
        for line in ask(b"", metadata=(("authorization", f"Bearer {token}"),)):
            yield line.decode("utf-8", "replace")


def _failure(error: Any) -> str:
    code, details = error.code(), error.details()
    if code is grpc.StatusCode.UNAVAILABLE:
        return f"there is no answer: {details}"
    return f"{code.name.lower().replace('_', ' ')}: {details}"


class _Lines:
    """Prints a line on stderr unless it equals the last one."""

    def __init__(self, target: Target) -> None:
        self._prefix = f"{target.name} at {target.server}"
        self._last = ""

    def __call__(self, line: str) -> None:
        if line != self._last:
            self._last = line
            shown = "".join(character if character.isprintable() else "?" for character in line[:_LINE])
            print(f"{self._prefix}: {shown}", file=sys.stderr, flush=True)
