"""A gRPC client in Go, built from the sources in `caller_go`, once, and kept in the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).with_name("caller_go")
BUILD_SECONDS = 600.0
USUAL = Path("/usr/local/go/bin/go")


def caller() -> Path:
    """The program. Skips the test, and says why, where there is no Go or its modules cannot be had."""
    go = shutil.which("go") or (str(USUAL) if USUAL.exists() else None)
    if go is None:
        pytest.skip("no `go` here: what a client of gRPC in Go does was NOT tried")
    version = _run(go, "version").stdout.strip()
    digest = hashlib.sha256(version.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"
    program = cache / f"xds-caller-{digest.hexdigest()[:16]}" / "caller"
    if program.is_file():
        return program
    fetched = _run(go, "mod", "download")
    if fetched.returncode:
        pytest.skip(f"Go's modules cannot be had, so that its client was NOT tried: {fetched.stderr.strip()}")
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"caller.{os.getpid()}")
    done = _run(go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), ".")
    assert done.returncode == 0, done.stderr
    made.replace(program)
    return program


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    settings = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"}
    return subprocess.run(command, cwd=SOURCES, env=settings, capture_output=True, text=True, timeout=BUILD_SECONDS)
