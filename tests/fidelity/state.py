"""What outlasts a request: buckets of quotas, ejected endpoints, how often a request has arrived.

A bucket is known within bounds only: a period may be counted from anywhere, and it is not observable at which instant
between a request and its answer the bucket was asked.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields
from math import floor

Place = tuple[str, str]
"""Policy and destination: state is kept for these two (rule R5)."""


@dataclass
class Bucket:
    """`burst` tokens at first, `amount` more every `period` seconds, never more than `burst`."""

    burst: int
    amount: int
    period: float
    least: float
    most: float
    """What there is at `since`; below nothing, where only tokens that came after that can have been taken."""
    since: float
    whole: float
    """The last instant that a whole period is counted from, at the latest."""

    def refill(self, now: float) -> None:
        """Steadily at the most, and in whole periods at the least."""
        self.most = self.most_by(now)
        periods = floor((now - self.whole) / self.period)
        if periods > 0:
            self.least = min(self.burst, self.least + self.amount * periods)
            self.whole += periods * self.period
        self.since = now

    def most_by(self, instant: float) -> float:
        """How many there can be at an instant after `since`, if none is taken until then."""
        elapsed = instant - self.since
        # A period may have begun before the first request: its amount can come at any instant once.
        early = self.amount if elapsed >= self.period else 0
        return min(self.burst, self.most + self.amount * elapsed / self.period + early)


@dataclass
class World:
    buckets: dict[Place, Bucket] = field(default_factory=dict)
    errors: dict[Place, int] = field(default_factory=dict)
    """Errors in a row of a destination, for outlier detection."""
    ejected: dict[Place, tuple[float, float, float]] = field(default_factory=dict)
    """Since when an endpoint is ejected, from when on an ejected endpoint may be back, and from when on it is."""
    ejections: dict[Place, int] = field(default_factory=dict)
    """How often an endpoint has been ejected."""
    inside: dict[Place, int] = field(default_factory=dict)
    """Of a group of requests that are sent at once: how many were let in."""
    asked: dict[Place, int] = field(default_factory=dict)
    """And how many have asked."""
    arrivals: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a request, by its name, reached a service."""

    def copied(self) -> World:
        """A world of its own. Of its values only buckets change in place."""
        kept = {each.name: dict(getattr(self, each.name)) for each in fields(self)}
        return World(**{**kept, "buckets": {place: copy.copy(bucket) for place, bucket in self.buckets.items()}})
