"""JSON of strangers: one document, or one a line, with limits on bytes, depth and numbers.

The parser keeps no place of a value, so an error names the line of the document, and a finding the number of its span.
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from admc.base.exits import CommandError
from admc.cost.traces.drops import Drops, Note
from admc.cost.traces.failures import unreadable

MAX_FILE: Final = 2_000_000_000
MAX_DOCUMENT: Final = 100_000_000
"""Most bytes of one document: in a file with one a line, of a line."""
MAX_BLANKS: Final = 1 << 16

NO_SPAN: Final = "0" * 16
"""An id that no span can have, by the specifications of OpenTelemetry and of W3C's trace context."""


def documents(path: Path, drops: Drops) -> Iterator[tuple[int, Any]]:
    """Each document with the line on which it begins. The last of several lines may be cut off, as a program leaves it
    that writes on or was killed: it is skipped and counted. Raises `CommandError`."""
    try:
        with path.open("rb") as stream:
            yield from _documents(path, stream, drops)
    except OSError as error:
        raise unreadable(path, (error.strerror or "the system refused").lower()) from error


def _documents(path: Path, stream: Any, drops: Drops) -> Iterator[tuple[int, Any]]:
    read = 0
    number = 0
    begun = False
    while line := stream.readline(MAX_DOCUMENT + 1):
        number += 1
        read += len(line)
        if read > MAX_FILE:
            raise unreadable(path, f"it has more than {MAX_FILE:,} bytes")
        if len(line) > MAX_DOCUMENT:
            raise _too_long(path, number)
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        if not line.strip():
            continue
        if not begun and not _is_whole(line):
            rest = stream.read(MAX_DOCUMENT + 1)
            if len(line) + len(rest) > MAX_DOCUMENT:
                raise _too_long(path, number)
            yield number, _parsed(path, line + rest, number)
            return
        try:
            document = _parsed(path, line, number)
        except CommandError:
            if not begun or not _is_cut_off(line) or stream.read(MAX_BLANKS).strip():
                raise
            drops.note(Note.TORN)
            return
        begun = True
        yield number, document


def _too_long(path: Path, line: int) -> CommandError:
    return unreadable(
        path,
        f"the document that begins on line {line} has more than {MAX_DOCUMENT:,} bytes",
        "write one document a line, as the file exporter of the OpenTelemetry collector does",
    )


def _is_cut_off(line: bytes) -> bool:
    """Whether it is the beginning of a document, and no more."""
    text = line.decode("utf-8", "ignore").rstrip().rstrip("+-.eE0123456789")  # a number may be cut off anywhere
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        left = text[error.pos :]
        if error.msg.startswith("Unterminated string") or (error.msg.startswith("Invalid \\u") and '"' not in left):
            return True
        return any(
            literal.startswith(left) for literal in ("true", "false", "null", "-", "NaN", "Infinity", "-Infinity")
        )
    except (ValueError, RecursionError):
        return False
    return False


def _is_whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _parsed(path: Path, text: bytes, line: int) -> Any:
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise unreadable(path, f"line {line + error.lineno - 1}: it is no JSON: {error.msg.lower()}") from error
    except RecursionError as error:
        raise unreadable(path, f"line {line}: it is nested too deep") from error
    except ValueError as error:
        raise unreadable(path, f"line {line}: it has a number or text that cannot be read") from error


def _no_number(text: str) -> NoReturn:
    raise ValueError(text)


def entries(value: Any, key: str) -> list[dict[str, Any]]:
    """The objects in the list `key` of an object; empty if there are none."""
    elements = value.get(key) if isinstance(value, dict) else None
    return [element for element in elements if isinstance(element, dict)] if isinstance(elements, list) else []


def parent_id(value: Any) -> str:
    """The id of a parent; empty if there is none, which some exporters write as zeros."""
    span_id = text(value)
    return "" if span_id == NO_SPAN else span_id


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """A whole number, also if it is written as text; -1 if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
