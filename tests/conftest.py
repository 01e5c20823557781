"""Tests of whole applications on loopback use the same addresses: one at a time, whatever pytest runs beside them."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

# A shell that starts a run in the background has it ignore Ctrl-C, and so has whatever a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the machine has to do, and is no property of what is tried. The suite draws
# the same examples in every run, so that what fails has been changed; `--hypothesis-profile random` draws others.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("random"), derandomize=True)
settings.load_profile("suite")

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@pytest.fixture
def alone() -> Iterator[None]:
    """Holds the loopback addresses of `Addresses.loopback` for one test."""
    with (Path(tempfile.gettempdir()) / f"admc-testbed-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason to skip tests: how many it skipped, and where they are."""
    for line in skipped(terminalreporter.stats.get("skipped", [])):
        terminalreporter.write_line(line, yellow=True)


def skipped(reports: Iterable[pytest.TestReport]) -> list[str]:
    """The lines: "skipped 12: REASON (tests/bench 2, tests/serve 10)"."""
    by_reason: dict[str, Counter[str]] = {}
    for report in reports:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        folder = report.nodeid.partition("::")[0].rpartition("/")[0]
        by_reason.setdefault(reason.removeprefix("Skipped: "), Counter())[folder] += 1
    lines = []
    for reason, folders in sorted(by_reason.items()):
        places = ", ".join(f"{folder} {count}" for folder, count in sorted(folders.items()))
        lines.append(f"skipped {folders.total()}: {reason} ({places})")
    return lines
