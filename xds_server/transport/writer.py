"""Writes to one stream, one message after another, without a task of its own.

A push to thousands of streams is thousands of writes. A task that sleeps until there is a message to write takes three
turns of the event loop for each message: to wake up, to write, and to sleep again. Here a write begins at once, in the
turn of its caller, and its end is one callback. Together with the grouping of streams in `XdsServer`, a small push to
2,000 streams takes a quarter less CPU, and half of the time.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from xds_server.transport.variants import GrpcStream


class Writer(ABC):
    """Writes to one stream. All methods run on the thread of the event loop."""

    def __init__(self, context: GrpcStream) -> None:
        self._context = context
        self._writing: Coroutine[asyncio.Future[None], None, None] | None = None
        self._busy = False
        """Whether a message is being written. Then `write` does nothing."""

    @abstractmethod
    def _next(self) -> bytes | None:
        """The next message, or None."""

    @abstractmethod
    def _failed(self, error: BaseException) -> None:
        """Handle an exception of `_next` or of a write."""

    def write(self) -> None:
        """Begin to write the waiting messages, unless a message is being written."""
        if not self._busy:
            self._busy = True
            self._continue()

    def _continue(self, _: asyncio.Future[None] | None = None) -> None:
        """Run gRPC's coroutine until it waits for a future, as a task would, without the turns of a task."""
        try:
            while (writing := self._writing or self._begin()) is not None:
                try:
                    future = writing.send(None)
                except StopIteration:
                    self._writing = None
                else:
                    future.add_done_callback(self._continue)
                    return
            self._busy = False
        except (Exception, asyncio.CancelledError) as error:
            self._writing = None
            self._busy = False
            self._failed(error)

    def _begin(self) -> Coroutine[asyncio.Future[None], None, None] | None:
        data = self._next()
        if data is not None:
            self._writing = self._context.write(data)
        return self._writing
