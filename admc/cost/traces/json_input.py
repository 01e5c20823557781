"""Reads JSON from untrusted files: one document, or one on each line, with limits on bytes, depth and numbers.

    file -> [documents] -> line and document, one after the other

The parser does not keep the position of a value. So an error names the line, and a finding the number of the span.
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
"""Most bytes of one document. In a file with one document on each line, this is the limit of a line."""
MAX_BLANKS: Final = 1 << 16

NO_SPAN: Final = "0" * 16
"""An id that OpenTelemetry and W3C's trace context forbid. Some exporters write it for a missing parent."""


def documents(path: Path, drops: Drops) -> Iterator[tuple[int, Any]]:
    """Each document with the line on which it begins. Raises `CommandError`.

    The last of several lines may be cut off, because its writer goes on or was killed: such a line is skipped and
    counted.
    """
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
    """Whether `line` is the beginning of a document, without its end."""
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
    """The objects in the list `value[key]`; empty if there is no such list."""
    elements = value.get(key) if isinstance(value, dict) else None
    return [element for element in elements if isinstance(element, dict)] if isinstance(elements, list) else []


def parent_id(value: Any) -> str:
    """The id of a parent; empty if there is none, also where the exporter wrote zeros."""
    span_id = text(value)
    return "" if span_id == NO_SPAN else span_id


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def whole(value: Any) -> int:
    """The whole number, also if it is written as text; -1 if `value` is no whole number."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 20:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
