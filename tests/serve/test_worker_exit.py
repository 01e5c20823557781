"""A worker that loses its server ends, and a server that loses its worker compiles again."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing, suppress
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from admc.base.files import write_whole
from admc.serve import reconciler
from admc.serve.auth.identity import Proof, Settings
from admc.serve.compiling import worker
from admc.serve.compiling.source import Source
from admc.serve.files.environment import FileEnvironment
from emitters.envoy import Mode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

SECONDS = 60.0
PROGRAM = """\
app shop
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart
"""
ENDPOINTS = """\
{"services": {
  "web": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1"]},
  "cart": {"addresses": ["10.0.0.2"], "pods": ["10.1.0.2"]}
}}
"""
AGAIN_SECONDS = 0.3


@pytest.mark.parametrize("first", ["connection", "lifeline", "both"])
def test_it_leaves_in_silence_when_it_has_lost_its_parent_while_it_starts(first: str) -> None:
    ours, theirs = multiprocessing.Pipe()
    read, write = os.pipe()
    command = [sys.executable, "-P", "-m", "admc.serve.compiling.worker_process", str(theirs.fileno()), str(read)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, pass_fds=(theirs.fileno(), read), stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        theirs.close()
        os.close(read)
        if first != "lifeline":
            ours.close()
        if first != "connection":
            os.close(write)
        try:
            said = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    if first == "lifeline":
        ours.close()
    elif first == "connection":
        os.close(write)
    assert (process.returncode, *said) == (0, b"", b"")


class _Gone(worker.Worker):
    """Its process ends at the first request. Its files are closed first, and a moment later the process ends, as the
    system does it. Here that moment is long."""

    asked: ClassVar[list[float]] = []

    async def _ask(self, request: worker.Request) -> Any:
        self.asked.append(time.monotonic())
        os.kill(self.pid, signal.SIGSTOP)
        with closing(socket.socket(fileno=os.dup(self._connection.fileno()))) as ours:
            ours.shutdown(socket.SHUT_RDWR)
        return await super()._ask(request)


@asynccontextmanager
async def _following(
    environment: FileEnvironment, *workers: type[worker.Worker]
) -> AsyncIterator[reconciler.Reconciler]:
    """A running reconciler, with these workers first."""
    given = iter(workers)

    def made() -> worker.Worker:
        return next(given, worker.Worker)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciler, "COMPILE_RETRY_SECONDS", AGAIN_SECONDS)
        patch.setattr(reconciler, "Worker", made)
        one = reconciler.Reconciler(environment)
        following = asyncio.ensure_future(one.run())
        try:
            yield one
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
            await one.close()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.long
async def test_a_compile_whose_worker_ends_is_repeated_after_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "policies.adm"
    path.write_text(PROGRAM)
    environment = FileEnvironment(Source(path, Mode.EXPLICIT), None, Settings(Proof.NONE))
    _Gone.asked.clear()
    async with _following(environment, worker.Worker, _Gone, _Gone) as one:
        await _until(lambda: one.counts.compiles == 1)
        write_whole(path, PROGRAM.replace("gold", "silver").encode())
        await _until(lambda: one.counts.compiles == 2)
        assert one.counts.compile_errors == 2
    first, second = _Gone.asked
    assert second - first >= AGAIN_SECONDS


@pytest.mark.long
async def test_a_compile_is_repeated_if_the_active_worker_has_ended(tmp_path: Path) -> None:
    path, endpoints = tmp_path / "policies.adm", tmp_path / "endpoints.json"
    path.write_text(PROGRAM)
    endpoints.write_text(ENDPOINTS)
    environment = FileEnvironment(Source(path, Mode.REDIRECT), endpoints, Settings(Proof.NONE))
    async with _following(environment, worker.Worker, _Gone) as one:
        await _until(lambda: one.counts.compiles == 1)
        assert one._active_worker is not None
        os.kill(one._active_worker.pid, signal.SIGKILL)
        write_whole(endpoints, ENDPOINTS.replace("10.1.0.2", "10.1.0.77").encode())
        await _until(lambda: one.counts.compiles == 2)
        assert one.config.state is not None
        assert "10.1.0.77" in one.config.state.addresses.services["cart"].pods
