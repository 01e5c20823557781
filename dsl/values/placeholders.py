"""Arguments with a `*` or a parameter of a path (`:id`): other languages replace these, and this one does not."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_IN_PATHS: Final = re.compile(r"\*+$|(?<=/)\*+(?=/)|\.\*|\$[0-9]|(?<=/):[A-Za-z_][A-Za-z0-9_]*")
"""Parts of paths that are most likely mistakes. A `*` between other letters is none: paths may have one."""


class Placeholder(NamedTuple):
    """The error of a text that stands for itself, with advice."""

    message: str
    cause: str
    hint: str


def placeholder(text: str) -> Placeholder | None:
    """A `*` in a text that is compared as a whole; None if there is none."""
    if "*" not in text:
        return None
    return _wrong("*", text, "the text is compared as a whole", "give the whole text")


def placeholder_in_header(name: str) -> Placeholder | None:
    """A `*` in the name of a header; None if there is none."""
    return _wrong("*", name, "a name is that of one header", "write a policy for each header") if "*" in name else None


def placeholder_in_path(text: str) -> Placeholder | None:
    """A part of the beginning of a path that rewrites of other languages replace; None if there is none."""
    placeholder = _IN_PATHS.search(text)
    if placeholder is None:
        return None
    cause = "it is the beginning of a path, compared and written character by character"
    return _wrong(placeholder[0], text, cause, "write the beginning only; what follows it stays")


def _wrong(part: str, text: str, cause: str, hint: str) -> Placeholder:
    return Placeholder(f"`{part}` in `{text[:60]}` would stand for itself", cause, hint)
