"""Finds the rates and sizes at which requests wait for each other, since the machine is saturated.

    latencies of an arm -> [waiting] -> Wait by rate and size

The latency is then that of a queue, which grows as long as the slice goes on. So it holds neither for a longer slice
nor for other sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.profile_import.estimates import UNIT, middles
from admc.cost.profile_import.run_medians import Cell, Differences, Value

_BUSY: Final = Decimal("0.7")
LONGER: Final = 1 / (1 - _BUSY)
"""A worker that is busy for 70% of the time takes this many times as long as an idle one, if requests come at random
(the queue M/M/1)."""


class Wait(NamedTuple):
    """Median latencies, in microseconds: at a rate where requests wait, and at the lower rate where they take least."""

    latency: Decimal
    without: Decimal


def waiting(latencies: Differences) -> Mapping[Cell, Wait]:
    """The cells of an arm in which requests take more than `LONGER` times as long as at a lower rate.

    Without a queue, requests take less time at a higher rate, since a proxy that waits for requests gets cold. All
    turns count, and not only the calmest: if a queue comes and goes with a little stolen time, the machine is at its
    limit."""
    values: dict[Decimal, dict[Decimal, list[Value]]] = defaultdict(lambda: defaultdict(list))
    for cells in latencies.values():
        for (rate, size), value in cells.items():
            values[size][rate].append(value)
    waits: dict[Cell, Wait] = {}
    for size, by_rate in values.items():
        least: Decimal | None = None
        for rate, here in sorted(by_rate.items()):
            latency = _median(here)
            if least is not None and latency > LONGER * least > 0:
                waits[rate, size] = Wait(latency, least)
            least = latency if least is None else min(least, latency)
    return waits


def _median(values: Sequence[Value]) -> Decimal:
    return Decimal(middles([value.amount for value in values])) / (2 * UNIT)
