"""The application as a program: built from the sources beside this file, once, and kept."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.system import HINT, go

SOURCES = Path(__file__).with_name("app")
CACHE = Path(__file__).parents[3] / ".cache" / "bench"
BUILD_SECONDS = 240.0


class BuildError(Exception):
    """There is no Go, or it cannot build this; the message says what to do."""


def build(cache: Path = CACHE) -> Path:
    """The program. Raises `BuildError`."""
    compiler = go()
    if compiler is None:
        raise BuildError(f"the application of this bench is built by Go, which this machine lacks; {HINT}")
    version = subprocess.run(
        [compiler, "version"], capture_output=True, text=True, timeout=BUILD_SECONDS
    ).stdout.strip()
    digest = hashlib.sha256(version.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    program = cache / f"cost-{digest.hexdigest()[:16]}" / "app"
    if program.is_file():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"app.{os.getpid()}")
    done = subprocess.run(
        [compiler, "build", "-trimpath", "-o", str(made), "."],
        cwd=SOURCES,
        # It needs no module but its own; nothing is fetched, not even another Go.
        env={**os.environ, "CGO_ENABLED": "0", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    if done.returncode:
        raise BuildError(f"{version} cannot build {SOURCES.name}: {done.stderr.strip() or done.stdout.strip()}")
    made.replace(program)
    return program
