"""The pause before the next attempt: twice as long each time, with jitter, so that replicas do not retry together."""

from __future__ import annotations

import random
from typing import Final

FIRST_SECONDS: Final = 0.2
MOST_SECONDS: Final = 10.0


class Backoff:
    def __init__(self, first: float = FIRST_SECONDS, most: float = MOST_SECONDS) -> None:
        self._first, self._most = first, most
        self._next = first

    def reset(self) -> None:
        """Begin again with the first pause, after a success."""
        self._next = self._first

    def seconds(self, at_least: float | None = None) -> float:
        """Return the next pause; at least as long as the server asks."""
        wait = self._next * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        self._next = min(self._next * 2, self._most)
        return wait if at_least is None else max(wait, at_least * random.uniform(1.0, 1.25))  # noqa: S311
