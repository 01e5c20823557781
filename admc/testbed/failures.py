"""Failures of an echo service without an answer: a reset connection, a refused stream, bytes that are no HTTP."""

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
    """A handler of requests raises this error to fail in one of these ways."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def fail(transport: asyncio.BaseTransport, failure: Failure) -> None:
    """Reset a connection, or close it after bytes that are no HTTP. A refused stream of HTTP/1 is a reset, too."""
    assert hasattr(transport, "abort")  # noqa: S101 - transports of TCP have it
    if failure is Failure.GARBLE:
        transport.write(_GARBLED)  # type: ignore[attr-defined]
        transport.close()
        return
    connection = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
