"""Requests as trees of calls: each step is a call, with the calls that its callee makes for it.

All numbers are exact. The order of lines has no meaning: the steps of a callee that follow each other stand in one
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
"""Most calls of one request if each of its chances occurs."""
MAX_OUTCOMES: Final = 4_096
"""Most outcomes of the chances of one request."""


class Grouping(StrEnum):
    SEQUENCE = "sequence"
    """One step after the other: their times add up."""
    TOGETHER = "together"
    """All steps at once: the longest counts."""
    ASYNC = "async"
    """The callee does not wait for the responses: the steps cost CPU and add no latency."""


class StepGroup(NamedTuple):
    grouping: Grouping
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A call that a request makes. `source`, `destination` and `port` identify the declared call (`dsl.program.Call`).

    If the chance occurs, `source` makes the call `times` times, one after the other. For each of these calls the callee
    makes the same steps, and their chances occur independently.
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
    """The steps of the callee. At most one `SEQUENCE`, which comes first, and at most one `ASYNC`, which comes last."""

    @property
    def call(self) -> tuple[str, str, int]:
        return self.source, self.destination, self.port


@dataclass(frozen=True, slots=True)
class Request:
    """A type of request. `root` is the call by which it enters the application; it has no chance."""

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
    """The number of calls of a step and of all steps below it, if each chance occurs."""
    return step.times * (1 + sum(calls_made(inner) for group in step.groups for inner in group.steps))


def outcomes(step: Step) -> int:
    """The number of outcomes of all chances that affect latency; `MAX_OUTCOMES + 1` stands for any larger number.

    Repeated calls have no order: two outcomes differ only if another number of these calls ends in some way.
    """
    one = 1
    for group in step.groups:
        for inner in group.steps if group.grouping is not Grouping.ASYNC else ():
            one = min(one * outcomes(inner), MAX_OUTCOMES + 1)
    repeated = _repeated(one, step.times)
    return min(repeated + (step.chance < 1), MAX_OUTCOMES + 1)


def _repeated(one: int, times: int) -> int:
    """The number of multisets of `times` outcomes, if a single call has `one` outcomes."""
    multisets = 1
    for index in range(1, min(times, one - 1) + 1):
        multisets = multisets * (times + one - 1 - min(times, one - 1) + index) // index
        if multisets > MAX_OUTCOMES:
            return MAX_OUTCOMES + 1
    return multisets
