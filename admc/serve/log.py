"""One line of JSON for each event, on standard error: a stable name, and what belongs to it.

    LOG.info("published", extra={"groups": 3})  ->  {"time": ..., "level": "info", "event": "published", "groups": 3}

Whatever other modules log comes out the same way, their sentence as `message`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final

from admc.terminal import visible
from admc.transition.marker import concealed_text

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Never more than one line for a record, whatever a client or a file put into it."""

    def format(self, record: logging.LogRecord) -> str:
        said = concealed_text(record.getMessage())
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        line |= {"event": said} if said.isidentifier() else {"event": "message", "message": visible(said)}
        line |= {key: _shown(value) for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line["error"] = f"{type(error).__name__}: {error}"
        return json.dumps(line, default=str)


def _shown(value: object) -> object:
    """A field as it may be shown: what a proxy or a file put into it takes over no terminal and gives away no marker.
    Its line breaks stay, since JSON writes them as two characters."""
    if isinstance(value, str):
        return "\n".join(map(visible, concealed_text(value).split("\n")))
    if isinstance(value, (list, tuple)):
        return [_shown(item) for item in value]
    return value


def to_standard_error() -> None:
    """Send all records of this process there."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
