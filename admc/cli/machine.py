"""The checks of `admc doctor`: whether this machine has the programs, packages, privileges and writable folders that
admc and its configuration need, or can use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from admc.base.checks import Check, CheckVerdict

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
"""A program that runs in a process of its own, because an incompatible native library may crash the process."""


def checks() -> tuple[Check, ...]:
    """Return all checks, in the order in which a command needs their subjects."""
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


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info[:2] < PYTHON:
        return Check("python", CheckVerdict.BAD, version, "admc needs Python 3.11 or later")
    return Check("python", CheckVerdict.GOOD, version)


def _packages() -> Iterable[Check]:
    """Compare installed versions with the requirements in the metadata of admc."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(line) for line in metadata.requires("admc") or ()]
    except metadata.PackageNotFoundError:
        yield Check("admc", CheckVerdict.BAD, "not installed", "install it with `make setup` or pip")
        return
    for requirement in wanted:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Check(requirement.name, CheckVerdict.BAD, "not installed", f"install `{requirement}`")
            continue
        if requirement.specifier.contains(version, prereleases=True):
            yield Check(requirement.name, CheckVerdict.GOOD, version)
        else:
            yield Check(
                requirement.name,
                CheckVerdict.BAD,
                f"{version}, and admc needs {requirement.specifier}",
                "run `make setup`",
            )


def _solver() -> Check:
    """Solve a small problem: the native code of OR-Tools fits only some releases of protobuf."""
    output = _run([sys.executable, "-c", _SOLVE])
    if output is not None and output.strip() == "2":
        return Check("solver", CheckVerdict.GOOD, "OR-Tools and protobuf work together")
    return Check(
        "solver", CheckVerdict.BAD, f"OR-Tools does not solve, or not within {SECONDS:.0f} s", "run `make setup`"
    )


def _envoy() -> Check:
    beside = Path(sys.executable).parent / "envoy"
    program = shutil.which("envoy") or (str(beside) if beside.is_file() else None)
    if program is None:
        return Check(
            "envoy",
            CheckVerdict.OPTIONAL,
            "not found",
            "compiling works without it; running ADMs here does not",
        )
    output = _run([program, "--version"])
    match = None if output is None else re.search(r"/(\d+)\.(\d+)\.(\d+)", output)
    if match is None:
        return Check(
            "envoy", CheckVerdict.BAD, f"{program} does not print its version", "replace it with a working Envoy"
        )
    version = ".".join(match.groups())
    if (int(match[1]), int(match[2])) < ENVOY_TESTED:
        least = ".".join(str(part) for part in ENVOY_TESTED)
        return Check("envoy", CheckVerdict.BAD, f"{version} at {program}", f"use Envoy {least} or later")
    return Check("envoy", CheckVerdict.GOOD, f"{version} at {program}")


def _redirection() -> Check:
    program = shutil.which("iptables-restore")
    if program is None:
        return Check(
            "iptables",
            CheckVerdict.OPTIONAL,
            "not found",
            "needed only where traffic is redirected on this machine; explicit listeners work without it",
        )
    output = _run([program, "--version"])
    return Check("iptables", CheckVerdict.GOOD, f"{(output or 'version unknown').strip()} at {program}")


def _privileges() -> Check:
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return Check("privileges", CheckVerdict.GOOD, "root")
    return Check(
        "privileges",
        CheckVerdict.OPTIONAL,
        "not root",
        "needed only to redirect traffic; explicit listeners work without",
    )


def _temporary() -> Check:
    return _writable("temporary files", Path(tempfile.gettempdir()))


def _working_folder() -> Check:
    return _writable("working folder", Path.cwd())


def _writable(subject: str, folder: Path) -> Check:
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".admc-doctor-"):
            return Check(subject, CheckVerdict.GOOD, str(folder))
    except OSError as error:
        cause = (error.strerror or "the system refused").lower()
        return Check(subject, CheckVerdict.BAD, f"{folder}: {cause}", "free space, or get write permission there")


def _run(command: list[str]) -> str | None:
    """The output of a program on this machine, or None if the program fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 - no shell, fixed words
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
