"""The marker's name, and how what may have its value is shown to people: with stars in its place.

Its value is secret, and it is in route tables. Whoever may see what proxies have, or reads what a proxy said of a table
that it refused, learns nothing that an application could use.
"""

from __future__ import annotations

import re
from typing import Final

MARKER: Final = "x-admc-met"
"""Says that the sender has enforced what changes sides at this destination."""

_VALUE: Final = re.compile(rb"[0-9a-f]{64}")
_PART: Final = re.compile(r"[0-9a-f]{16,64}")
"""What was cut off may end in the middle of a value."""


def concealed(body: bytes) -> bytes:
    """A resource as it may be shown: as long as before, so that it can still be read."""
    return _VALUE.sub(b"*" * 64, body) if MARKER.encode() in body else body


def concealed_text(text: str) -> str:
    """What a proxy said of a resource, as it may be shown."""
    return _PART.sub(lambda found: "*" * len(found[0]), text) if MARKER in text else text
