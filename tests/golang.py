"""Programs in Go that tests need, built from sources beside the tests, once, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.system import HINT, go

BUILD_SECONDS = 600.0
NO_GO = f"this machine lacks Go; {HINT}"


@cache
def built(sources: Path, name: str) -> Path:
    """The program. Skips the test where no Go is new enough, or its modules cannot be fetched. Sources that do not
    compile fail the test."""
    compiler = go()
    if compiler is None:
        pytest.skip(NO_GO)
    version = _run(sources, compiler, "version").stdout.strip()
    digest = hashlib.sha256(version.encode())
    for source in sorted(sources.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"
    program = kept / f"{name}-{digest.hexdigest()[:16]}" / name
    if program.is_file():
        return program
    fetched = _run(sources, compiler, "mod", "download")
    if fetched.returncode:
        pytest.skip(f"Go's modules cannot be fetched: {fetched.stderr.strip()[-300:]}")
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"{name}.{os.getpid()}")
    done = _run(sources, compiler, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), ".")
    assert done.returncode == 0, done.stderr
    made.replace(program)
    return program


def _run(sources: Path, *command: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    return subprocess.run(command, cwd=sources, env=settings, capture_output=True, text=True, timeout=BUILD_SECONDS)
