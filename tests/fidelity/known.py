"""Differences between the emitted configuration and the documents that nobody has mended yet.

Each is expected to fail, strictly: whoever mends one has to take its line away.
"""

from __future__ import annotations

import re
from typing import Final

_BUFFER = (
    "a body that has arrived while an outer filter held the request up is not measured: Envoy's buffer limit only sees "
    "what comes after it"
)
_COPY = "Envoy makes no copy of a request that finds no healthy endpoint, though the mirror is declared outside of it"
_LATE_STATUS = (
    "an attempt whose gRPC status comes after headers of its own is not repeated: Envoy looks at the status only where "
    "it comes with the headers"
)
KNOWN: Final[tuple[tuple[str, str, str], ...]] = (
    (r"grpc: retry@egress\(attempts: 4, .*\)", "full compiled", _LATE_STATUS),
    (r"http: external_authorization((?:@\w+)?)\(service: judge\) then buffer_limit\1\(.*\)", "full compiled", _BUFFER),
    (r"http: fault_delay(@\w+)\(.*\) then buffer_limit\1\(.*\)", "compiled", _BUFFER),
    (r"http: fault_delay\(.*\) then buffer_limit\(.*\)", "compiled", _BUFFER),
    (r"\w+: mirror((?:@egress)?)\(.*\) then outlier_detection\1\(.*\)", "full compiled", _COPY),
)
"""Pattern of the case's key, how it runs, and why it differs."""


def reason(key: str, how: str) -> str | None:
    """Why a case is expected to differ; None where it is not."""
    return next((why for pattern, hows, why in KNOWN if re.fullmatch(pattern, key) and how in hows.split()), None)
