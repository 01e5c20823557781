"""Words for sentences of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def few(phrases: Sequence[str], most: int) -> str:
    """Return the first phrases, and the number of the others.

    >>> few(["a", "b", "c"], 3), few(["a", "b", "c"], 2)
    ('a, b, c', 'a, b and 1 more')
    """
    shown = ", ".join(phrases[:most])
    return f"{shown} and {len(phrases) - most:,} more" if len(phrases) > most else shown
