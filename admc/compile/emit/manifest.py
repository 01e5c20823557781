"""The manifest of an emitted folder, as data: the files that admc wrote there.

Other programs can write to the folder, so the manifest may be hostile. Names that admc never gives to a file are
ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from dsl.documents import DocumentError, Given, document, read

MANIFEST = ".admc-manifest.json"
DEEPEST = 8
LONGEST = 255
"""The most characters of one part of a path."""
_DIGEST = re.compile(r"[0-9a-f]{64}")

Digests = Mapping[str, frozenset[str]]
"""Relative path -> digests of the content that admc wrote there: one, or two while an emit is under way."""


class Manifest(NamedTuple):
    """The files that admc wrote. `under_way`: an emit has begun and has not ended."""

    files: Digests
    under_way: bool = False


NONE = Manifest({})


@document
class _Content:
    files: Mapping[str, str | tuple[str, ...]]
    written_by: Given[str] = None
    under_way: Given[bool] = None


def to_json(manifest: Manifest) -> bytes:
    """The content of the file. A single digest is a string, as in the first release."""
    known = sorted(manifest.files.items())
    files = {name: min(digests) if len(digests) == 1 else sorted(digests) for name, digests in known}
    content = {"written_by": "admc", **({"under_way": True} if manifest.under_way else {}), "files": files}
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def from_json(content: bytes) -> Manifest:
    """The manifest; `NONE` if the content is not one."""
    try:
        stored = read(_Content, content)
    except DocumentError:
        return NONE
    known = {name: _digests(listed) for name, listed in stored.files.items() if _may_be_emitted(name)}
    return Manifest({name: digests for name, digests in known.items() if digests}, stored.under_way is True)


def _digests(listed: str | tuple[str, ...]) -> frozenset[str]:
    digests = (listed,) if isinstance(listed, str) else listed
    return frozenset(digest for digest in digests[:8] if _DIGEST.fullmatch(digest))


def _may_be_emitted(name: str) -> bool:
    """Whether a name is a relative path below the folder, without hidden parts such as `.git`."""
    path = PurePosixPath(name)
    fits = name.isascii() and name.isprintable() and name == str(path) and not path.is_absolute()
    parts = path.parts
    return fits and 0 < len(parts) <= DEEPEST and not any(part[0] == "." or len(part) > LONGEST for part in parts)
