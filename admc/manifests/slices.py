"""The places of documents and of the objects of a list in the text of a file."""

from __future__ import annotations

from typing import Final, NamedTuple

ITEMS: Final = "items"
"""The key of a list's objects."""


class Slice(NamedTuple):
    """Characters `[start, end)` of a text."""

    start: int
    end: int
