"""Many changes at about the same time become one push: after a quiet time, or at the latest after a longer one.

It knows no clock: whoever calls it says what time it is, in seconds of any clock that does not go back.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Debounce:
    """What is waiting, by key, and until when."""

    quiet: float
    """Seconds without a change after which it is passed on."""
    limit: float
    """Seconds after the first change after which it is passed on in any case."""
    _waiting: dict[str, tuple[float, float]] = field(default_factory=dict)
    """First and last change."""

    def changed(self, key: str, now: float, *, urgent: bool = False) -> float:
        """Something has changed; when it is due. What is urgent is due at once, unless other changes are waiting to go
        with it."""
        first, _ = self._waiting.get(key, (now, now))
        urgent = urgent and key not in self._waiting
        self._waiting[key] = (first - self.limit if urgent else first, now)
        return self._when(key)

    def due(self, now: float) -> tuple[str, ...]:
        """What is to be passed on now; it does not wait any more."""
        found = tuple(key for key in self._waiting if self._when(key) <= now)
        for key in found:
            del self._waiting[key]
        return found

    @property
    def next(self) -> float | None:
        """When something will be due."""
        return min(map(self._when, self._waiting), default=None)

    def _when(self, key: str) -> float:
        first, last = self._waiting[key]
        return min(last + self.quiet, first + self.limit)
