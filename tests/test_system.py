"""`make system` says what the tests lack and why, installs what Debian has of it, and never claims more."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import system
from tests.skipped import add, line, read, skipped

POLICY = {
    "iptables": "iptables:\n  Installed: (none)\n  Candidate: 1.8.9-2\n",
    "golang-go": "golang-go:\n  Installed: (none)\n  Candidate: 2:1.19~1\n",
}


class Machine:
    """A folder of programs that do nothing but write down that they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder.parent / "calls"
        self.calls.touch()

    def add(self, *names: str, script: str = "") -> None:
        for name in names:
            path = self.folder / name
            path.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.calls}\n{script}\n', encoding="utf-8")
            path.chmod(0o755)

    def add_debian(self, *, installs: bool = True) -> None:
        policy = "".join(f"[ $2 = {name} ] && echo '{text}'\n" for name, text in POLICY.items())
        self.add("apt-cache", script=f"{policy}exit 0")
        copies = " ".join(system.FILTER) if installs else ""
        copy = f"for name in {copies}; do cp {self.folder}/git {self.folder}/$name; done"
        self.add("apt-get", script=f"[ $2 = install ] && {copy}\nexit 0")

    def called(self) -> list[str]:
        return self.calls.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Has all but iptables and Go; root is the user."""
    folder = tmp_path / "bin"
    folder.mkdir()
    found = Machine(folder)
    found.add("ip", "mount", "git")
    monkeypatch.setattr(system, "PATH", str(folder))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return found


def test_a_machine_that_has_everything_is_left_alone(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add_debian()
    machine.add(*system.FILTER)
    machine.add("go", script="echo go1.99.1")
    assert system.main() == 0
    assert capsys.readouterr().out == "the tests find all that they need of this machine\n"
    assert [call for call in machine.called() if call.startswith("apt")] == []


def test_what_is_missing_is_named_with_its_purpose_and_installed(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add_debian()
    machine.add("go", script="echo go1.99.1")
    assert system.main() == 0
    assert capsys.readouterr().out.splitlines() == [
        "the tests need of this machine:",
        "  iptables: loads the emitted redirection rules into network namespaces",
        "installing iptables",
    ]
    assert [call for call in machine.called() if call.startswith("apt-get")] == [
        "apt-get -qq update",
        "apt-get -qq install --yes --no-install-recommends iptables",
    ]


def test_a_package_that_is_too_old_is_not_installed(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add_debian()
    machine.add("go", script="echo go1.9")
    assert system.main() == 1
    out = capsys.readouterr().out
    least = ".".join(map(str, system.least_go()))
    assert f"golang-go: this Debian has 1.19~1, and {least} or later is needed; install it by hand" in out
    assert "still missing: golang-go." in out
    assert not [call for call in machine.called() if "golang-go" in call and call.startswith("apt-get")]


def test_an_installation_that_fails_is_no_success(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add_debian(installs=False)
    machine.add("go", script="echo go1.99.1")
    assert system.main() == 1
    assert "still missing: iptables." in capsys.readouterr().out


def test_a_package_that_debian_does_not_have_is_said(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    machine.add_debian()
    (machine.folder / "ip").unlink()
    assert system.main() == 1
    assert "iproute2: this Debian has no such package; install it by hand" in capsys.readouterr().out


def test_no_other_system_than_debian_is_touched(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert system.main() == 1
    assert "this is not Debian: install them by hand. Tests that need them will skip" in capsys.readouterr().out


def test_only_root_installs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add_debian()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert system.main() == 1
    assert "only root can install them. Tests that need them will skip" in capsys.readouterr().out
    assert [call for call in machine.called() if call.startswith("apt")] == []


def test_one_line_says_what_runs_skipped_and_how_to_get_it(tmp_path: Path) -> None:
    reports = [
        SimpleNamespace(nodeid=f"{folder}/test_a.py::test_{number}", longrepr=("a.py", number, f"Skipped: {reason}"))
        for number, (folder, reason) in enumerate(
            [("tests/b", "no Go"), ("tests/a", "no Go"), ("tests/a", f"no `ip`; {system.HINT}"), ("tests/a", "no Go")]
        )
    ]
    path = tmp_path / "skipped"
    assert line(read(path)) == "no test was skipped"
    add(path, skipped(reports[:2]))
    add(path, skipped(reports[2:]))
    assert line(read(path)) == (
        "skipped 4 tests; 3: no Go (tests/a 2, tests/b 1); 1: no `ip` (tests/a 1); "
        "`make system` installs what is missing (Debian, root)"
    )
