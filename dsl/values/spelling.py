"""Spellings of a path: texts that RFC 3986, and servers that merge slashes, take for the same path."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")
_BEYOND_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_UNRESERVED: Final = re.compile("[A-Za-z0-9._~-]")


def normal_path(path: str) -> str:
    """The normal form of a path without its query: that of RFC 3986 (6.2.2), with repeated slashes merged.

    >>> [normal_path(path) for path in ("//a", "/a/./b/../c", "/%61", "/%2f", "/é", "*")]
    ['/a', '/a/c', '/a', '/%2F', '/%C3%A9', '*']
    """
    if not path.startswith("/"):
        return path
    segments: list[str] = []
    escaped = _BEYOND_ASCII.sub(lambda it: quote(it[0], errors="surrogateescape"), path)
    parts = _ESCAPE.sub(_unescaped, escaped).split("/")[1:]
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "..":
            del segments[-1:]
        elif part not in (".", ""):
            segments.append(part)
        if last and part in (".", "..", ""):
            segments.append("")
    return "/" + "/".join(segments)


def _unescaped(escape: re.Match[str]) -> str:
    letter = chr(int(escape[1], 16))
    return letter if _UNRESERVED.fullmatch(letter) else escape[0].upper()
