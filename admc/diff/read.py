"""Reads a difference that `admc diff --format json` wrote. The file may be hostile, cut short or of another version."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from admc.diff.model import SCHEMA_VERSION, STRICTER, WEAKER, Diff, Finding, Word
from admc.exits import wrong_usage
from admc.files import read_bounded
from admc.json_document import JsonDocumentError, versioned
from admc.terminal import visible
from admc.typed_json import JsonTypeError, parse
from dsl.collector import no_collection

MAX_BYTES: Final = 256_000_000


class DiffFormatError(Exception):
    """The text is not a difference that this admc can read."""


def read_diff(path: Path) -> Diff:
    """The difference in a file. Raises `CommandError` (exit 1) where there is none."""
    content = read_bounded(path, MAX_BYTES, "the difference")
    try:
        return from_json(content)
    except DiffFormatError as error:
        raise wrong_usage(
            "ADM839",
            f"`{visible(str(path))}` is not a difference that admc can read",
            cause=str(error),
            hint="write it again: `admc diff BASE HEAD --format json -o DIFF.json`",
        ) from error


@no_collection()
def from_json(content: bytes) -> Diff:
    """Raises `DiffFormatError`."""
    try:
        document, version = versioned(content, SCHEMA_VERSION)
        if version < SCHEMA_VERSION:
            raise DiffFormatError(f"it has schema version {version}, and this admc reads {SCHEMA_VERSION}")
        diff = parse(Diff, document)
        _check_words("weaker", diff.weaker, WEAKER)
        _check_words("stricter", diff.stricter, STRICTER)
        _check_words("gone", diff.gone, (Word.GONE_WITH_ITS_CALL,))
    except JsonDocumentError as error:
        raise DiffFormatError(str(error)) from error
    except JsonTypeError as error:
        raise DiffFormatError(f"`{error.where or 'the difference'}` {error.what}") from error
    return diff


def _check_words(where: str, findings: tuple[Finding, ...], words: tuple[Word, ...]) -> None:
    """A finding stands in the list of its word: what is weaker is never listed as stricter."""
    for index, finding in enumerate(findings):
        if finding.word not in words:
            raise JsonTypeError(f"{where}[{index}].word", f"must not be `{finding.word.value}`")
