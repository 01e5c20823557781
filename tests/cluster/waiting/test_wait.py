"""The program of the init container by itself."""

from __future__ import annotations

import subprocess
import sys

from tests.cli.command import ROOT


def test_the_wait_loads_grpc_and_nothing_of_the_compiler() -> None:
    probe = (
        "import sys; import admc.pod.wait; "
        "print(sorted({name.partition('.')[0] for name in sys.modules} & "
        "{'dsl', 'solver', 'emitters', 'xds_server', 'ortools', 'yaml', 'kubernetes', 'google'}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, timeout=60)
    assert done.stdout.decode().strip() == "[]", done.stderr


def test_wrong_arguments_end_it_with_1() -> None:
    command = [sys.executable, "-m", "admc.pod", "wait", "--server", "a:1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 1
    assert b"--ca" in done.stderr
