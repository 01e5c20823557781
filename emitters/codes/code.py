"""The text of `admc explain CODE` for one code."""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """`good` and `bad` are lines of a program; empty where no example helps."""

    title: str
    explanation: str
    bad: str = ""
    good: str = ""
