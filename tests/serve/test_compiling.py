"""The process that compiles, and whoever started it gone before it has begun: it leaves, and says nothing."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

SECONDS = 60.0


@pytest.mark.parametrize("first", ["connection", "lifeline", "both"])
def test_it_leaves_in_silence_when_it_has_lost_its_parent_while_it_starts(first: str) -> None:
    ours, theirs = multiprocessing.Pipe()
    read, write = os.pipe()
    command = [sys.executable, "-P", "-m", "admc.serve.compiling", str(theirs.fileno()), str(read)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, pass_fds=(theirs.fileno(), read), stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        theirs.close()
        os.close(read)
        if first != "lifeline":
            ours.close()
        if first != "connection":
            os.close(write)
        try:
            said = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
    if first == "lifeline":
        ours.close()
    elif first == "connection":
        os.close(write)
    assert (process.returncode, *said) == (0, b"", b"")
