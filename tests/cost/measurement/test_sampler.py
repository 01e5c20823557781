"""Real stacks: of small programs, and of a real Envoy under load."""

from __future__ import annotations

import mmap
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from admc.cost.measurement import design, measured, programs, sampler
from admc.cost.measurement.bed import Tools
from admc.cost.measurement.design import Grid
from admc.cost.measurement.sampler import CannotSampleError, Sampler
from admc.cost.measurement.session import Task
from admc.cost.measurement.stack_slices import StackSlices
from admc.cost.measurement.table import Channel, Row
from admc.cost.measurement.uses import cheapest
from admc.cost.profile_import.runs import PARTS
from dsl.program import Protocol
from tests.cost.measurement.test_measure import NEEDS_GO

SECONDS = 60.0
SMALL, LARGE = 100, 65536


@pytest.fixture
def real() -> Sampler:
    try:
        return Sampler()
    except CannotSampleError as error:
        pytest.skip(f"this machine does not allow stacks to be sampled: {error}")


@contextmanager
def running(program: str) -> Iterator[int]:
    """The number of a Python process that has printed a line."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def sampled(real: Sampler, program: str, enough: int = 100) -> Counter[str]:
    """Stacks of a program that does not end, enough of them on a busy machine, too."""
    found: Counter[str] = Counter()
    deadline = time.monotonic() + SECONDS
    with running(program) as process:
        while found.total() < enough:
            assert time.monotonic() < deadline
            with real.sampling(process, 1_000_000) as slices:
                time.sleep(0.1)
            found += slices[0].stacks
    return found


def test_a_program_that_computes_is_in_user_space(real: Sampler) -> None:
    found = sampled(real, "print(flush=True)\nwhile True: pass")
    assert found["user"] > found.total() / 2
    assert not found["read"] + found["write"] + found["notification"]


SOCKETS = """
import select, socket
listener = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
waits = select.epoll()
waits.register(other, select.EPOLLIN)
print(flush=True)
while True:
    one.sendall(b"x" * 1000)
    waits.poll()
    other.recv(1000)
"""


def test_a_program_that_sends_to_itself_has_all_parts(real: Sampler) -> None:
    found = sampled(real, SOCKETS, 300)
    assert all(found[part] for part in ("ipc", "read", "write", "notification", "user"))
    assert found["ipc"] + found["write"] > found["notification"]


def test_a_program_that_sleeps_has_no_stacks(real: Sampler) -> None:
    with running("import time\nprint(flush=True)\ntime.sleep(600)") as process:
        time.sleep(0.2)
        with real.sampling(process, 100_000) as slices:
            time.sleep(0.2)
    assert not slices[0].stacks


def test_a_process_that_has_ended_has_no_stacks(real: Sampler) -> None:
    with running("print(flush=True)") as process:
        pass
    with real.sampling(process, 100_000) as slices:
        pass
    assert not slices[0].stacks


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("_NUMBERS", {}, "a processor `.*` is not known"),
        (
            "_NUMBERS",
            dict.fromkeys(sampler._NUMBERS, 10**6),
            r"the kernel refuses it \(.*kernel.perf_event_paranoid is",
        ),
        ("_interrupts_apart", lambda: True, "this kernel leaves interrupts out"),
        ("_MOST_SYMBOLS", 100, r"does not show where its functions are \(kernel.kptr_restrict is"),
        ("_ROOM", 3 * mmap.PAGESIZE, r"the kernel gives it no memory \(.*kernel.perf_event_mlock_kb is"),
    ],
)
def test_what_a_machine_may_refuse(
    real: Sampler, monkeypatch: pytest.MonkeyPatch, name: str, value: object, why: str
) -> None:
    monkeypatch.setattr(sampler, name, value)
    with pytest.raises(CannotSampleError, match=why):
        Sampler()


# ---- a real measurement ----


@pytest.fixture
def task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Task:
    monkeypatch.setattr(design, "ceiling", lambda run: run(100.0) and design.Highest(400.0, "of the test"))
    grid = Grid((SMALL, LARGE), 2, 50.0, 0.3, 0.3, 30, 0.02, 1)
    tools = Tools(programs.envoy()[0], programs.app())
    return Task((), cheapest(), (Protocol.HTTP,), grid, 3.0, tools, tmp_path / "run")


def cores(rows: Sequence[Row], size: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        if row.arm.name.startswith("part:") and row.size == size:
            found[row.arm.name.removeprefix("part:")] += row.cores or 0.0  # type: ignore[assignment]
    return found


@pytest.mark.long
@NEEDS_GO
def test_a_measured_hop_has_parts(real: Sampler, task: Task) -> None:
    found = measured._run(task, lambda _: None)
    profile = measured._made(found, "tiny", "1.40", (), None).made.profile
    (hop,) = profile.hops
    assert [part.name for part in hop.parts] == ["whole", *PARTS]
    whole, *parts = hop.parts
    assert whole.cpu is not None
    for at, knot in enumerate(whole.cpu.base):
        shares = {part.name: part.cpu.base[at].figure.value for part in parts if part.cpu is not None}
        assert sum(shares.values()) == knot.figure.value
        assert all(shares[name] > 0 for name in ("ipc", "read", "write", "notification")), shares
    assert {part.latency for part in parts} == {None}
    assert "stacks are that were sampled in slices of their own" in profile.method.text
    by_size = {size: cores(found.rows, size) for size in (SMALL, LARGE)}
    copied = {size: (each["read"] + each["write"]) / each.total() for size, each in by_size.items()}
    print("share of read and write:", copied, by_size)
    assert copied[LARGE] > copied[SMALL]


def test_where_no_stacks_can_be_sampled_a_note_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_NUMBERS", {})
    notes: list[str] = []
    ignored = cast("Any", None)
    slices = StackSlices(ignored, "pod", Channel(ignored, ignored, notes.append, ignored))
    assert not slices.allowed
    slices.idle("1")
    (note,) = notes
    assert note.startswith("hops have one part, `whole`, since no stacks can be sampled: a processor")


@pytest.mark.long
@NEEDS_GO
def test_where_no_stacks_can_be_sampled_a_hop_stays_whole(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "_NUMBERS", {})
    found = measured._run(task, lambda _: None)
    profile = measured._made(found, "tiny", "1.40", (), None).made.profile
    assert [part.name for hop in profile.hops for part in hop.parts] == ["whole"]
    assert len([note for note in found.notes if "no stacks can be sampled" in note]) == 1
    assert not any(row.arm.name.startswith("part:") for row in found.rows)
    assert "all parts together" in profile.method.text
