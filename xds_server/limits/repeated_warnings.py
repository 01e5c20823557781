"""Limits the log of warnings that a client can cause at will. An unknown client tries again as long as it runs.

The first few warnings of each address and reason are logged at once. Later, one line counts the others. The memory for
the counts is bounded for any number of addresses.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG: Final = logging.getLogger("xds_server")
LOGGED: Final = 3
"""The number of warnings of one sort that are logged. Further ones are counted."""
SECONDS: Final = 300.0
"""The time between two log lines with counts."""
SORTS: Final = 200
"""The number of sorts that are counted separately. All further sorts of one event are counted together."""
OTHERS: Final = "others"
"""The address in the log for all further sorts."""


class _Sort(NamedTuple):
    event: str
    host: str
    reason: str


class RepeatedWarnings:
    """Logs or counts warnings. All calls belong on one event loop."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._seen: Counter[_Sort] = Counter()
        """The occurrences of each sort since the last log line with counts."""
        self._timer: asyncio.TimerHandle | None = None

    def warn(self, event: str, host: str, reason: str, fields: Mapping[str, str | int]) -> None:
        """Log an event of a client at some address, or count it."""
        sort = _Sort(event, host, reason)
        if sort not in self._seen and len(self._seen) >= SORTS:
            sort = _Sort(event, OTHERS, "")
        self._seen[sort] += 1
        if self._seen[sort] <= LOGGED:
            LOG.warning(event, extra=dict(fields))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._count)

    def close(self) -> None:
        """Log the counts that have not been logged yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._count()

    def _count(self) -> None:
        self._timer = None
        seen, self._seen = self._seen, Counter()
        for sort, number in seen.items():
            if number > LOGGED:
                fields: dict[str, str | int] = {
                    "of": sort.event,
                    "peer": sort.host,
                    "reason": sort.reason,
                    "lines": number - LOGGED,
                }
                LOG.warning("left_out", extra=fields)


def host_of(peer: str) -> str:
    """The address of a peer without its port, as gRPC writes it."""
    return peer.rpartition(":")[0]
