"""Tests of whole applications on loopback use the same addresses: one at a time, whatever pytest runs beside them."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
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
    from collections.abc import Iterator


@pytest.fixture
def alone() -> Iterator[None]:
    """Holds the loopback addresses of `Addresses.loopback` for one test."""
    with (Path(tempfile.gettempdir()) / f"admc-testbed-{os.getuid()}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
