"""Logs and counts TLS handshakes that fail: gRPC itself reports a failure only to the client.

With tracing on, gRPC's core writes the result of each handshake to file descriptor 2. So this module redirects
descriptor 2 to a program that extracts the failures (`grpc_log`); the server itself writes to the original standard
error.
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
RESTART_SECONDS: Final = 1.0
"""Between an unexpected end of `grpc_log` and its restart."""
SHUTDOWN_SECONDS: Final = 5.0
"""How long a server that stops waits for the last reports of `grpc_log`."""
TRACE: Final = "GRPC_TRACE"
"""A user who sets this wants to read the unchanged lines of core."""
VERBOSITY: Final = "GRPC_VERBOSITY"


class Cause(NamedTuple):
    """Why a handshake failed."""

    reason: str
    """One of a few words, for the metric."""
    why: str


_CAUSES: Final = (
    (r"certificate has expired", Cause("expired", "its certificate has expired")),
    (r"certificate is not yet valid", Cause("not_yet_valid", "its certificate is not valid yet")),
    (
        r"VERIFY_FAILED: (?:unable to|self.signed)|certificate signature failure",
        Cause("authority", "its certificate was not issued by the clients' CA"),
    ),
    (r"VERIFY_FAILED", Cause("certificate", "its certificate is not valid")),
    (r"PEER_DID_NOT_RETURN_A_CERTIFICATE", Cause("no_certificate", "it sent no certificate")),
    (r"WRONG_VERSION_NUMBER|HTTP_REQUEST", Cause("no_tls", "it does not speak TLS")),
    (r"ALPN", Cause("no_http2", "it did not offer HTTP/2 (`h2` in ALPN)")),
    (
        r"_ALERT_",
        Cause("client", "it aborted the handshake; it may not accept the server's certificate"),
    ),
    (
        r"Endpoint closing|timed out",
        Cause("silent", "it did not finish the handshake in time, or the server stopped"),
    ),
    (r"Handshake (?:read|write) failed", Cause("closed", "it closed the connection")),
)
_OTHER: Final = Cause("other", "`said` has the error")
REASONS: Final = tuple(sorted({cause.reason for _, cause in _CAUSES} | {_OTHER.reason}))
UNLOGGED: Final = frozenset({"closed"})
"""Reasons that are only counted, because port probes cause them all the time."""


def cause_of(error: str) -> Cause:
    """The cause of a failed handshake, from core's error message."""
    return next((cause for pattern, cause in _CAUSES if re.search(pattern, error)), _OTHER)


def short_error(error: str) -> str:
    """Core's error message without the parts that concern core itself."""
    text = (
        error.removeprefix("UNKNOWN: ").removesuffix(": OK").removesuffix(": Invalid certificate verification context")
    )
    return text.rpartition("OPENSSL_internal:")[2]


class HandshakeMonitor:
    """Counts and logs failed handshakes. All calls belong on one event loop."""

    def __init__(self, standard_error: int) -> None:
        """Redirect descriptor 2 to `grpc_log`, which writes all lines but failed handshakes to `standard_error`."""
        self.failed: Counter[str] = Counter()
        """Numbers of failed handshakes by reason."""
        self._standard_error = standard_error
        self._repeats = RepeatedWarnings()
        self._restart_timer: asyncio.TimerHandle | None = None
        self._open()

    def close(self) -> None:
        """Restore descriptor 2, and read the last reports of `grpc_log`."""
        os.dup2(self._standard_error, STANDARD_ERROR)
        if self._restart_timer is not None:
            self._restart_timer.cancel()
        else:
            asyncio.get_running_loop().remove_reader(self._reports)
            until = time.monotonic() + SHUTDOWN_SECONDS
            while select.select([self._reports], [], [], max(0.0, until - time.monotonic()))[0] and self._read():
                pass
            self._end()
        self._repeats.close()

    def _open(self) -> None:
        self._restart_timer = None
        read, write = os.pipe()
        self._reports, report = os.pipe()
        self._rest = b""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, and a program of admc
                [sys.executable, "-I", "-S", grpc_log.__file__],
                stdin=read,
                stdout=report,
                stderr=self._standard_error,
                process_group=0,  # so Ctrl-C interrupts only the server
            )
            os.dup2(write, STANDARD_ERROR)
        except OSError:
            os.close(self._reports)
            raise
        finally:
            for descriptor in (read, write, report):
                os.close(descriptor)
        asyncio.get_running_loop().add_reader(self._reports, self._ready)

    def _end(self) -> None:
        """Kill the process if it still runs, and close the pipe of its reports."""
        os.close(self._reports)
        self._process.kill()
        self._process.wait()

    def _ready(self) -> None:
        if not self._read():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._reports)
            self._end()
            LOG.error("handshakes_unheard", extra={"code": self._process.returncode})
            self._restart_timer = loop.call_later(RESTART_SECONDS, self._restart)

    def _restart(self) -> None:
        try:
            self._open()
        except OSError as error:
            LOG.error("handshakes_unheard", extra={"problem": str(error)})
            self._restart_timer = asyncio.get_running_loop().call_later(RESTART_SECONDS, self._restart)

    def _read(self) -> bool:
        """Count the reports that have arrived. Returns False at the end of the file."""
        data = os.read(self._reports, CHUNK)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            report = json.loads(line)
            self._count(report["peer"], report["error"])
        return bool(data)

    def _count(self, peer: str, error: str) -> None:
        cause = cause_of(error)
        self.failed[cause.reason] += 1
        if cause.reason not in UNLOGGED:
            fields = {"peer": peer, "reason": cause.reason, "why": cause.why, "said": short_error(error)}
            self._repeats.warn("handshake_refused", host_of(peer), cause.reason, fields)


@contextmanager
def grpc_tracing(*, tls: bool) -> Iterator[None]:
    """With `tls`, switch on core's log of handshakes. The block has to import gRPC: core reads the variables only
    then."""
    before = {name: os.environ.get(name) for name in (TRACE, VERBOSITY)}
    if tls and before[TRACE] is None:
        os.environ |= {TRACE: "handshaker", VERBOSITY: "INFO"}
    # With its default verbosity, core writes lines of its own that repeat the content of the server's lines.
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
def monitored() -> Iterator[HandshakeMonitor | None]:
    """Monitor handshakes during this block, or yield None if the user has set `GRPC_TRACE`. The block needs a running
    event loop, and must begin before gRPC starts."""
    if TRACE in os.environ:
        yield None
        return
    own = sys.stderr
    own.flush()
    before = os.dup(STANDARD_ERROR)
    # This file stays open, because log handlers may hold it.
    sys.stderr = open(before, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    try:
        monitor = HandshakeMonitor(before)
        try:
            yield monitor
        finally:
            monitor.close()
    finally:
        sys.stderr = own
