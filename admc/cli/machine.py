"""The checks of `admc doctor`: whether this machine has what admc and its configuration need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ENVOY_TESTED = (1, 40)
"""The minor version of Envoy that admc's configuration is tested on."""
PYTHON = (3, 11)
SECONDS = 60.0
"""How long a program may run. A busy machine may need more than 10 s to load OR-Tools."""

_SOLVE = """
from ortools.sat.python import cp_model
model = cp_model.CpModel()
number = model.new_int_var(0, 9, "number")
model.add(2 * number >= 3)
model.minimize(number)
solver = cp_model.CpSolver()
solver.solve(model)
print(solver.value(number))
"""
"""Run in a process of its own, because an incompatible native library may crash it."""


class Verdict(StrEnum):
    GOOD = "ok"
    OPTIONAL = "missing"
    """Part of admc works without it; the advice says which part does not."""
    BAD = "wrong"


class Finding(NamedTuple):
    subject: str
    verdict: Verdict
    said: str
    advice: str = ""


def findings() -> tuple[Finding, ...]:
    """All checks, in the order in which a command needs their subjects."""
    return (
        _python(),
        *_packages(),
        _solver(),
        _envoy(),
        _redirection(),
        _privileges(),
        _temporary(),
        _working_folder(),
    )


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < PYTHON:
        return Finding("python", Verdict.BAD, found, "admc needs Python 3.11 or later")
    return Finding("python", Verdict.GOOD, found)


def _packages() -> Iterable[Finding]:
    """Installed versions against what admc's own metadata asks for."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(line) for line in metadata.requires("admc") or ()]
    except metadata.PackageNotFoundError:
        yield Finding("admc", Verdict.BAD, "not installed", "install it with `make setup` or pip")
        return
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Finding(requirement.name, Verdict.BAD, "not installed", f"install `{requirement}`")
            continue
        if requirement.specifier.contains(found, prereleases=True):
            yield Finding(requirement.name, Verdict.GOOD, found)
        else:
            yield Finding(
                requirement.name,
                Verdict.BAD,
                f"{found}, and admc needs {requirement.specifier}",
                "run `make setup`",
            )


def _solver() -> Finding:
    """OR-Tools has native code that fits some releases of protobuf only: solving shows that the two work together."""
    said = _run([sys.executable, "-c", _SOLVE])
    if said is not None and said.strip() == "2":
        return Finding("solver", Verdict.GOOD, "OR-Tools and protobuf work together")
    return Finding("solver", Verdict.BAD, f"OR-Tools does not solve, or not within {SECONDS:.0f} s", "run `make setup`")


def _envoy() -> Finding:
    beside = Path(sys.executable).parent / "envoy"
    program = shutil.which("envoy") or (str(beside) if beside.is_file() else None)
    if program is None:
        return Finding(
            "envoy",
            Verdict.OPTIONAL,
            "not found",
            "compiling works without it; running ADMs here does not",
        )
    said = _run([program, "--version"])
    match = None if said is None else re.search(r"/(\d+)\.(\d+)\.(\d+)", said)
    if match is None:
        return Finding("envoy", Verdict.BAD, f"{program} does not print its version", "replace it with a working Envoy")
    version = ".".join(match.groups())
    if (int(match[1]), int(match[2])) < ENVOY_TESTED:
        least = ".".join(str(part) for part in ENVOY_TESTED)
        return Finding("envoy", Verdict.BAD, f"{version} at {program}", f"use Envoy {least} or later")
    return Finding("envoy", Verdict.GOOD, f"{version} at {program}")


def _redirection() -> Finding:
    program = shutil.which("iptables-restore")
    if program is None:
        return Finding(
            "iptables",
            Verdict.OPTIONAL,
            "not found",
            "needed only where traffic is redirected on this machine; explicit listeners work without it",
        )
    said = _run([program, "--version"])
    return Finding("iptables", Verdict.GOOD, f"{(said or 'version unknown').strip()} at {program}")


def _privileges() -> Finding:
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Finding("privileges", Verdict.GOOD, "root")
    return Finding(
        "privileges", Verdict.OPTIONAL, "not root", "needed only to redirect traffic; explicit listeners work without"
    )


def _temporary() -> Finding:
    return _writable("temporary files", Path(tempfile.gettempdir()))


def _working_folder() -> Finding:
    return _writable("working folder", Path.cwd())


def _writable(subject: str, folder: Path) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".admc-doctor-"):
            return Finding(subject, Verdict.GOOD, str(folder))
    except OSError as error:
        said = (error.strerror or "the system refused").lower()
        return Finding(subject, Verdict.BAD, f"{folder}: {said}", "free space, or get write permission there")


def _run(command: list[str]) -> str | None:
    """Output of a program that was found on this machine; None where it fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 - no shell, fixed words
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
