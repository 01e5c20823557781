"""An event loop that turns once for many of gRPC's events.

Threads of gRPC tell the loop of each event by one byte on a socket. Its callback there takes one byte and all events,
so that the bytes of the others make the loop turn again, each for nothing: a push to 2,000 streams and their answers
are four thousand events. Here all bytes but the one that the callback takes are taken before it is called.
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
"""What gRPC calls the owner of the callback. An event is in its queue before its byte is in the socket, so no byte but
the last one is needed."""
BYTES: Final = 1 << 16
"""At most so many are taken at once."""


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
    """Call it once for all bytes that are there. Another loop may have taken them: what then is for the callback."""
    with suppress(BlockingIOError):
        waiting = len(signals.recv(BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        if waiting > 1:
            signals.recv(waiting - 1)
    callback()
