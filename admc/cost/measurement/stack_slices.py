"""Measures slices in which the stacks of a sidecar are sampled.

    loads -> [StackSlices] -> a row for each part, with its cores by the stacks

Taking stacks takes CPU. So the CPU of a hop comes from other slices, and stacks give the proportion of its parts.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from admc.cost.measurement.bed import Bed, Load
from admc.cost.measurement.sampler import CannotSampleError, Sampler, period_for
from admc.cost.measurement.stacks import LostError
from admc.cost.measurement.table import Channel, Row
from admc.cost.profile_import import runs
from admc.cost.profiles.profile import WHOLE

IDLE_SECONDS: Final = 1.0
_IDLE_CORES: Final = 0.002


class StackSlices:
    """If stacks cannot be sampled, nothing is measured, and a note says why."""

    def __init__(self, bed: Bed, idle: str, channel: Channel) -> None:
        """`idle` is the pod whose sidecar is sampled without requests."""
        self._bed = bed
        self._idle = idle
        self._channel = channel
        self._sampler: Sampler | None = None
        self._stacks = 0
        try:
            self._sampler = Sampler()
            with self._sampler.sampling(bed.sidecars[idle].pid, period_for(1.0, 1.0)):
                pass
        except CannotSampleError as error:
            self._refused(error)

    @property
    def allowed(self) -> bool:
        return self._sampler is not None

    def idle(self, turn: str) -> None:
        """Measure a slice without requests. Its CPU belongs to no hop."""
        self._slice(self._idle, [], IDLE_SECONDS, 0.0, _IDLE_CORES, turn)

    def under(self, pod: str, loads: Sequence[Load], seconds: float, warm: float, cores: float, turn: str) -> None:
        """Measure a slice with loads, the first of which passes the sidecar. `cores` is the CPU of the sidecar."""
        self._slice(pod, loads, seconds, warm, cores, turn)

    def _slice(self, pod: str, loads: Sequence[Load], seconds: float, warm: float, cores: float, turn: str) -> None:
        if self._sampler is None:
            return
        began = time.monotonic()
        try:
            with self._sampler.sampling(self._bed.sidecars[pod].pid, period_for(cores, seconds)) as samples:
                measured = self._bed.measure(loads, seconds, warm, [pod])
                took = time.monotonic() - began
        except LostError as error:
            self._channel.note(f"stacks of a slice are left out, since {error}")
            return
        except CannotSampleError as error:
            self._refused(error)
            return
        (sampled,) = samples
        if any(one.failed for one in measured.loads):
            return  # the slices without stacks have a note about it
        self._stacks += sampled.stacks.total()
        self._channel.fact("stacks", self._stacks)
        protocol, rate, size = (loads[0].to.protocol, loads[0].rate, loads[0].size) if loads else (None, None, None)
        for part in runs.PARTS:
            share = sampled.stacks[part] * sampled.period / 1e9 / took
            self._channel.row(Row(turn, runs.Arm(runs.PART + part), protocol, rate, size, None, share))

    def _refused(self, error: CannotSampleError) -> None:
        self._sampler = None
        self._channel.note(f"hops have one part, `{WHOLE}`, since no stacks can be sampled: {error}")
