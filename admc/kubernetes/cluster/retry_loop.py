"""Repeats a write to the cluster whenever something may differ, and again after a failure.

watch --note--> ChangedKeys --take--> writer
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from admc.kubernetes.cluster.records import Key

LOG: Final = logging.getLogger("admc.cluster")


class ChangedKeys:
    """The objects of a watch that have changed since the last call of `take`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.pending = asyncio.Event()
        """Set with each change, and by a writer that has more to do; the writer clears it."""
        self.clock = clock
        self._times: dict[Key, float] | None = None
        """None before the first call of `take`: a server that stands by has no writer, and keeps no keys."""

    def note(self, key: Key, old: object = None, new: object = None) -> None:
        """The watch calls this with each change."""
        if self._times is not None:
            self._times[key] = self.clock()
        self.pending.set()

    def take(self) -> Mapping[Key, float]:
        """Return the changed objects, each with the time of its last change."""
        times, self._times = self._times or {}, {}
        return times


async def retry_while_pending(pending: asyncio.Event, work: Callable[[], Awaitable[object]], what: str) -> None:
    """Call `work` each time that `pending` is set, until cancelled. `work` clears `pending`, and sets it again if it
    fails.

    An `ApiError` is logged once, with the subject `what`, until `work` succeeds; another exception is raised.
    """
    backoff = Backoff()
    is_failing = False
    while True:
        await pending.wait()
        try:
            await work()
        except ApiError as error:
            if not is_failing:
                LOG.warning("cannot_write", extra={"about": what, "text": str(error)})
            is_failing = True
            await asyncio.sleep(backoff.seconds(error.retry_after))
        else:
            is_failing = False
            backoff.reset()
