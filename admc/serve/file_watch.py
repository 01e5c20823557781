"""Says when files have changed, whichever way: written in place, replaced by an editor, or swapped behind a link.

Looked at ten times a second and not by the kernel's notices: a look costs 2 microseconds a file, works the same on
every file system and through any chain of links (a mounted ConfigMap is two), and cannot overflow or lose its place
when a folder is replaced. It costs 50 ms of delay on average, beside which a compile takes longer.

A change is passed on once the files have been quiet for a moment, so that what is half written is not read. What is
written within one tick of the file system's clock could look unchanged; after a quiet moment it cannot.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LOOK_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 0.04
QUIET_LIMIT_SECONDS: Final = 2.0
"""Files that never are quiet are read all the same."""


class FileStat(NamedTuple):
    """What one file looked like: another file, content or owner has another one."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


Signature = dict["Path", FileStat | None]
"""None: there was no file that could be looked at."""


def look(path: Path) -> FileStat | None:
    """What a file looks like now; links are followed."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return FileStat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


async def signature(paths: Iterable[Path]) -> Signature:
    """What files look like now. In a thread: a network file system may take its time."""
    return await asyncio.to_thread(lambda: {path: look(path) for path in paths})


async def until_changed(seen: Signature, *, quiet: float = QUIET_SECONDS) -> None:
    """Wait until files look otherwise than they did, and have done so for a quiet moment."""
    while (found := await signature(seen)) == seen:
        await asyncio.sleep(LOOK_SECONDS)
    deadline = time.monotonic() + QUIET_LIMIT_SECONDS
    while time.monotonic() < deadline:
        await asyncio.sleep(quiet)
        latest = await signature(seen)
        if latest == found:
            return
        found = latest
