"""Checks programs, files of tests and files of gates without solving a placement, and merges their findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from admc.base.exits import CommandError, Exit, refused_warnings, worst
from admc.base.findings.report import from_here, shown_path
from admc.compile.node_traffic import closings_of_every_placement, with_warnings
from admc.compile.pipeline import folder_of, load_program
from admc.compile.programs import ProgramFiles
from dsl.diagnostics.diagnostic import Diagnostic
from dsl.files.folders import folder_reader
from dsl.program import Program
from dsl.syntax.tokens import GATE_ENDING, TEST_ENDING


class Checked(NamedTuple):
    """One checked file. `facts` is None for a file with errors."""

    path: str
    exit_code: Exit
    facts: dict[str, object] | None


class CheckOutcome(NamedTuple):
    exit_code: Exit
    diagnostics: tuple[Diagnostic, ...]
    programs: tuple[Checked, ...]


def check_all(named: ProgramFiles, include: Sequence[Path] | None, *, warnings_as_errors: bool) -> CheckOutcome:
    """Check all named files. Paths in the findings are relative to the working directory."""
    programs: list[Checked] = []
    diagnostics = list(named.problems)
    codes = [Exit.INPUT] if named.problems else []
    for path in named.files:
        folder = folder_of(Path(path))
        own: dict[str, object] = {}
        try:
            if path.endswith(GATE_ENDING):
                from admc.review.gates.read import load_gates

                gates = load_gates(Path(path).name, folder_reader(Path(path).parent), folder)
                programs.append(Checked(shown_path(Path(path).name, folder), Exit.DONE, {"gates": len(gates)}))
                continue
            if path.endswith(TEST_ENDING):
                from admc.review.program_tests.read import load_tests, program_of

                program = load_program(program_of(Path(path)), include=include)
                own["tests"] = len(load_tests(Path(path), program, folder, include))
            else:
                program = load_program(Path(path), include=include)
        except CommandError as error:
            programs.append(Checked(shown_path(Path(path).name, folder), error.exit_code, None))
            diagnostics += from_here(error.diagnostics, error.folder)
            continue
        program = with_warnings(program, closings_of_every_placement(program))
        shown = shown_path(Path(path).name if own else program.source.path, folder)
        counts = warnings_as_errors and bool(program.warnings)
        programs.append(Checked(shown, Exit.INPUT if counts else Exit.DONE, {**facts(program), **own}))
        diagnostics += from_here((*program.warnings, *program.notes), folder)
    # Two programs that use the same file both have its findings.
    diagnostics = _each_once(diagnostics)
    if warnings_as_errors:
        refused = refused_warnings(diagnostics)
        diagnostics += refused
        codes += [Exit.INPUT] * bool(refused)
    return CheckOutcome(
        worst([*codes, *(program.exit_code for program in programs)]), tuple(diagnostics), tuple(programs)
    )


def facts(program: Program) -> dict[str, object]:
    return {
        "app": program.app,
        "services": len(program.services),
        "externals": len(program.externals),
        "calls": len(program.calls),
        "policies": len(program.policies),
    }


def _each_once(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    distinct: dict[tuple[object, ...], Diagnostic] = {}
    for diagnostic in diagnostics:
        place = (
            None
            if diagnostic.span is None
            else (diagnostic.span.source.path, diagnostic.span.start, diagnostic.span.end)
        )
        distinct.setdefault((diagnostic.code, diagnostic.severity, diagnostic.message, place), diagnostic)
    return list(distinct.values())
