"""The pipeline from the path of a program to its plan. Every command that computes a placement uses it.

    path -> dsl.load -> Program -> solver.place -> Placement -> solver.verify.verifier -> emitters check -> Plan

A placement of `place_program` that the verifier rejects, or that no configuration can express, is an error: it is never
shown, written or emitted. `solve` does not verify; its placements answer questions about a changed program.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from admc.base.exits import CommandError, Exit, refused_warnings, wrong_usage
from admc.compile.node_traffic import closings_of, with_warnings
from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Diagnostic, ProgramError, Severity
from dsl.program import Program
from dsl.resolve.beside import program_name
from dsl.syntax.tokens import BESIDE, TEST

if TYPE_CHECKING:
    from admc.compile.plan.model import Plan
    from admc.cost.report import Report
    from solver.placement import Costs, Placement, Previous, Violation
    from solver.rules.options import DecisionPoint

SHOWN_VIOLATIONS = 20
STANDARD_INPUT = Path("-")
STANDARD_INPUT_NAME = "<stdin>"
"""The name of a program from standard input in findings and plans."""
MAX_ENTRIES = 2000
"""The most entries of a folder that are searched for a program with a similar name."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Compiled:
    program: Program
    placement: Placement
    plan: Plan
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time of each stage, for benchmarks only."""


def folder_of(path: Path) -> str:
    """The program's folder as the user typed it. Paths in spans are relative to it."""
    folder = path.parent.as_posix()
    return "" if folder == "." else folder


def load_program(
    path: Path,
    read: Callable[[str], bytes] | None = None,
    *,
    include: Sequence[Path] | None = None,
    names: Collection[str] | None = None,
) -> Program:
    """The program at `path`, or of standard input for `-`. Raises `CommandError` (exit 1) with the findings, also for a
    wrong profile.

    `include` are folders from which the program may use files, besides its own folder. `names` are the files that
    `read` can read, if these are not on disk.
    """
    import dsl

    for word, ending in BESIDE.items():
        if path.name.endswith(ending):
            own = path.with_name(program_name(path.name))
            reader = "`admc test` runs the tests" if word == TEST else "`admc diff` judges the gates"
            hint = f"name the program, `{own}`; {reader}"
            raise wrong_usage("ADM846", f"`{path}` is a file of {word}s, and not a program", hint=hint)
    if read is None and path == STANDARD_INPUT:
        return load_program(Path(STANDARD_INPUT_NAME), _with_standard_input(include or ()), include=include)
    if read is None and os.path.isdir(path):  # noqa: PTH112 - `Path.is_dir` raises for a name that is too long
        raise wrong_usage("ADM501", f"cannot read `{path}`: it is a folder", hint=_program_in(path))
    try:
        program = dsl.load(path, read, tuple(include or ()))
    except ProgramError as error:
        diagnostics = [_as_typed(item, path, names) for item in error.diagnostics]
        raise CommandError(Exit.INPUT, diagnostics, folder_of(path)) from error
    if program.profile is not None:
        from admc.cost.profiles.source import profile_of

        profile_of(program, folder_of(path))
    return program


def _with_standard_input(include: Sequence[Path]) -> Callable[[str], bytes]:
    """Reads standard input for the program, and files from the working directory and the folders in `include`."""
    from dsl.files.folders import MAX_FILE_BYTES, folder_reader

    content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
    others = folder_reader(Path(), include)
    return lambda path: content if path == STANDARD_INPUT_NAME else others(path)


def _as_typed(item: Diagnostic, path: Path, names: Collection[str] | None) -> Diagnostic:
    """A finding without a place, with the program's path as the user typed it instead of the name in its folder."""
    if item.span is not None or path == Path(STANDARD_INPUT_NAME):
        return item
    if names is not None:
        from dsl.diagnostics.diagnostic import did_you_mean

        missing = path.name not in names
        return replace(item, hint=item.hint or did_you_mean(path.name, sorted(names))) if missing else item
    hint = item.hint if os.path.lexists(path) else item.hint or program_meant(path)
    return replace(item, message=item.message.replace(f"`{path.name}`", f"`{path}`", 1), hint=hint)


def _program_in(folder: Path) -> str:
    """A hint for a folder where one program is expected."""
    from admc.compile.programs import find_programs

    programs = find_programs([str(folder)]).files
    return (
        f"name a program in it, such as `{programs[0]}`" if programs else "name the file of a program: `policies.adm`"
    )


def program_meant(path: Path) -> str | None:
    """A hint for a path that does not exist: the program in its folder with the most similar name."""
    from dsl.diagnostics.diagnostic import did_you_mean

    folder = folder_of(path)
    before = f"{folder.rstrip('/')}/" if folder else ""
    try:
        with os.scandir(path.parent) as entries:
            known = [entry.name for entry in islice(entries, MAX_ENTRIES) if entry.name.endswith(".adm")]
    except (OSError, ValueError):
        return None
    whole = f"{path.name}.adm"
    return did_you_mean(whole if whole in known else path.name, sorted(known), before)


def solve(
    program: Program,
    folder: str = "",
    *,
    previous: Previous | None = None,
    effort: float | None = None,
) -> tuple[Placement, Costs]:
    """Return the best placement by the costs of the program's profile, and these costs. The placement is not verified.

    Raises `PlacementError`, and `CommandError` for a wrong profile.
    """
    from solver.place import place
    from solver.rules.options import decision_points

    points = None if program.profile is None else decision_points(program)
    costs = costs_of(program, folder, points)
    return place(program, costs, points=points, previous=previous, effort=effort), costs


