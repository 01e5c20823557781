"""Failures of an echo service that are no answers: a connection that is reset, a refused stream, nonsense."""

from __future__ import annotations

import socket
import struct
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

_GARBLED: Final = b"NO HTTP\r\n\r\n" * 4
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class Failure(StrEnum):
    RESET = "reset"
    REFUSE = "refuse"
    GARBLE = "garble"


class FailedError(Exception):
    """A handler of requests is to fail in this way."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def fail(transport: asyncio.BaseTransport, failure: Failure) -> None:
    """End a connection with a reset, or after bytes that are no answer. HTTP/1 has no streams that could be refused."""
    assert hasattr(transport, "abort")  # noqa: S101 - of a TCP connection
    if failure is Failure.GARBLE:
        transport.write(_GARBLED)  # type: ignore[attr-defined]
        transport.close()
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
