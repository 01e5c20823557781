"""Compiles that take long block nothing else, and end with the server."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.serve.server_process import SECONDS, served
from tests.serve.test_server import _children, _runs, client, write
from xds_server.resources.types import ENDPOINTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

SERVICES = 400
EFFORT = ("--effort", "1000000")
ENDS_SECONDS = 15.0
"""There are no streams to be waited for. Longer would say that something else was."""


@cache
def graph() -> str:
    chance = random.Random(5)  # noqa: S311
    calls = {tuple(chance.sample(range(SERVICES), 2)) for _ in range(1200)}
    lines = [f"service s{number} {{ http 80 }}" for number in range(SERVICES)]
    lines += [f"call s{source} -> s{destination}" for source, destination in sorted(calls | {(0, 1)})]
    return "app big\n" + "\n".join(lines) + "\n"


def easy(value: str) -> str:
    return (
        "app big\nservice s0, s1 { http 80 }\ncall s0 -> s1\n"
        + f'policy tier = set_request_header(name: "x-tier", value: "{value}") on s0 -> s1\n'
        + "policy even = load_balancing(policy: round_robin) on s0 -> s1\n"
    )


def endless() -> str:
    """The solver cannot prove a minimal cover of this graph in any useful time."""
    return graph() + "policy log = access_log() on * -> *\n"


def endpoints(*pods: str) -> str:
    return json.dumps({"services": {"s0": {"pods": ["10.1.0.1"]}, "s1": {"pods": list(pods)}}})


def busy(pid: int) -> bool:
    """Whether a process has used more CPU time than its start and the steps before a solve need."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") > 2.5


def compiling(pid: int) -> list[int]:
    """The worker processes that have executed their program. Until then the kernel blocks their parent: a test that
    stops such a process stops its parent, too."""
    return [child for child in _children(pid) if b"admc.serve.compiling.worker_process" in _command(child)]


def _command(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def gone(pids: list[int]) -> None:
    deadline = time.monotonic() + SECONDS
    while any(map(_runs, pids)):
        assert time.monotonic() < deadline, "its workers outlive it"
        time.sleep(0.05)


def test_addresses_are_pushed_and_newer_text_wins_while_a_solve_takes_long(tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(easy("one"))
    (tmp_path / "endpoints.json").write_text(endpoints("10.2.0.1"))
    with served(tmp_path, "policies.adm", "--endpoints", "endpoints.json", *EFFORT) as server:
        server.until_event("compiled")
        server.until(lambda: len(_children(server.process.pid)) >= 2)
        before = set(_children(server.process.pid))
        write(tmp_path / "policies.adm", endless())
        server.until(lambda: any(busy(pid) for pid in _children(server.process.pid)))
        with client(server.xds, "s0") as s0:
            for number in (2, 3):
                write(tmp_path / "endpoints.json", endpoints("10.2.0.1", f"10.2.0.{number}"))
                server.until_event("located", number - 1)
                (found,) = s0.ask(ENDPOINTS, ("egress/s1:80/even",))
                assert f"10.2.0.{number}".encode() in found.value
            assert len(server.events("compiled")) == 1
            write(tmp_path / "policies.adm", easy("two"))
            server.until_event("compile_superseded")
            server.until_event("compiled", 2)
            # With the addresses that changed meanwhile, although another worker received them.
            (found,) = s0.ask(ENDPOINTS, ("egress/s1:80/even",))
            assert b"10.2.0.3" in found.value
            assert any(b"two" in item.value for item in s0.filter_of("tier:set_request_header"))
        # The worker of the cancelled solve has ended, and does not count as an error.
        assert server.metric("admc_compile_errors_total") == 0.0
        server.until(lambda: len(_children(server.process.pid)) <= len(before) + 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_solve_ends_with_the_server(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(endless())
    with served(tmp_path, "policies.adm", *EFFORT) as server:
        server.until(lambda: any(busy(pid) for pid in _children(server.process.pid)))
        workers = _children(server.process.pid)
        started = time.monotonic()
        code = server.stop(number)
        assert time.monotonic() - started < ENDS_SECONDS
        assert code == (0 if number is signal.SIGTERM else -number)
        gone(workers)


@pytest.mark.parametrize("kept", [False, True])
def test_a_process_that_does_not_answer_holds_up_no_end(kept: bool, tmp_path: Path) -> None:
    """The signal arrives during a compile, or while the stored state is built."""
    (tmp_path / "policies.adm").write_text(easy("one"))
    options = ("policies.adm", "--state", "state")
    if kept:
        with served(tmp_path, *options) as server:
            server.until((tmp_path / "state" / "state.json").exists)
            assert server.stop() == 0
    # On a busy machine the test may be too late for this server: then it starts another one.
    assert any(_ends_though_its_process_does_not_answer(tmp_path, options) for _ in range(10))


def _ends_though_its_process_does_not_answer(folder: Path, options: tuple[str, ...]) -> bool:
    """Whether the process received a request."""
    with served(folder, *options) as server:
        workers = server.until(lambda: compiling(server.process.pid))
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        try:
            in_time = not server.events("compiled")
            started = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - started < ENDS_SECONDS
        finally:
            for pid in filter(_runs, workers):
                os.kill(pid, signal.SIGCONT)
        gone(workers)
    return in_time
