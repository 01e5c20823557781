"""Differences between the emitted configuration and the documents that nobody has mended yet.

Each is expected to fail, strictly: whoever mends one has to take its line away.
"""

from __future__ import annotations

import re
from typing import Final

_COPY = "Envoy makes no copy of a request that finds no healthy endpoint, though the mirror is declared outside of it"
_LATE_STATUS = (
    "an attempt whose gRPC status comes after headers of its own is not repeated: Envoy looks at the status only where "
    "it comes with the headers"
)
KNOWN: Final[tuple[tuple[str, str, str], ...]] = (
    (r"grpc: retry@egress\(attempts: 4, .*\)", "full compiled", _LATE_STATUS),
    (r"\w+: mirror((?:@egress)?)\(.*\) then outlier_detection\1\(.*\)", "full compiled", _COPY),
)
"""Pattern of the case's key, how it runs, and why it differs."""


def reason(key: str, how: str) -> str | None:
    """Why a case is expected to differ; None where it is not."""
    return next((why for pattern, hows, why in KNOWN if re.fullmatch(pattern, key) and how in hows.split()), None)
