"""Reads the JSON of a versioned file, a plan or a difference. It may be hostile, half written or of another version."""

from __future__ import annotations

import json
import re
from typing import Final

MAX_VERSION: Final = 1 << 31
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
"""Also begins a whole character that is spelt as two halves."""


class JsonDocumentError(Exception):
    """The text is no such document. `newer`: it has a higher version than this admc reads."""

    def __init__(self, message: str, *, newer: bool = False) -> None:
        self.newer = newer
        super().__init__(message)


def versioned(content: bytes, newest: int) -> tuple[dict[str, object], int]:
    """A JSON object with a `schema_version` of at most `newest`, and that version. Raises `JsonDocumentError`."""
    document = _object(content)
    found = document.get("schema_version")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 < found < MAX_VERSION:
        raise JsonDocumentError("it has no `schema_version`")
    if found > newest:
        raise JsonDocumentError(f"it has schema version {found}, and this admc reads up to {newest}", newer=True)
    if _HALF.search(content) is not None:
        _refuse_half_characters(document)
    return document, found


def _object(content: bytes) -> dict[str, object]:
    try:
        document = json.loads(content.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise JsonDocumentError(f"byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise JsonDocumentError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise JsonDocumentError(f"line {error.lineno} is not JSON; the file may be cut short") from error
    except ValueError as error:  # numbers beyond what Python reads, and NaN
        raise JsonDocumentError("it has a number that JSON does not allow") from error
    if not isinstance(document, dict):
        raise JsonDocumentError("it is not a JSON object")
    return document


def _refuse_half_characters(document: object) -> None:
    """JSON can spell half of a character (`\\ud83d` alone), which no text has, and which nothing can print."""
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise JsonDocumentError("a text in it has half of a character") from error


def _no_constant(_name: str) -> object:
    raise ValueError("not a number")
