"""From what was measured to what is printed: percentiles of one window, medians over rounds, ratios within a round.

A ratio compares two arms of one round, which ran next to each other, and then the median of the rounds is taken: what
drifts on a machine in the course of minutes touches both sides of it alike.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Metric
from tests.bench.measure import Spread, spread
from tests.testbed.mesh import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Arm(StrEnum):
    """What is compared."""

    NONE = "none"
    FULL = "full"
    ADMS = "by adms"
    CPU = "by cpu"
    LATENCY = "by latency"
    NETWORK = "with network"
    """By the number of ADMs, in a program that says `network_policies enforced`."""

    @property
    def mode(self) -> Mode:
        return {Arm.NONE: Mode.NONE, Arm.FULL: Mode.FULL}.get(self, Mode.COMPILED)


COMPILED: Final = {
    Arm.ADMS: Metric.ADMS,
    Arm.CPU: Metric.CPU,
    Arm.LATENCY: Metric.LATENCY,
    Arm.NETWORK: Metric.ADMS,
}
"""The compiled arms, and the metric that each minimizes first."""


class Outcome(NamedTuple):
    """One request. Both times are nanoseconds since it should have been sent: until it was, and until its answer."""

    late: int
    took: int
    marked: bool
    status: str


class Use(NamedTuple):
    """What some processes used in one window: CPU seconds; bytes at its end, shared pages in part (PSS) or whole."""

    processes: int
    cpu: float
    pss: int
    rss: int


class Window(NamedTuple):
    """One arm in one round."""

    outcomes: tuple[Outcome, ...]
    seconds: float
    proxies: Use
    databases: Use
    """Those of the proxies that stand at services marked `no adm`."""
    application: Use
    generator: float
    """CPU seconds of the load generator."""
    machine: float
    """CPU seconds of all that ran on the machine, the kernel's own work included."""
    stolen: float
    """CPU seconds that the hypervisor gave to other machines."""

    @property
    def bed(self) -> float:
        """CPU seconds of everything that was started here."""
        return self.proxies.cpu + self.application.cpu + self.generator

    @property
    def others(self) -> float:
        """CPU seconds of other processes, and of the kernel's work that it counts for no process."""
        # The kernel counts the machine's time by sampling and that of processes exactly, so the rest may be below 0.
        return max(0.0, self.machine - self.bed)

    def each(self, cpu: float) -> float:
        """CPU seconds for 1,000 requests."""
        return cpu * 1000 / len(self.outcomes)

    def latency(self, part: float) -> float:
        """Milliseconds; unanswered requests count with the time until they were given up."""
        return percentile([outcome.took for outcome in self.outcomes], part) / 1e6

    def lateness(self, part: float) -> float:
        """Milliseconds."""
        return percentile([outcome.late for outcome in self.outcomes], part) / 1e6

    @property
    def answers(self) -> Counter[str]:
        return Counter(outcome.status for outcome in self.outcomes)


def percentile(values: Sequence[int], part: float) -> int:
    """The smallest value that at least `part` (0 < part <= 1) of all values do not exceed: one that was measured."""
    if not values:
        raise ValueError("there is no percentile of nothing")
    if not 0 < part <= 1:
        raise ValueError(f"{part} is no part of a whole")
    return sorted(values)[rank(len(values), part) - 1]


def rank(number: int, part: float) -> int:
    """Which of so many sorted values is the percentile; the smallest is 1."""
    # Not the bare product: 0.999 * 1000 is a little more than 999.
    return max(1, math.ceil(round(part * number, 6)))


def over_rounds(windows: Sequence[Window], value: Callable[[Window], float]) -> Spread:
    return spread([value(window) for window in windows])


def ratio(
    rounds: Sequence[Mapping[Arm, Window]], above: Arm, below: Arm, value: Callable[[Window], float]
) -> Spread | None:
    """None where there is nothing to compare with."""
    pairs = [(value(each[above]), value(each[below])) for each in rounds]
    if any(base <= 0 for _, base in pairs):
        return None
    return spread([top / base for top, base in pairs])


def added(rounds: Sequence[Mapping[Arm, Window]], arm: Arm, without: Arm, part: float) -> list[float]:
    """Milliseconds of a percentile that an arm adds to another, in each round."""
    return [each[arm].latency(part) - each[without].latency(part) for each in rounds]
