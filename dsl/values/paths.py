"""Literals of type `path`: the beginning of a request's path, as in a request line."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

_OUTSIDE = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/%]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class InvalidPath(NamedTuple):
    """The reason why a text is not a path, with advice."""

    cause: str
    hint: str


def check_path(text: str) -> InvalidPath | None:
    """The error of a path, or None. An empty path is valid: it is a prefix of every path."""
    if text and not text.startswith("/"):
        return InvalidPath(
            "the path of a request begins with `/`",
            f'write `"/{text[:60]}"`' if check_path(f"/{text}") is None else "begin it with one `/`",
        )
    if text.startswith("//"):
        return InvalidPath("many servers read the text after `//` as a host", "begin it with one `/`")
    if "?" in text or "#" in text:
        return InvalidPath("a path has no query and no fragment", "leave out the part from there on")
    outside = _OUTSIDE.search(text)
    if outside is not None:
        return InvalidPath(
            "it contains a character that a request line cannot have", f"write it as `{quote(outside[0])}`"
        )
    if _ESCAPE.search(text):
        return InvalidPath("`%` begins two hexadecimal digits", "write `%25` for `%` itself")
    return None
