"""The text of a comment, with two hidden lines by which a later run recognises the comment and its age.

    differences as Markdown, Run -> [body]

    <!-- admc diff: TAG -->                      the tag
    <!-- admc run RUN.ATTEMPT DIGEST -->         the run that wrote the comment, and a digest of the content
    CONTENT

Tags are compared as a whole: `prod` is not `non-prod`.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

MAX_BYTES: Final = 65_000
"""GitHub accepts 65,536 characters."""
TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_MARK: Final = re.compile(r"<!-- admc run (\d{1,19})\.(\d{1,9}) ([0-9a-f]{64}) -->")


class Run(NamedTuple):
    """A run of a workflow. Of two runs, the larger is newer: GitHub numbers the runs of a repository in order."""

    run: int
    attempt: int


class Written(NamedTuple):
    """The content of the second hidden line of a comment."""

    run: Run
    digest: str
    """The digest of the content: equal for a later run with the same result."""


def first_line(tag: str) -> str:
    return f"<!-- admc diff: {tag} -->"


def body(tag: str, run: Run, content: str) -> str:
    return f"{first_line(tag)}\n<!-- admc run {run.run}.{run.attempt} {digest(content)} -->\n{content}"


def digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()


def has_tag(text: str, tag: str) -> bool:
    return _lines(text)[0] == first_line(tag)


def written(text: str) -> Written | None:
    """The run that wrote a comment, and its digest; None where the hidden line is missing or was edited."""
    lines = _lines(text)
    mark = _MARK.fullmatch(lines[1]) if len(lines) > 1 else None
    return None if mark is None else Written(Run(int(mark[1]), int(mark[2])), mark[3])


def joined(parts: list[str], head: str) -> str:
    """The parts, one after another, below a line about the change.

    Where all parts together are too long, the last ones are left out whole, and the last line counts them.
    """
    kept: list[str] = []
    size = len(head.encode()) + _RESERVED
    for number, part in enumerate(parts):
        size += len(part.encode()) + 2
        if size > MAX_BYTES:
            left = len(parts) - number
            kept.append(f"_{left} more {'program' if left == 1 else 'programs'}: see the summary of the run._")
            break
        kept.append(part.rstrip("\n"))
    return "\n\n".join([*([head] if head else []), *kept]) + "\n"


_RESERVED: Final = 500
"""Bytes for the hidden lines, and for the line that counts the parts that were left out."""


def _lines(text: str) -> list[str]:
    # GitHub returns a body with the line ends with which it was sent, and browsers send CR LF.
    return [line.rstrip("\r") for line in text.split("\n", 2)[:2]] or [""]
