"""Clients that TLS itself refuses: logged and counted here, since gRPC tells nobody but the client.

Its core writes what becomes of each handshake to file descriptor 2, if asked to. So descriptor 2 leads to a program
that passes on what concerns refusals (`overhear`); the server itself writes to where descriptor 2 led before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import select
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.auth import grpc_log
from xds_server.limits.repeated_warnings import RepeatedWarnings, host_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG: Final = logging.getLogger("admc.serve")
STANDARD_ERROR: Final = 2
CHUNK: Final = 1 << 16
AGAIN_SECONDS: Final = 1.0
"""When the program has ended though nobody told it to, until there is another one."""
LAST_SECONDS: Final = 5.0
"""For what it has not passed on at the end."""
TRACE: Final = "GRPC_TRACE"
"""Whoever has set this wants to read core's lines as they are."""
VERBOSITY: Final = "GRPC_VERBOSITY"


class Cause(NamedTuple):
    """Why a handshake came to nothing."""

    reason: str
    """One word of few, for counting."""
    why: str


_CAUSES: Final = (
    (r"certificate has expired", Cause("expired", "its certificate has expired")),
    (r"certificate is not yet valid", Cause("not_yet_valid", "its certificate is not valid yet")),
    (
        r"VERIFY_FAILED: (?:unable to|self.signed)|certificate signature failure",
        Cause("authority", "its certificate is not of the clients' authority"),
    ),
    (r"VERIFY_FAILED", Cause("certificate", "its certificate does not hold")),
    (r"PEER_DID_NOT_RETURN_A_CERTIFICATE", Cause("no_certificate", "it has shown no certificate")),
    (r"WRONG_VERSION_NUMBER|HTTP_REQUEST", Cause("no_tls", "it does not speak TLS")),
    (r"ALPN", Cause("no_http2", "it has not asked for HTTP/2 (`h2` in ALPN)")),
    (r"_ALERT_", Cause("client", "it has broken off, maybe since it does not take the server's certificate")),
    (
        r"Endpoint closing|timed out",
        Cause("silent", "it was not through with the handshake when its time was over, or the server stopped"),
    ),
    (r"Handshake (?:read|write) failed", Cause("closed", "it has hung up")),
)
_OTHER: Final = Cause("other", "`said` is all that is known")
REASONS: Final = tuple(sorted({cause.reason for _, cause in _CAUSES} | {_OTHER.reason}))
UNLOGGED: Final = frozenset({"closed"})
"""Probes of open ports do that all the time."""


def cause_of(said: str) -> Cause:
    """What core's words for it mean."""
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, said)), _OTHER)


def plainly(said: str) -> str:
    """Core's words without those that are about itself."""
    text = (
        said.removeprefix("UNKNOWN: ").removesuffix(": OK").removesuffix(": Invalid certificate verification context")
    )
    return text.rpartition("OPENSSL_internal:")[2]


class Handshakes:
    """Hears of refused handshakes. All calls belong on one event loop."""

    def __init__(self, before: int) -> None:
        """From now on descriptor 2 leads to a program, which writes to `before` what is for standard error."""
        self.refused: Counter[str] = Counter()
        """By reason."""
        self._before = before
        self._repeats = RepeatedWarnings()
        self._again: asyncio.TimerHandle | None = None
        self._open()

    def close(self) -> None:
        """Descriptor 2 leads to where it did; what has not been said yet is."""
        os.dup2(self._before, STANDARD_ERROR)
        if self._again is not None:
            self._again.cancel()
        else:
            asyncio.get_running_loop().remove_reader(self._reports)
            until = time.monotonic() + LAST_SECONDS
            while select.select([self._reports], [], [], max(0.0, until - time.monotonic()))[0] and self._read():
                pass
            self._end()
        self._repeats.close()

    def _open(self) -> None:
        self._again = None
        read, write = os.pipe()
        self._reports, report = os.pipe()
        self._rest = b""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a program of admc
                [sys.executable, "-I", "-S", grpc_log.__file__],
                stdin=read,
                stdout=report,
                stderr=self._before,
                process_group=0,  # it is the server alone to whom Ctrl-C is said
            )
            os.dup2(write, STANDARD_ERROR)
        except OSError:
            os.close(self._reports)
            raise
        finally:
            for each in (read, write, report):
                os.close(each)
        asyncio.get_running_loop().add_reader(self._reports, self._ready)

    def _end(self) -> None:
        """The program has nothing more to say, or does not come to an end."""
        os.close(self._reports)
        self._process.kill()
        self._process.wait()

    def _ready(self) -> None:
        if not self._read():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._reports)
            self._end()
            LOG.error("handshakes_unheard", extra={"code": self._process.returncode})
            self._again = loop.call_later(AGAIN_SECONDS, self._try_again)

    def _try_again(self) -> None:
        try:
            self._open()
        except OSError as error:
            LOG.error("handshakes_unheard", extra={"problem": str(error)})
            self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._try_again)

    def _read(self) -> bool:
        """Take what has come; whether there may be more."""
        data = os.read(self._reports, CHUNK)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            self._refused(said["peer"], said["said"])
        return bool(data)

    def _refused(self, peer: str, said: str) -> None:
        cause = cause_of(said)
        self.refused[cause.reason] += 1
        if cause.reason not in UNLOGGED:
            words = {"peer": peer, "reason": cause.reason, "why": cause.why, "said": plainly(said)}
            self._repeats.warn("handshake_refused", host_of(peer), cause.reason, words)


@contextmanager
def core_asked(*, tls: bool) -> Iterator[None]:
    """Core is told what to write if gRPC is imported meanwhile: it looks for that then, and never again."""
    before = {name: os.environ.get(name) for name in (TRACE, VERBOSITY)}
    if tls and before[TRACE] is None:
        os.environ |= {TRACE: "handshaker", VERBOSITY: "INFO"}
    # It would write lines of its own between ours; what they say, ours say, too.
    os.environ.setdefault(VERBOSITY, "NONE")
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def heard() -> Iterator[Handshakes | None]:
    """Hear of refused handshakes as long as this lasts, in a running event loop, if core was asked to tell of them. To
    be entered before gRPC starts."""
    if TRACE in os.environ:
        yield None
        return
    own = sys.stderr
    own.flush()
    before = os.dup(STANDARD_ERROR)
    # Left open: whoever logs may keep it.
    sys.stderr = open(before, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    try:
        found = Handshakes(before)
        try:
            yield found
        finally:
            found.close()
    finally:
        sys.stderr = own
