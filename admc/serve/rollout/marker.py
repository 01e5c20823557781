"""The marker's name, and how a text that may have its value is shown to people: with stars in its place.

Its value is secret, and it is in route tables. A reader of client status, or of a proxy's message about a table that it
refused, learns nothing that an application could use.
"""

from __future__ import annotations

import re
from typing import Final

MARKER: Final = "x-admc-met"
"""The header by which a sender says what it has enforced, at a destination that moves."""

_VALUE: Final = re.compile(rb"[0-9a-f]{64}")
_PART: Final = re.compile(r"[0-9a-f]{16,64}")
"""A text that was cut off may end in the middle of a value."""


def concealed(body: bytes) -> bytes:
    """A resource as it may be shown: as long as before, so that it can still be read."""
    return _VALUE.sub(b"*" * 64, body) if MARKER.encode() in body else body


def concealed_text(text: str) -> str:
    """A proxy's message about a resource, as it may be shown."""
    return _PART.sub(lambda match: "*" * len(match[0]), text) if MARKER in text else text
