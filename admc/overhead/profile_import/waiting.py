"""Where requests wait for each other: at such a rate and size the machine is saturated, and latency is that of a queue.

A queue grows for as long as the slice goes on, so its latency says nothing about a longer one, nor about other sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from admc.overhead.profile_import.calm import calmest
from admc.overhead.profile_import.estimates import UNIT, middles
from admc.overhead.profile_import.turns import Cell, Differences, Value

_BUSY: Final = Decimal("0.7")
LONGER: Final = 1 / (1 - _BUSY)
"""A worker that is busy for 70% of the time answers this many times later than an idle one, if requests come at random
(the queue M/M/1)."""


class Wait(NamedTuple):
    """Median latencies, in microseconds: at a rate where requests wait, and at the lowest rate with the same size."""

    latency: Decimal
    at_lowest: Decimal


def waiting(latencies: Differences) -> Mapping[Cell, Wait]:
    """The cells of an arm in which requests take more than `LONGER` times as long as at its lowest rate. A proxy that
    waits between requests wakes up cold, so without a queue they take less at a higher rate."""
    values: dict[Decimal, dict[Decimal, list[Value]]] = defaultdict(lambda: defaultdict(list))
    for cells in latencies.values():
        for (rate, size), value in cells.items():
            values[size][rate].append(value)
    found: dict[Cell, Wait] = {}
    for size, by_rate in values.items():
        lowest = _median(by_rate[min(by_rate)])
        for rate, here in by_rate.items():
            if (latency := _median(here)) > LONGER * lowest > 0:
                found[rate, size] = Wait(latency, lowest)
    return found


def _median(values: Sequence[Value]) -> Decimal:
    return Decimal(middles([value.amount for value in calmest(values, lambda each: each.stolen)])) / (2 * UNIT)
