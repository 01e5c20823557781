"""Runs a measurement in a process of its own, which may move into a network namespace.

    run(channel) in the process -> lines of JSON in a pipe -> [started] -> Message after Message

The process ends with the process that started it, and its own processes end with it. So a kill of any of them leaves
nothing behind.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Final, NamedTuple

from admc.cost.measurement.network import NetworkError
from admc.cost.measurement.processes import ProcessError
from admc.cost.measurement.table import Channel, Row
from admc.cost.profile_import.runs import Arm
from dsl.program import Protocol, Side

_PARENT_DEATH: Final = 1
_END_SECONDS: Final = 20.0
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class FailedError(Exception):
    """The measurement cannot go on; the message says why."""


class BrokenError(Exception):
    """A bug: the text is the traceback of the process."""


class Message(NamedTuple):
    """A line of the process: `progress`, `row`, `note`, `fact`, `failed`, `broken` or `end`, and its content."""

    subject: str
    content: Any


@contextmanager
def started(run: Callable[[Channel], None]) -> Iterator[Iterator[Message]]:
    """The messages of a measurement. Instead of `failed` and `broken`, `FailedError` and `BrokenError` are raised.
    The process is ended with the context, also if the context is left early."""
    reading, writing = os.pipe()
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # A signal between the fork and the `try` would leave a process that nothing ends.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    pid = os.fork()
    if pid == 0:
        _measure(run, writing, parent)
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(writing)
        with os.fdopen(reading, "rb") as lines:
            yield _messages(lines)
    finally:
        _end(pid)


def _end(pid: int) -> None:
    """End a process, and wait until it has ended with its own processes. Kill it if that takes too long."""
    deadline = time.monotonic() + _END_SECONDS
    os.kill(pid, signal.SIGTERM)  # it is not reaped yet, so its number is no other process's
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _messages(lines: IO[bytes]) -> Iterator[Message]:
    """Raises `FailedError`, `BrokenError`."""
    for line in lines:
        message = Message(*json.loads(line))
        if message.subject == "failed":
            raise FailedError(message.content)
        if message.subject == "broken":
            raise BrokenError(message.content)
        yield message
        if message.subject == "end":
            return
    raise FailedError("its process was killed")


def _measure(run: Callable[[Channel], None], writing: int, parent: int) -> None:
    """The work of the process. It does not return."""
    code = 1
    try:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, _ended)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
        if os.getppid() == parent:
            with os.fdopen(writing, "wb", buffering=0) as out:
                _reported(run, _says(out))
            code = 0
    except BaseException:  # noqa: S110 - the reader has ended, or ends this process
        pass
    finally:
        os._exit(code)


def _ended(number: int, frame: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _says(out: Any) -> Callable[[str, Any], None]:
    return lambda subject, content: out.write(json.dumps([subject, content]).encode() + b"\n")


def _reported(run: Callable[[Channel], None], say: Callable[[str, Any], None]) -> None:
    from emitters.errors import EmitError

    channel = Channel(
        progress=lambda stage: say("progress", stage),
        row=lambda row: say("row", row_content(row)),
        note=lambda text: say("note", text),
        fact=lambda name, value: say("fact", [name, value]),
    )
    try:
        run(channel)
    except (ProcessError, NetworkError, OSError) as error:
        say("failed", str(error))
    except EmitError as error:
        say("failed", "; ".join(item.message for item in error.diagnostics[:3]))
    except Exception:
        say("broken", traceback.format_exc())
    else:
        say("end", None)


def row_content(row: Row) -> list[Any]:
    return [row.turn, list(row.arm), row.protocol, *row[3:]]


def row_of(content: list[Any]) -> Row:
    turn, (name, side, kind, arguments), protocol, *rest = content
    arm = Arm(name, None if side is None else Side(side), kind, tuple((key, value) for key, value in arguments))
    return Row(turn, arm, None if protocol is None else Protocol(protocol), *rest)
