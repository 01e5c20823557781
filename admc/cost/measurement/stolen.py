"""Reads the time that the host takes away from this virtual machine (`steal` in `/proc/stat`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from admc.cost.profile_import.calm import UNDISTURBED

STAT: Final = Path("/proc/stat")
STEAL: Final = 7
"""The index of the column in `STAT`."""
_COUNTED: Final = 8
"""How many columns are read: the time in later columns (guests) is counted in earlier ones already."""


def columns(stat: str) -> list[int]:
    """The ticks of all cores together, by what they were spent on."""
    return [int(number) for number in stat.splitlines()[0].split()[1:]][:_COUNTED]


class Ticks(NamedTuple):
    """Ticks of all cores since the machine was started."""

    all: int
    stolen: int

    @classmethod
    def now(cls) -> Ticks:
        return cls.read(STAT.read_text())

    @classmethod
    def read(cls, stat: str) -> Ticks:
        ticks = columns(stat)
        return cls(sum(ticks), ticks[STEAL])

    def share_since(self, before: Ticks) -> float:
        """The part of the time of all cores that was taken away. The kernel's counters may run back a little."""
        passed = self.all - before.all
        return min(1.0, max(0.0, (self.stolen - before.stolen) / passed)) if passed > 0 else 0.0


def disturbance(share: float) -> str | None:
    """The note about a measurement in which the host took this part of the time away; None if it is small."""
    if share <= UNDISTURBED:
        return None
    return (
        f"the host took {share:.1%} of the time of all cores away from this machine meanwhile; figures are those of "
        "the calmest turns, and may still be too high: measure at another time, or on a machine with cores of its own"
    )
