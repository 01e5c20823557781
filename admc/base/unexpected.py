"""The description of an error that admc does not expect, which is a bug in admc."""

from __future__ import annotations

import traceback
from pathlib import Path

PACKAGES = frozenset({"admc", "dsl", "solver", "emitters", "xds_server"})
MAX_MESSAGE = 300
"""Characters of the type and the message of an error. Some messages contain a whole file."""


def describe(error: Exception) -> str:
    """The error's type, its message, and the line of admc that raised it."""
    return f"{type(error).__name__}: {error}"[:MAX_MESSAGE] + f" ({_origin(error)})"


def _origin(error: Exception) -> str:
    """The innermost line of admc's own code."""
    root = Path(__file__).parents[2]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(root) and path.relative_to(root).parts[0] in PACKAGES:
            return f"at {path.relative_to(root).as_posix()}:{frame.lineno}"
    return "at an unknown place"
