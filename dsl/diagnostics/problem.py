"""A problem of something that a program names, such as a file, without the place in the program."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    code: str
    message: str
    """A clause with the subject `it`. It quotes nothing that may be secret."""
    hint: str
