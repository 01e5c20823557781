"""Words for sentences of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def few(phrases: Sequence[str], most: int, number: int | None = None) -> str:
    """Return the first phrases, and the number of the others. `number` is that of all, if only the first are given.

    >>> few(["a", "b", "c"], 3), few(["a", "b", "c"], 2), few(["a", "b"], 2, 9)
    ('a, b, c', 'a, b and 1 more', 'a, b and 7 more')
    """
    shown = ", ".join(phrases[:most])
    number = len(phrases) if number is None else number
    return f"{shown} and {number - most:,} more" if number > most else shown
