"""Programs in Go that tests and benchmarks need, built from sources beside them, once, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.isolation import machine_network
from tests.system import HINT, go

BUILD_SECONDS = 600.0


class MissingError(Exception):
    """There is no Go here, or the modules of a program cannot be fetched."""


class BuildError(Exception):
    """The sources do not compile."""


def build(sources: Path, name: str, package: str = ".") -> Path:
    """The program `name` from a package of a module. Raises `MissingError` and `BuildError`."""
    compiler = go()
    if compiler is None:
        raise MissingError(f"this machine lacks Go; {HINT}")
    return _build(compiler, sources, name, package)


@cache
def _build(compiler: str, sources: Path, name: str, package: str) -> Path:
    version = _run(sources, compiler, "version").stdout.strip()
    digest = hashlib.sha256(version.encode())
    for source in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(source.relative_to(sources).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"
    program = kept / f"{name}-{digest.hexdigest()[:16]}" / name
    if program.is_file():
        return program
    with machine_network():
        fetched = _run(sources, compiler, "mod", "download")
    if fetched.returncode:
        raise MissingError(f"Go's modules cannot be fetched: {fetched.stderr.strip()[-300:]}")
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"{name}.{os.getpid()}")
    done = _run(sources, compiler, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), package)
    if done.returncode:
        raise BuildError(f"{version} cannot build {sources.name}: {done.stderr.strip() or done.stdout.strip()}")
    made.replace(program)
    return program


def built(sources: Path, name: str) -> Path:
    """The same for a test: it is skipped where `MissingError` is raised."""
    try:
        return build(sources, name)
    except MissingError as error:
        pytest.skip(str(error))


def _run(sources: Path, *command: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    return subprocess.run(command, cwd=sources, env=settings, capture_output=True, text=True, timeout=BUILD_SECONDS)
