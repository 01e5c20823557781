"""Filters out states that last only a moment, such as a pod that starts or a proxy that is about to acknowledge.

names at each check --> names that count

Where pods come and go all the time, some pod always lacks something for a moment, and some proxy is always about to
acknowledge an address. A condition that followed each of them would change with every check, and each change is a write
to the database of the whole cluster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

GRACE_SECONDS: Final = 5.0


class Debounce:
    """A name counts once it was there at each check for `GRACE_SECONDS`. A name that first appeared before `begin`, or
    within `GRACE_SECONDS` after it, counts at once: a new plan is not in force before all pods have it. Times are of a
    monotonic clock."""

    def __init__(self) -> None:
        self._began = -math.inf
        self._since: dict[str, float] = {}

    def begin(self, now: float) -> None:
        """Begin anew, because another plan is in force."""
        self._began = now

    def of(self, names: Iterable[str], now: float) -> list[str]:
        """Return those of the names at this check that count."""
        self._since = {name: self._since.get(name, now) for name in names}
        return [
            name
            for name, since in self._since.items()
            if since + GRACE_SECONDS <= now or since <= self._began + GRACE_SECONDS
        ]
