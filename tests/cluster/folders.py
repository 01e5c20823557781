"""Temporary folders that a later run removes where their process could not: it was killed."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "admc-cluster-"
LOCK: Final = "lock"
"""A file in the folder, locked as long as its process lives."""


@contextmanager
def folder(*, keep: bool = False) -> Iterator[Path]:
    """A new folder; `keep`: it stays for a reader until the next run."""
    remove_abandoned()
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    with (made / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield made
        finally:
            if not keep:
                shutil.rmtree(made, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with path.open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(path.parent, ignore_errors=True)
