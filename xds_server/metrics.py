"""The counters of the server, as plain numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Histogram:
    """Counts times, in seconds, by the smallest bound that is not exceeded. Times above all bounds are counted last."""

    bounds: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
    counts: list[int] = field(init=False)
    """One count for each bound, and one for longer times. A time is in exactly one count."""
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds


@dataclass(slots=True)
class Metrics:
    """Counters and gauges. Types are type URLs."""

    pushes: Counter[str] = field(default_factory=Counter)
    """Responses sent, by type."""
    pushed_bytes: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    acknowledgements: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    """NACKs, by type."""
    streams: Counter[str] = field(default_factory=Counter)
    """Streams that ended, by reason: `closed` by the client, `age`, `drained`, `cut`, or the gRPC status with which the
    server rejected them."""
    snapshots: int = 0
    """Snapshots that were published and differed from the one before."""
    refused_snapshots: int = 0
    connected: int = 0
    """Gauge: open streams of admitted clients."""
    denials: Counter[str] = field(default_factory=Counter)
    """Clients that were not admitted, by reason."""
    convergence: Histogram = field(default_factory=Histogram)
    """The time from the publication of a snapshot until a client that was connected at that moment has acknowledged all
    resources that it can use."""
