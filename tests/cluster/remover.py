"""Remove a folder, and the cgroups of its name, when the process that started this one closes its side of a pipe.

    python -I -S remover.py FOLDER

The system closes the pipe of a process that is killed, so what it leaves is removed, too. Its own processes get SIGKILL
at that moment, and hold cgroups until they are gone: what is busy is tried again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

SECONDS = 20.0
CGROUPS = Path("/sys/fs/cgroup")


def main(folder: Path) -> int:
    sys.stdin.read()
    until = time.monotonic() + SECONDS
    while not remove(folder):
        if time.monotonic() > until:
            print(f"{folder} or a cgroup of its name is in use, and is left behind", file=sys.stderr)
            return 1
        time.sleep(0.1)
    return 0


def remove(folder: Path) -> bool:
    """Whether everything is gone."""
    roots = [path for path in [CGROUPS / folder.name, *CGROUPS.glob(f"*/{folder.name}")] if path.is_dir()]
    for root in roots:
        for path, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):
                Path(path).rmdir()
    if any(root.exists() for root in roots):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
