"""Random programs in a fixed order, many of them in one application; and one that differs made as small as it gets.

Hypothesis draws one example after another, and an application starts in a second: two hundred programs one by one would
take as many minutes as all together take seconds. So programs are drawn first, and run together. Only for one that
differs is Hypothesis asked to shrink: the same seed leads it past the others, untried, to that one and on from there.
"""

from __future__ import annotations

import time
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from tests.fidelity.random_cases import programs
from tests.fidelity.runs import Result, What

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fidelity.cases import Case


class FoundError(Exception):
    """What Hypothesis is to shrink."""


def wild(number: int, count: int) -> list[Case]:
    """`count` programs; the same number and count give the same programs."""
    found: list[Case] = []
    _explore(number, count, found.append)
    return [replace(case, name=f"w{number}_{index}") for index, case in enumerate(found)]


def smaller(
    number: int, count: int, name: str, attempt: Callable[[Case], Result], until: float = inf
) -> tuple[Case, Result | None]:
    """The smallest program found that still differs, from one of `wild(number, count)`; None if it differs no more.

    `attempt` runs one program. `until` is when to stop looking, on the clock of `time.monotonic`.
    """
    wanted = next(case for case in wild(number, count) if case.name == name)
    reached = False
    tried: dict[Case, Result] = {}
    least: list[Case] = []

    def differs(drawn: Case) -> None:
        nonlocal reached
        reached = reached or drawn == replace(wanted, name=drawn.name)
        if not reached:
            return
        if drawn not in tried and time.monotonic() > until:
            return
        if drawn not in tried:
            tried[drawn] = attempt(drawn)
        if tried[drawn].what == What.DIFFERENT:
            least[:] = [drawn]
            raise FoundError

    try:
        _explore(number, count, differs, Phase.shrink)
    except FoundError:
        return least[0], tried[least[0]]
    return wanted, None


def _explore(number: int, count: int, look: Callable[[Case], None], *also: Phase) -> None:
    """Show `count` programs to `look`, and smaller ones once it raises."""

    @seed(number)
    @settings(
        max_examples=count,
        phases=(Phase.generate, *also),
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(programs())
    def explore(case: Case) -> None:
        look(case)

    explore()
