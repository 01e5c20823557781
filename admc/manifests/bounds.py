"""Bounds of what is built from a text, by which a small hostile text cannot take much memory or time."""

from __future__ import annotations

from typing import Final

MAX_DEPTH: Final = 60
MAX_VALUES = 2_000_000
"""The most keys and values that share a budget, where each use of an alias counts."""
MAX_TEXT = 64_000_000
"""The most characters of all scalars that share a budget."""
MAX_DOCUMENTS = 100_000
"""The most documents of a file: each of YAML has a parser of its own."""


class Budget:
    """What may still be built. All documents of a file share one, or each object has its own."""

    def __init__(self) -> None:
        self.values = MAX_VALUES
        self.characters = MAX_TEXT

    @property
    def is_spent(self) -> bool:
        return self.values < 0 or self.characters < 0
