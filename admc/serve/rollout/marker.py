"""Names the marker, and replaces its value by stars in every text that people may read.

The value is secret, and route tables contain it. So a reader of the client status, or of a proxy's message about a
table that it refused, cannot see a value that an application could send.
"""

from __future__ import annotations

import re
from typing import Final

MARKER: Final = "x-admc-met"
"""The header by which a sender tells the receiver which plan it has enforced, on requests to a destination that
moves."""

_VALUE: Final = re.compile(rb"[0-9a-f]{64}")
_PART: Final = re.compile(r"[0-9a-f]{16,64}")
"""A text that was cut off may end in the middle of a value."""


def concealed(body: bytes) -> bytes:
    """Return a resource with stars in place of the value, and of the same length, so that it can still be parsed."""
    return _VALUE.sub(b"*" * 64, body) if MARKER.encode() in body else body


def concealed_text(text: str) -> str:
    """Return a proxy's message about a resource with stars in place of the value."""
    return _PART.sub(lambda match: "*" * len(match[0]), text) if MARKER in text else text
