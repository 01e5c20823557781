"""Combines changes in quick succession into one push: after a quiet time, or at the latest after a longer time.

This module reads no clock. The caller passes the time, in seconds of any clock that does not go back.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Debounce:
    """The keys with waiting changes, and the times until which they wait."""

    quiet: float
    """A key is due after this many seconds without a change ..."""
    limit: float
    """... and in any case this many seconds after its first change."""
    _waiting: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By key: the times of the first and the last change."""

    def changed(self, key: str, now: float, *, urgent: bool = False) -> float:
        """Note a change of a key; returns when the key is due. An urgent change is due at once, unless other changes of
        the key are waiting."""
        first, _ = self._waiting.get(key, (now, now))
        urgent = urgent and key not in self._waiting
        self._waiting[key] = (first - self.limit if urgent else first, now)
        return self._when(key)

    def due(self, now: float) -> tuple[str, ...]:
        """Remove and return the keys that are due."""
        due = tuple(key for key in self._waiting if self._when(key) <= now)
        for key in due:
            del self._waiting[key]
        return due

    @property
    def next(self) -> float | None:
        """When the next key will be due."""
        return min(map(self._when, self._waiting), default=None)

    def _when(self, key: str) -> float:
        first, last = self._waiting[key]
        return min(last + self.quiet, first + self.limit)
