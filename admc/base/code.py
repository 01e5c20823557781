"""A code, with the explanation and the examples that `admc explain CODE` prints."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """`bad` and `good` are programs, or lines for a shell; empty where no example helps."""

    title: str
    explanation: str
    bad: str = ""
    good: str = ""
