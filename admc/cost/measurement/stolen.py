"""The time that the host of a virtual machine takes away from it (`steal` in `/proc/stat`)."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from admc.cost.profile_import.calm import UNDISTURBED

STAT: Final = Path("/proc/stat")
STEAL: Final = 7
"""Of the columns of `STAT`."""
_COUNTED: Final = 8
"""The columns after these (guests) are counted in the first ones already."""


def columns(stat: str) -> list[int]:
    """The ticks of all cores together, by what they were spent on."""
    return [int(number) for number in stat.splitlines()[0].split()[1:]][:_COUNTED]


class Ticks(NamedTuple):
    """Of all cores, since the machine was started."""

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
    """What to say of a measurement in which the host took so much of the time away."""
    if share <= UNDISTURBED:
        return None
    return (
        f"the host took {share:.1%} of the time of all cores away from this machine meanwhile; figures are those of "
        "the calmest turns, and may still be too high: measure at another time, or on a machine with cores of its own"
    )
