"""`make test-cluster`: the tests that need programs of a cluster, as far as the cache has them.

    python -m tests.cluster                           builds nothing, and says what is missing
    python -m tests.cluster --build --seconds 1500    first builds etcd and kube-apiserver; ends within this time
    python -m tests.cluster -- -x -k token            words after `--` are for pytest

A build that takes too long is no failure: what needs it is skipped, and the last line says so. Tests that take too long
are one.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.cluster import tools
from tests.cluster.tools import debian
from tests.skipped import FILE, line, read

BUILD_SHARE = 0.6
"""Of the time, at most, for the builds."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster")
    parser.add_argument(
        "--build", action="store_true", help="build etcd and kube-apiserver first, where they are missing"
    )
    parser.add_argument("--seconds", type=float, help="until which everything has to end")
    parser.add_argument("pytest", nargs="*", help="more words for pytest, after --")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    if given.build and (lacking := tools.missing((tools.ETCD, tools.API_SERVER))):
        _build([program.name for program in lacking], given.seconds)
    _say_what_is_missing()
    left = None if given.seconds is None else max(0.0, given.seconds - (time.monotonic() - began))
    return _test(given.pytest, left)


def _build(names: list[str], seconds: float | None) -> None:
    limit = [] if seconds is None else ["--seconds", str(seconds * BUILD_SHARE)]
    subprocess.run([sys.executable, "-m", "tests.cluster.tools", *limit, *names])


def _say_what_is_missing() -> None:
    names = [program.name for program in tools.missing(tools.PROGRAMS)]
    try:
        debian.find()
    except tools.MissingError:
        names += debian.PACKAGES
    if names:
        print(f"the cache lacks {', '.join(names)}; tests that need them are skipped. `make tools` brings them")


def _test(words: list[str], seconds: float | None) -> int:
    with tempfile.TemporaryDirectory(prefix="admc-tests-") as folder:
        path = Path(folder) / "skipped"
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-m", "cluster", "tests", *words]
        process = subprocess.Popen(command, env={**os.environ, FILE: str(path)}, start_new_session=True)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            print(f"FAILED: the tests of the cluster did not end within {seconds:.0f} s", flush=True)
            code = 1
        except KeyboardInterrupt:
            code = 130
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        print(line(read(path)))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
