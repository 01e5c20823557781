"""Events on standard error, each with a stable name and fields. One line of JSON for each, for programs:

    LOG.info("published", extra={"groups": 3})  ->
        {"time": ..., "level": "info", "logger": "admc.serve", "event": "published", "groups": 3}

or, for a user at a terminal, the same as text:

    06:30:02 info     published  groups=3

Records of other libraries have the event `message`, and their text in the field of that name.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from admc.base.findings.text import BOLD, RED, RESET, YELLOW
from admc.base.terminal import is_terminal, takes_colour, visible
from admc.serve.rollout.marker import concealed_text

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLACE: Final = frozenset({"code", "file", "line", "column"})
"""Fields that the `text` of a finding already contains."""
_INDENT: Final = "    "


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


class JsonLines(logging.Formatter):
    """Formats each record as one line: line breaks in its fields are escaped."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        head = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        return json.dumps(head | _fields(record))


class TextLines(logging.Formatter):
    """Formats sentences on indented lines below their event, so that no sentence can be mistaken for an event."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        event = str(fields.pop("event"))
        if "text" in fields:
            fields = {name: value for name, value in fields.items() if name not in _PLACE}
        words = {name: _words(value) for name, value in fields.items()}
        short = [f"{name}={value}" for name, value in words.items() if isinstance(value, str)]
        lines = [line for name, value in words.items() if not isinstance(value, str) for line in _below(name, value)]
        time = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        level = record.levelname.lower()
        tone = RED if record.levelno >= logging.ERROR else YELLOW if record.levelno >= logging.WARNING else ""
        first = " ".join([f"{time} {self._paint(tone, f'{level:<8}')} {self._paint(BOLD, event)} ", *short]).rstrip()
        return "\n".join([first, *lines])

    def _paint(self, style: str, text: str) -> str:
        return f"{style}{text}{RESET}" if self._colour and style else text


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The event and its fields."""
    message = concealed_text(record.getMessage())
    fields: dict[str, object] = (
        {"event": message} if message.isidentifier() else {"event": "message", "message": visible(message)}
    )
    fields |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
    if record.exc_info and record.exc_info[1] is not None:
        error = record.exc_info[1]
        fields["error"] = f"{type(error).__name__}: {error}"
    return {key: _shown(value) for key, value in fields.items()}


def _shown(value: object) -> object:
    """A field that is safe to show: without control sequences and without a rollout's marker. Its line breaks stay,
    because JSON escapes them, and the text form indents the lines after them."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (list, tuple)):
        return [_shown(part) for part in value]
    if isinstance(value, Mapping):
        return {str(_shown(key)): _shown(part) for key, part in value.items()}
    return "\n".join(map(visible, concealed_text(str(value)).split("\n")))


def _words(value: object) -> str | list[str]:
    """A field as one word for the line of its event, or as sentences for the lines below."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        items = [str(item) for item in value]
        return items if any(" " in item or "\n" in item for item in items) else ",".join(items) or "none"
    word = "none" if value is None else str(value)
    return [word] if " " in word or "\n" in word else word or '""'


def _below(name: str, sentences: list[str]) -> list[str]:
    text = "\n".join(sentences) if name in {"text", "message"} else f"{name}: " + "; ".join(sentences)
    return [(_INDENT + line).rstrip() for line in text.split("\n")]


def to_standard_error(form: LogFormat | None = None) -> None:
    """Write all log records of this process to standard error. Without a form, a terminal receives text and any other
    file JSON."""
    if form is None:
        form = LogFormat.TEXT if is_terminal(sys.stderr) else LogFormat.JSON
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form is LogFormat.JSON else TextLines(colour=takes_colour(sys.stderr)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
