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


def build(sources: Path, name: str, package: str = ".", *, flags: str = "", seconds: float = BUILD_SECONDS) -> Path:
    """The program `name` from a package of a module, or of a module that it requires; `flags` are more for the linker.

    Raises `MissingError`, `BuildError`, and `TimeoutExpired` where one step takes longer than `seconds`.
    """
    compiler = go()
    if compiler is None:
        raise MissingError(f"this machine lacks Go; {HINT}")
    return _build(compiler, sources, name, package, flags, seconds)


def find(sources: Path, name: str) -> Path | None:
    """The program that an earlier `build` kept; None where there is none of these sources and this Go."""
    compiler = go()
    if compiler is None:
        return None
    program = _place(compiler, sources, name)
    return program if program.is_file() else None


@cache
def _build(compiler: str, sources: Path, name: str, package: str, flags: str, seconds: float) -> Path:
    program = _place(compiler, sources, name)
    if program.is_file():
        return program
    with machine_network():
        fetched = _run(sources, compiler, "mod", "download", seconds=seconds)
    if fetched.returncode:
        raise MissingError(f"Go's modules cannot be fetched: {fetched.stderr.strip()[-300:]}")
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"{name}.{os.getpid()}")
    options = ["-trimpath", f"-ldflags=-s -w {flags}".rstrip(), "-o", str(made)]
    done = _run(sources, compiler, "build", *options, package, seconds=seconds)
    if done.returncode:
        raise BuildError(f"{_version(compiler)} cannot build {name}: {done.stderr.strip() or done.stdout.strip()}")
    made.replace(program)
    return program


def cache_folder() -> Path:
    """Where everything is kept that is built or unpacked once."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"


def _place(compiler: str, sources: Path, name: str) -> Path:
    digest = hashlib.sha256(_version(compiler).encode())
    for source in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(source.relative_to(sources).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    return cache_folder() / f"{name}-{digest.hexdigest()[:16]}" / name


@cache
def _version(compiler: str) -> str:
    return _run(Path.cwd(), compiler, "version").stdout.strip()


def required(sources: Path, module: str) -> Path:
    """The folder of a module that another one requires. Raises `MissingError` where Go's own cache lacks it."""
    compiler = go()
    done = None if compiler is None else _run(sources, compiler, "list", "-m", "-f", "{{.Dir}}", module)
    if done is None or done.returncode or not done.stdout.strip():
        raise MissingError(f"the module {module} is not in the cache of Go")
    return Path(done.stdout.strip())


def built(sources: Path, name: str) -> Path:
    """The same for a test: it is skipped where `MissingError` is raised."""
    try:
        return build(sources, name)
    except MissingError as error:
        pytest.skip(str(error))


def _run(sources: Path, *command: str, seconds: float = BUILD_SECONDS) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    return subprocess.run(command, cwd=sources, env=settings, capture_output=True, text=True, timeout=seconds)
