"""What the YAML decoder of Kubernetes (Go's `sigs.k8s.io/yaml`, strict) makes of a text: built once, and kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).with_name("decoder")
SECONDS = 240.0


@cache
def decoder() -> Path:
    """The program. Skips the test where it cannot be built here."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go here, which builds the decoder of Kubernetes")
    version = subprocess.run([go, "version"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    digest = hashlib.sha256(version.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"
    program = kept / f"decoder-{digest.hexdigest()[:16]}"
    if program.is_file():
        return program
    kept.mkdir(parents=True, exist_ok=True)
    made = program.with_name(f"{program.name}.{os.getpid()}")
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", str(made), "."],
        cwd=SOURCES,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        pytest.skip(f"Go cannot build the decoder of Kubernetes here: {done.stderr.strip()[-300:]}")
    made.replace(program)
    return program


def decoded(texts: Sequence[str]) -> list[Any]:
    """What each text says; an error of the decoder fails."""
    done = subprocess.run([decoder()], input=json.dumps(texts).encode(), capture_output=True, timeout=60, check=True)
    answers = json.loads(done.stdout)
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert not errors, errors[:3]
    return [answer.get("json") for answer in answers]
