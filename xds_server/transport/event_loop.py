"""An event loop that takes one turn for many events of gRPC.

Threads of gRPC announce each event to the loop by one byte on a socket. The callback of gRPC reads one byte and handles
all events, so that each further byte causes a useless turn of the loop. A push to 2,000 streams and their ACKs are
4,000 events. This loop reads all bytes except one before it calls the callback.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVarTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import FileDescriptorLike

Arguments = TypeVarTuple("Arguments")

QUEUE: Final = "PollerCompletionQueue"
"""The class of gRPC that owns the callback. An event is in its queue before its byte is in the socket, so the last byte
is enough."""
BYTES: Final = 1 << 16
"""The most bytes that are read at once."""


class GrpcEventLoop(asyncio.SelectorEventLoop):
    """For programs that serve many streams: `asyncio.Runner(loop_factory=GrpcEventLoop)`."""

    def add_reader(
        self,
        fd: FileDescriptorLike,
        callback: Callable[[*Arguments], Any],
        *args: *Arguments,
    ) -> None:
        owner = getattr(callback.func if isinstance(callback, partial) else callback, "__self__", None)
        if isinstance(fd, socket.socket) and type(owner).__name__ == QUEUE:
            super().add_reader(fd, _once, fd, partial(callback, *args))
        else:
            super().add_reader(fd, callback, *args)


def _once(signals: socket.socket, callback: Callable[[], Any]) -> None:
    """Call the callback once for all bytes in the socket. If another loop has read the bytes, the callback handles
    that."""
    with suppress(BlockingIOError):
        waiting = len(signals.recv(BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        if waiting > 1:
            signals.recv(waiting - 1)
    callback()
