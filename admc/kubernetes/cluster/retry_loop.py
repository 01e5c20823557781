"""Repeats a write to the cluster whenever something may differ, and again after a failure."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.api.backoff import Backoff
from admc.kubernetes.cluster.api.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LOG: Final = logging.getLogger("admc.cluster")


async def retry_while_pending(pending: asyncio.Event, work: Callable[[], Awaitable[object]], what: str) -> None:
    """Call `work` each time that `pending` is set, until cancelled. `work` clears `pending`, and sets it again if it
    fails.

    A failure is logged once, with the subject `what`, until `work` succeeds.
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
