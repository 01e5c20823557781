"""Work that is due is done, again after a fault, and one line of the log says so."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.retry_loop import retry_while_pending

if TYPE_CHECKING:
    import pytest


async def test_a_fault_is_logged_once_and_the_work_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    pending, attempts, done = asyncio.Event(), 0, asyncio.Event()

    async def work() -> None:
        nonlocal attempts
        attempts += 1
        pending.clear()
        if attempts in (1, 2, 4):
            pending.set()
            raise ApiError(500, "InternalError", "etcd is away")
        done.set()

    with caplog.at_level(logging.WARNING, "admc.cluster"):
        task = asyncio.create_task(retry_while_pending(pending, work, "the plan"))
        try:
            async with asyncio.timeout(20):
                for expected in (3, 5):
                    pending.set()
                    await done.wait()
                    done.clear()
                    assert attempts == expected
        finally:
            task.cancel()
    assert [record.message for record in caplog.records] == ["cannot_write", "cannot_write"]
