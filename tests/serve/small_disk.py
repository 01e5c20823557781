"""A disk so small that it is soon full, mounted for one server."""

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
    """The start of a server's command that mounts such a disk on a folder; skips the test where mounts are not
    allowed."""
    unshare = shutil.which("unshare")
    tried = [str(unshare), "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if unshare is None or os.getuid() != 0 or subprocess.run(tried, capture_output=True).returncode != 0:
        pytest.skip("needs root, and leave to mount")
    state.mkdir()
    return unshare, "--mount", "/bin/sh", "-c", f'mount -t tmpfs -o size=256k none {state.name} && exec "$0" "$@"'


def fill_disk(server: Served, state: Path) -> Path:
    """Fill it with a file `ballast`, once the server has stored a state; returns the path of the disk."""
    server.until_event("compiled")
    disk = Path(f"/proc/{server.process.pid}/root{state}")
    server.until((disk / "state.json").exists)
    with pytest.raises(OSError, match="No space"):
        (disk / "ballast").write_bytes(bytes(1_000_000))
    return disk
