"""Literals of type `path`: what a path of requests may begin with, as it stands in a request line."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

_OUTSIDE = re.compile(r"[^A-Za-z0-9\-._~!$&'()*+,;=:@/%]")
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Wrong(NamedTuple):
    """Why a text is no path, and what to write."""

    cause: str
    hint: str


def wrong_path(text: str) -> Wrong | None:
    """What is wrong with a path; None where nothing is. An empty one begins every path."""
    if text and not text.startswith("/"):
        return Wrong(
            "the path of a request begins with `/`",
            f'write `"/{text[:60]}"`' if wrong_path(f"/{text}") is None else "begin it with one `/`",
        )
    if text.startswith("//"):
        return Wrong("many a server takes what follows `//` for a host", "begin it with one `/`")
    if "?" in text or "#" in text:
        return Wrong("a path has no query and no fragment", "leave out the part from there on")
    outside = _OUTSIDE.search(text)
    if outside is not None:
        return Wrong("a character in it cannot stand in a request line", f"write it as `{quote(outside[0])}`")
    if _ESCAPE.search(text):
        return Wrong("`%` begins two hexadecimal digits", "write `%25` for `%` itself")
    return None
