"""Reads a difference that `admc diff --format json` wrote.

    bytes -> Diff

The file may be hostile, cut short or written by another version, and is then refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from admc.base.exits import wrong_usage
from admc.base.files import read_bounded
from admc.base.terminal import visible
from admc.review.diff.model import STRICTER, WEAKER, Diff, Finding, Word
from dsl.documents import DocumentError, read

MAX_BYTES: Final = 256_000_000


def read_diff(path: Path) -> Diff:
    """The difference in a file. Raises `CommandError` (exit 1) if the file contains no valid difference."""
    return diff_of(read_bounded(path, MAX_BYTES, "the difference"), path)


def diff_of(content: bytes, path: Path) -> Diff:
    """The difference in the content of a file. Raises `CommandError` (exit 1) if that is no valid difference."""
    try:
        return from_json(content)
    except DocumentError as error:
        raise wrong_usage(
            "ADM839",
            f"`{visible(str(path))}` is not a difference that admc can read",
            cause=error.message,
            hint="write it again: `admc diff BASE HEAD --format json -o DIFF.json`",
        ) from error


def from_json(content: bytes) -> Diff:
    """The difference in a document. Raises `DocumentError`."""
    diff = read(Diff, content)
    _check_words("weaker", diff.weaker, WEAKER)
    _check_words("stricter", diff.stricter, STRICTER)
    _check_words("gone", diff.gone, (Word.GONE_WITH_ITS_CALL,))
    return diff


def _check_words(where: str, findings: tuple[Finding, ...], words: tuple[Word, ...]) -> None:
    """Refuse a finding in the wrong list, so that a weaker finding is never listed as stricter."""
    for index, finding in enumerate(findings):
        if finding.word not in words:
            raise DocumentError(f"`{where}[{index}].word` must not be `{finding.word.value}`")
