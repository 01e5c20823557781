"""Makes the estimates of a command: of the program alone, or before and after a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from admc.base.exits import CommandError
from admc.cost.model.overhead import Missing
from admc.cost.report import Report, report
from admc.cost.what_if.comparison import Comparison, compare
from admc.cost.what_if.scenario import Scenario, after, before, compares
from dsl.program import Program
from solver.placement import Placement

Solve = Callable[[Program], Placement]


class Estimates(NamedTuple):
    """`program` and `report` are those before the change. `other` is the changed program; it and `comparison` are None
    without a change."""

    program: Program
    placement: Placement
    report: Report
    other: Program | None = None
    comparison: Comparison | None = None

    @property
    def missing(self) -> tuple[Missing, ...]:
        """The missing figures of both estimates, without repetition."""
        missing = self.report.overhead.missing
        if self.comparison is not None:
            missing += tuple(gap for gap in self.comparison.after.overhead.missing if gap not in missing)
        return missing


def estimates(program: Program, scenario: Scenario, solve: Solve, folder: str = "") -> Estimates:
    """Estimate a program, and the program after a change if there is one.

    Raises `CommandError` without a profile, for a wrong change, and if no placement is correct before or after it.
    """
    placement = solve(program)
    base = before(program, scenario)
    base_report = report(base, placement, folder)
    if not compares(program, scenario):
        return Estimates(base, placement, base_report)
    one_profile = scenario.profile is None or program.profile is None
    other = after(program, scenario, folder)
    changed = report(other, _solved_again(other, solve) if scenario.replan else placement, folder)
    return Estimates(
        base, placement, base_report, other, compare(scenario, base_report, changed, other, one_profile=one_profile)
    )


def _solved_again(program: Program, solve: Solve) -> Placement:
    """Solve the changed program. Errors point at lines of the unchanged program, so a message begins with
    `after the change`."""
    try:
        return solve(program)
    except CommandError as error:
        first, *others = error.diagnostics
        diagnostic = replace(first, message=f"after the change, {first.message}")
        raise CommandError(error.exit_code, [diagnostic, *others], error.folder) from error
