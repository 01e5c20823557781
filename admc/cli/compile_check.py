"""`admc compile --check`: compares the plan beside a program with the plan of a new compile. It writes no file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.findings.report import Format, Report
from admc.cli.output import Progress, show_report, write_out

if TYPE_CHECKING:
    from admc.compile.plan.model import Plan

CODE = "ADM815"


class Checked(NamedTuple):
    """The arguments of the command line."""

    program: Path
    output: Path | None
    include: Sequence[Path] | None
    facts: Path | None
    effort: float | None
    require_optimal: bool
    warnings_as_errors: bool


class _ExistingPlan(NamedTuple):
    """The file of the plan: its content, and the plan in it if this admc can read the plan."""

    content: bytes | None
    plan: Plan | None
    why: str | None
    """The reason why the file contains no plan."""


def check_plan(checked: Checked, format_: Format) -> int:
    """Check the plan. Raises `CommandError`: exit 1 with `ADM815` if the plan is stale, and the errors of a compile."""
    from admc.compile.facts import read_facts
    from admc.compile.pipeline import compile_program, folder_of
    from admc.compile.plan.beside import default_plan_path
    from admc.compile.plan.to_json import to_json
    from admc.compile.proof import earlier_plan, require_optimal

    target = checked.output or default_plan_path(checked.program)
    existing = _find(target)
    progress = Progress()
    try:
        compiled = compile_program(
            checked.program,
            include=checked.include,
            facts=None if checked.facts is None else read_facts(checked.facts),
            previous=earlier_plan(existing.plan, must_be_optimal=checked.require_optimal),
            effort=checked.effort,
            progress=progress,
            warnings_as_errors=checked.warnings_as_errors,
        )
        folder = folder_of(checked.program)
        if checked.require_optimal:
            require_optimal(compiled, folder)
        fresh = to_json(compiled.plan) == existing.content
    finally:
        progress.clear()
    warnings = compiled.program.warnings
    if not fresh:
        error = _stale(checked, target, existing, compiled.plan)
        raise CommandError(error.exit_code, [*error.diagnostics, *warnings], folder)
    numbers = {"plan": target.as_posix()}
    show_report(Report((*warnings, *compiled.program.notes), Exit.DONE, folder, numbers), format_)
    if format_ is Format.TEXT:
        from admc.base.terminal import visible

        write_out(f"`{visible(str(target))}` is up to date\n")
    return Exit.DONE


def _find(target: Path) -> _ExistingPlan:
    """Read the file. Raises `CommandError` for a plan that cannot be read or belongs to a newer admc."""
    from admc.base.files import present, read_bounded
    from admc.compile.plan.read import MAX_BYTES, PlanFormatError, from_json, named_plan

    if not present(target):
        return _ExistingPlan(None, None, "there is no such file")
    content = read_bounded(target, MAX_BYTES, "the plan")
    try:
        return _ExistingPlan(content, from_json(content), None)
    except PlanFormatError as error:
        if error.code == "ADM805":
            named_plan(content, str(target))
        return _ExistingPlan(content, None, f"it is not a plan that admc can read: {error}")


def _stale(checked: Checked, target: Path, existing: _ExistingPlan, anew: Plan) -> CommandError:
    from admc.compile.plan.differing import differing

    command = ["admc", "compile", str(checked.program)]
    command += [word for path in checked.include or () for word in ("--include", str(path))]
    command += [] if checked.facts is None else ["--facts", str(checked.facts)]
    if existing.plan is not None:
        command += ["--previous", str(target)]
    command += [] if checked.output is None else ["-o", str(target)]
    command += [] if checked.effort is None else ["--effort", f"{checked.effort:g}"]
    command += ["--require-optimal"] if checked.require_optimal else []
    return wrong_usage(
        CODE,
        f"the plan `{target}` is {'missing' if existing.content is None else 'stale'}",
        cause=existing.why or (None if existing.plan is None else differing(existing.plan, anew)),
        hint=f"run `{shlex.join(command)}`, and commit the plan with the program",
    )
