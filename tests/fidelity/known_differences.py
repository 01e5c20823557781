"""Known differences between the emitted configuration and the documents.

Each is expected to fail, strictly: the change that mends one removes its line.
"""

from __future__ import annotations

import re
from typing import Final

KNOWN: Final[tuple[tuple[str, str, str], ...]] = ()
"""Pattern of the case's key, how it runs, and why it differs."""


def reason(key: str, how: str) -> str | None:
    """Why a case is expected to differ; None where it is not."""
    return next((why for pattern, hows, why in KNOWN if re.fullmatch(pattern, key) and how in hows.split()), None)
