"""Small words of messages."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """`1 file`, `2 files`; `many` where an `s` does not do."""
    return f"{number} {one if number == 1 else many or one + 's'}"
