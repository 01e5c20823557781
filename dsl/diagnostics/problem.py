"""What is wrong with something that a program names, before it has a place."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    code: str
    message: str
    """A clause about `it`, without anything of what may be secret."""
    hint: str
