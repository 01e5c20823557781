"""What all tests share: the number of examples, a network for each worker, one line on what was skipped."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import isolation, properties
from tests.skipped import FILE, add, line, skipped

# A shell that starts a run in the background has it ignore Ctrl-C, and so has whatever a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

properties.register()
# A worker of `pytest -n`; a run without workers stays in the network in which its user looks at it.
if "PYTEST_XDIST_WORKER" in os.environ:
    isolation.enter()

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def alone() -> Iterator[None]:
    """Holds the loopback addresses of `Addresses.loopback` for one test, against all processes of the same network."""
    with (Path(tempfile.gettempdir()) / f"admc-testbed-{os.getuid()}-{isolation.network()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = skipped(terminalreporter.stats.get("skipped", []))
    if FILE in os.environ:
        add(Path(os.environ[FILE]), found)
    elif found:
        terminalreporter.write_line(line(found), yellow=True)
