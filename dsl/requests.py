"""What one request does: the calls that its callee makes for it, theirs, and so on.

Everything here is exact. The order of lines has no meaning: the steps of a callee that follow each other stand in one
group, and groups and steps are in canonical order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, NamedTuple

from dsl.text import Span

MAX_STEPS: Final = 10_000
"""Most steps of one request, as written."""
MAX_TIMES: Final = 1_000
MAX_CALLS: Final = 1_000_000
"""Most calls of one request, where each of its chances occurs."""
MAX_OUTCOMES: Final = 4_096
"""Most outcomes of the chances of one request."""


class Grouping(StrEnum):
    SEQUENCE = "sequence"
    """One step after the other: their times add up."""
    TOGETHER = "together"
    """All steps at once: the longest counts."""
    ASYNC = "async"
    """No response is waited for: CPU, and no latency."""


class StepGroup(NamedTuple):
    grouping: Grouping
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A call that a request makes. `source`, `destination` and `port` identify the declared call (`dsl.program.Call`).

    Where the chance occurs, the call is made `times` times, one after the other; each time the callee does the same,
    with chances of its own.
    """

    source: str
    destination: str
    port: int
    """Port number."""
    span: Span
    chance: Fraction = Fraction(1)
    """More than 0, at most 1."""
    times: int = 1
    work: int = 0
    """The callee's own time for each call, in nanoseconds."""
    groups: tuple[StepGroup, ...] = ()
    """What the callee does. At most one `SEQUENCE`, which comes first, and at most one `ASYNC`, which comes last."""

    @property
    def call(self) -> tuple[str, str, int]:
        return self.source, self.destination, self.port


@dataclass(frozen=True, slots=True)
class Request:
    """A type of request. `root` is the call that brings it to the application, without a chance."""

    name: str
    span: Span
    rate: Fraction | None
    """Requests per second."""
    root: Step

    def steps(self) -> Iterator[tuple[Step, Fraction]]:
        """Each step with the mean number of times that one request makes it; the root first."""
        return _steps(self.root, Fraction(1))


def _steps(step: Step, parent: Fraction) -> Iterator[tuple[Step, Fraction]]:
    made = parent * step.chance * step.times
    yield step, made
    for group in step.groups:
        for inner in group.steps:
            yield from _steps(inner, made)


def calls_made(step: Step) -> int:
    """Number of calls, itself included, where each chance occurs."""
    return step.times * (1 + sum(calls_made(inner) for group in step.groups for inner in group.steps))


def outcomes(step: Step) -> int:
    """Number of outcomes of all chances that bear on latency; `MAX_OUTCOMES + 1` stands for any larger number.

    Of calls that are repeated, only the number of those with each outcome counts, and not their order.
    """
    one = 1
    for group in step.groups:
        for inner in group.steps if group.grouping is not Grouping.ASYNC else ():
            one = min(one * outcomes(inner), MAX_OUTCOMES + 1)
    repeated = _repeated(one, step.times)
    return min(repeated + (step.chance < 1), MAX_OUTCOMES + 1)


def _repeated(one: int, times: int) -> int:
    """Multisets of `times` outcomes out of `one`."""
    multisets = 1
    for index in range(1, min(times, one - 1) + 1):
        multisets = multisets * (times + one - 1 - min(times, one - 1) + index) // index
        if multisets > MAX_OUTCOMES:
            return MAX_OUTCOMES + 1
    return multisets
