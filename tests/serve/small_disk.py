"""A disk so small that it is soon full, seen by one server alone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.serve.server_process import Served


def small_disk(state: Path) -> tuple[str, ...]:
    """What a server is started by, so that a folder is such a disk to it; skips the test where nobody may mount."""
    unshare = shutil.which("unshare")
    tried = [str(unshare), "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if unshare is None or os.getuid() != 0 or subprocess.run(tried, capture_output=True).returncode != 0:
        pytest.skip("needs root, and leave to mount")
    state.mkdir()
    return unshare, "--mount", "/bin/sh", "-c", f'mount -t tmpfs -o size=256k none {state.name} && exec "$0" "$@"'


def fill_disk(server: Served, state: Path) -> Path:
    """Fill it with a file `ballast`, once the server has kept something; where the disk is to be seen."""
    server.until_event("compiled")
    disk = Path(f"/proc/{server.process.pid}/root{state}")
    server.until((disk / "state.json").exists)
    with pytest.raises(OSError, match="No space"):
        (disk / "ballast").write_bytes(bytes(1_000_000))
    return disk