def costs_of(program: Program, folder: str = "", points: Sequence[DecisionPoint] | None = None) -> Costs:
    """The costs of all decisions by the program's profile; no costs without a profile. Raises `CommandError`.

    `points` are the decisions of the program, if the caller has them already.
    """
    from solver.placement import Costs

    if program.profile is None:
        return Costs()
    from admc.cost.model.coefficients import coefficients
    from admc.cost.profiles.source import profile_of
    from solver.rules.options import decision_points

    named = profile_of(program, folder)
    decisions = decision_points(program) if points is None else points
    return Costs() if named is None else coefficients(program, decisions, named.profile)


def place_program(
    program: Program,
    folder: str = "",
    *,
    previous: Previous | None = None,
    effort: float | None = None,
    progress: Progress | None = None,
) -> tuple[Placement, dict[str, float]]:
    """Return a verified placement that can be expressed as configuration, and the seconds of each stage.

    Raises `CommandError`: exit 3 with the conflicts or the policies that cannot be expressed, 70 if not verified, 1 for
    a wrong profile.
    """
    from solver.placement import PlacementError

    report_stage = progress or _silent
    started = time.perf_counter()
    report_stage("solving")
    try:
        placement, costs = solve(program, folder, previous=previous, effort=effort)
    except PlacementError as error:
        from admc.compile.conflicts import conflict_diagnostics

        raise CommandError(
            Exit.NO_PLACEMENT, [*conflict_diagnostics(program, error), *program.warnings], folder
        ) from error
    solved = time.perf_counter()
    report_stage("verifying")
    from solver.verify.verifier import verify

    violations = verify(program, placement, costs)
    if violations:
        raise CommandError(Exit.BUG, _bug(program, violations), folder)
    verified = time.perf_counter()
    expressible(program, placement, folder)
    return placement, {"solve": solved - started, "verify": verified - solved}


@no_collection()
def compile_program(
    path: Path,
    *,
    include: Sequence[Path] | None = None,
    facts: bytes | None = None,
    previous: Plan | None = None,
    effort: float | None = None,
    progress: Progress | None = None,
    warnings_as_errors: bool = False,
) -> Compiled:
    """Read, solve, verify and explain the program at `path`, with files from its folder and from those in `include`.

    `facts` is a document of facts of a cluster. Of equally good plans, the plan nearest to `previous` is taken. If that
    is the placement of `previous` and its inputs are the same, it may have the bounds of `previous`, too. `effort` is
    the solver's deterministic time. `progress` receives the name of each stage as it begins. Raises `CommandError`.
    """
    report_stage = progress or _silent
    started = time.perf_counter()
    report_stage("reading")
    program = load_program(path, include=include)
    if facts is not None:
        from admc.compile.facts import with_facts

        program = with_facts(program, facts)
    if warnings_as_errors:
        refuse_warnings(program.warnings, folder_of(path))
    read = time.perf_counter()
    from admc.compile.plan.previous import previous_of

    earlier = None if previous is None else previous_of(previous, program)
    placement, seconds = place_program(program, folder_of(path), previous=earlier, effort=effort, progress=progress)
    program = with_warnings(program, closings_of(placement))
    if warnings_as_errors:
        refuse_warnings(program.warnings, folder_of(path))
    verified = time.perf_counter()
    report_stage("explaining")
    from admc.compile.plan.build import build

    overhead = overhead_of(program, placement, folder_of(path))
    estimated = time.perf_counter()
    plan = build(program, placement, overhead)
    seconds |= {"overhead": estimated - verified, "plan": time.perf_counter() - estimated}
    return Compiled(program, placement, plan, {"read": read - started, **seconds})


def overhead_of(program: Program, placement: Placement, folder: str = "") -> Report | None:
    """The estimate of a placement by the program's profile; None without a profile. Raises `CommandError`."""
    if program.profile is None:
        return None
    from admc.cost.report import report

    return report(program, placement, folder)


def refuse_warnings(diagnostics: Iterable[Diagnostic], folder: str) -> None:
    """Raise `CommandError` (exit 1) if there is a warning among `diagnostics`."""
    diagnostics = tuple(diagnostics)
    refused = refused_warnings(diagnostics)
    if refused:
        raise CommandError(Exit.INPUT, [*diagnostics, *refused], folder)


def expressible(program: Program, placement: Placement, folder: str) -> None:
    """Raise `CommandError` (exit 3) if Envoy or NetworkPolicies cannot express the placement. This does not depend on
    `--emit`."""
    from emitters import envoy, kubernetes

    diagnostics = (*envoy.check(program, placement), *kubernetes.check(program, placement))
    if diagnostics:
        raise CommandError(Exit.NO_PLACEMENT, [*diagnostics, *program.warnings], folder)


def _silent(_stage: str) -> None:
    return


def _bug(program: Program, violations: tuple[Violation, ...]) -> list[Diagnostic]:
    """The findings for a placement that the verifier rejects. This is a bug in admc for any program."""
    diagnostics = []
    for violation in violations[:SHOWN_VIOLATIONS]:
        policy = None if violation.policy is None else program.policy_by_name.get(violation.policy)
        diagnostics.append(
            Diagnostic(
                "ADM902",
                Severity.ERROR,
                f"the placement breaks {violation.rule or 'its own figures'}: {violation.message}",
                None if policy is None else policy.span,
                cause="admc's solver and its verifier disagree, so the placement is not used; this is a bug in admc",
                hint="please report it with the program; nothing was written",
            )
        )
    return diagnostics


def input_files(path: Path, program: Program) -> tuple[Path, ...]:
    """The paths of the program's files from the working directory. The facts of a cluster are not among them."""
    from admc.compile.facts import FACTS

    elsewhere = (STANDARD_INPUT_NAME, FACTS)
    return (path, *(path.parent / item.path for item in program.inputs if item.path not in elsewhere))
