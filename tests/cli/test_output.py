"""Standard output and standard error: one document, nothing raw, closed streams, terminals and Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Admc
from tests.cli.programs import IMPOSSIBLE, SHOP, WRONG, write


def test_nothing_a_program_says_reaches_the_terminal_raw(admc: Admc, tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "app \x1b[31mshop\nservice \x9b2J\u202e { http 8080 }\npolicy x = \x07() on * -> \x1b]0;x\x07\n",
    )
    for arguments in (
        ("check", path),
        ("compile", path),
        ("fmt", path),
        *(("check", path, "--format", format_) for format_ in ("json", "markdown", "sarif", "github")),
    ):
        run = admc(*arguments)
        assert run.code == 1
        shown = run.out + run.err
        assert all(character == "\n" or character.isprintable() for character in shown), arguments


def test_a_reader_that_goes_away_is_no_error(shop: Path) -> None:
    command = f"{sys.executable} -m admc compile {shop} --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60)
    assert done.stdout.startswith(b"{")
    assert done.stdout.endswith(b"0\n")
    assert done.stderr == b""


def test_a_full_standard_output_is_reported(shop: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "admc", "compile", str(shop), "--json"],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 1
    assert b"ADM803" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("compile", "--help"), ("--version",)], ids=" ".join)
def test_help_needs_no_reader(arguments: tuple[str, ...]) -> None:
    command = f"{sys.executable} -m admc {' '.join(arguments)} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"0\n", b"")


def into_a_full_disk(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with Path("/dev/full").open("wb") as full:
        return subprocess.run(
            [sys.executable, "-m", "admc", *arguments], cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60
        )


@pytest.mark.parametrize("arguments", [("--help",), ("check", "--help"), ("check", "no.adm", "--format", "json")])
def test_a_full_standard_output_is_no_bug(arguments: tuple[str, ...]) -> None:
    done = into_a_full_disk(*arguments)
    assert done.returncode == 1
    assert b"ADM803" in done.stderr


def test_a_failure_goes_to_standard_error_if_standard_output_is_not_writable(tmp_path: Path) -> None:
    done = into_a_full_disk("compile", str(write(tmp_path, IMPOSSIBLE)), "--format", "json")
    assert done.returncode == 3
    assert b"no correct placement" in done.stderr
    assert b"ADM803" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&-"])
def test_closed_streams_are_no_bug(shop: Path, closed: str) -> None:
    for command, code in ((f"check {shop}", 0), (f"compile {shop}", 0), ("check none.adm", 1), ("fmt -", 0)):
        done = subprocess.run(
            ["bash", "-c", f"{sys.executable} -m admc {command} {closed}"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == code, (command, done.stderr)
        assert b"Traceback" not in done.stderr


def test_progress_and_colour_go_to_terminals_only(shop: Path) -> None:
    """With a terminal as standard error the stages are shown, and removed from the line at the end."""
    import pty

    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "compile", str(shop)], cwd=ROOT, stdout=subprocess.PIPE, stderr=follower
    ) as running:
        assert running.stdout is not None
        out = running.stdout.read()
    os.close(follower)
    shown = os.read(leader, 10_000)
    os.close(leader)
    assert b"solving ..." in shown
    assert shown.endswith(b"\r\x1b[K")
    assert b"\x1b" not in out


def test_a_dumb_terminal_gets_no_control_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    from admc.cli import output

    written: list[str] = []
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    monkeypatch.setattr(output, "write_error", written.append)
    monkeypatch.setenv("TERM", "dumb")
    progress = output.Progress()
    progress("solving")
    progress.clear()
    assert written == []


@pytest.mark.parametrize("columns", [40, 60, 80, 91, 92, 120])
def test_the_summary_breaks_no_word_on_a_narrow_terminal(tmp_path: Path, columns: int) -> None:
    from admc.compile.pipeline import compile_program
    from admc.compile.plan.summary import summarize
    from admc.compile.plan.summary_text import render

    compiled = compile_program(write(tmp_path, SHOP))
    summary = summarize(compiled.program, compiled.plan)
    shown = render(summary, "", (), colour=False, width=columns)
    assert all(len(line) <= columns for line in shown.splitlines())
    for adm in compiled.plan.adms:
        for word in (adm.service, *(item.policy for item in adm.policies)):
            assert word in shown
    for row in summary.rows:
        assert set(row.because.split()) <= set(shown.split())


def test_an_explanation_fits_a_narrow_terminal() -> None:
    import pty
    import termios

    leader, follower = pty.openpty()
    termios.tcsetwinsize(follower, (24, 50))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "explain", "rate_limit"],
        cwd=ROOT,
        env=environment,
        stdout=follower,
        stderr=subprocess.PIPE,
    ) as running:
        running.wait(60)
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    prose = shown.split("in other meshes:")[0]
    assert "at ingress" in prose
    assert all(len(line) <= 50 for line in prose.splitlines())


def test_no_color(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from admc.base import terminal

    path = write(tmp_path, WRONG)
    admc("check", path)  # loads the commands first: each would keep the `is_terminal` with which it is loaded
    monkeypatch.setattr(terminal, "is_terminal", lambda _stream: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31merror" in admc("check", path).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in admc("check", path).out


@pytest.mark.parametrize("module", ["admc.base.exits", "dsl.diagnostics.diagnostic", "admc.cli.app"])
def test_ctrl_c_while_a_module_loads(module: str, tmp_path: Path) -> None:
    finder = f"""import os, signal, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder)
"""
    write(tmp_path, finder, "sitecustomize.py")
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from admc.__main__ import main; sys.exit(main(['--help']))"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (130, b"interrupted")


def test_ctrl_c_in_executed_text(tmp_path: Path) -> None:
    text = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nfor _ in range(1000): pass"
    write(tmp_path, f"import admc.cli.app\nadmc.cli.app.run = lambda typed: exec({text!r})\n", "sitecustomize.py")
    done = subprocess.run(
        [sys.executable, "-m", "admc", "--help"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr.strip()) == (130, b"interrupted")


@pytest.mark.parametrize("stage", ["reading", "solving"])
def test_ctrl_c_while_it_works(tmp_path: Path, stage: str) -> None:
    import pty
    import random
    import signal

    # The solver cannot prove a minimal cover of this graph, so it still runs when the signal arrives.
    chance = random.Random(5)  # noqa: S311
    calls = {tuple(chance.sample(range(400), 2)) for _ in range(1200)}
    lines = [f"service s{number} {{ http 80 }}" for number in range(400)]
    lines += [f"call s{source} -> s{destination}" for source, destination in sorted(calls)]
    path = write(tmp_path, "app big\n" + "\n".join(lines) + "\npolicy log = access_log() on * -> *\n")
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "admc", "compile", str(path), "--effort", "1000000"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=follower,
    ) as running:
        shown = b""
        while f"{stage} ...".encode() not in shown:
            shown += os.read(leader, 10_000)
        running.send_signal(signal.SIGINT)
        try:
            out, _ = running.communicate(timeout=60)
        finally:
            running.kill()
    os.close(follower)
    shown += os.read(leader, 10_000)
    os.close(leader)
    assert b"Traceback" not in shown
    assert running.returncode == 130, shown
    assert out == b""
    assert [entry.name for entry in tmp_path.iterdir()] == ["policies.adm"]
