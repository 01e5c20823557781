"""Writes to one stream, one message after another, without a task of its own.

A push to thousands of streams is thousands of writes. A task that sleeps until there is something to write takes three
turns of the loop for each: to wake up, to write, and to lie down again. Here a write begins at once, in the turn of
whoever has something to say, and its end is one callback: with what stands beside it in `XdsServer`, a quarter less CPU
and half the time for a small push to 2,000 streams.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any


class Writer(ABC):
    """See the module. Everything runs on the loop's thread."""

    def __init__(self, context: Any) -> None:
        """`context` is what gRPC gives to the handler of a stream."""
        self._context = context
        self._writing: Any = None
        self._busy = False
        """Whether something is being written: what comes next is taken in its turn."""

    @abstractmethod
    def _next(self) -> bytes | None:
        """What is to be written next, if there is anything."""

    @abstractmethod
    def _broke(self, error: BaseException) -> None:
        """There was nothing to be had, or it could not be written."""

    def write(self) -> None:
        """Begin to write what there is to say, unless something is being written."""
        if not self._busy:
            self._busy = True
            self._go_on()

    def _go_on(self, _: object = None) -> None:
        """What a task does, without its turns: go on with gRPC's coroutine until it waits for a future."""
        try:
            while self._writing is not None or self._take():
                try:
                    future = self._writing.send(None)
                except StopIteration:
                    self._writing = None
                else:
                    future.add_done_callback(self._go_on)
                    return
            self._busy = False
        except (Exception, asyncio.CancelledError) as error:
            self._writing = None
            self._busy = False
            self._broke(error)

    def _take(self) -> bool:
        data = self._next()
        if data is not None:
            self._writing = self._context.write(data)
        return data is not None
