"""Temporary folders that go with their process, also where it is killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX: Final = "admc-cluster-"
_REMOVER: Final = Path(__file__).with_name("remover.py")


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder. It is removed at the end, and so are the cgroups of its name, by a process of its own."""
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    remover = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_REMOVER), str(made)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield made
    finally:
        remover.communicate()
