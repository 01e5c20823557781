"""`--require-optimal`: a plan is written only if its optimum is proven."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.base.exits import CommandError, Exit
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from admc.compile.pipeline import Compiled
    from admc.compile.plan.model import Plan


def earlier_plan(plan: Plan | None, *, must_be_optimal: bool) -> Plan | None:
    """The earlier plan of a compile. Where the optimum must be proven, it is without its objectives, since its own
    bounds are of no use."""
    if plan is None or not must_be_optimal:
        return plan
    return replace(plan, solver=replace(plan.solver, objectives=()))


def require_optimal(compiled: Compiled, folder: str) -> None:
    """Raise `CommandError` (exit 5) unless the optimum is proven."""
    from admc.compile.plan.summary import summarize
    from solver.placement import Status

    if compiled.placement.status is Status.OPTIMAL:
        return
    raise CommandError(
        Exit.NOT_PROVEN,
        [
            Diagnostic(
                "ADM809",
                Severity.ERROR,
                "the optimum is not proven, and `--require-optimal` asks for it",
                None,
                cause=summarize(compiled.program, compiled.plan).proof,
                hint="give the solver more time with `--effort`; nothing was written",
            )
        ],
        folder,
    )
