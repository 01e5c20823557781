"""What the server counts: plain numbers, for whoever shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Metrics:
    """Counters grow, gauges do not. Types are type URLs."""

    pushes: Counter[str] = field(default_factory=Counter)
    """Responses sent, by type."""
    pushed_bytes: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    acknowledgements: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    """Responses that clients refused, by type."""
    streams: Counter[str] = field(default_factory=Counter)
    """Streams that ended, by why: `closed` by the client, `age`, `drained`, `cut`, or the gRPC status with which they
    were refused."""
    snapshots: int = 0
    """Snapshots that were published and differed from the one before."""
    refused_snapshots: int = 0
    connected: int = 0
    """Gauge: streams that are open and whose client is known."""
    completed: int = 0
    """How often a client had acknowledged all that it can use of a snapshot."""
    completion_seconds: float = 0.0
    """The sum of the times from publication to that."""
