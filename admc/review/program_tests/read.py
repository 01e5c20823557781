"""Reads the tests of a program from `shop.test.adm` beside `shop.adm`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.review.program_tests.model import ProgramTest
from admc.review.program_tests.resolve import resolve_tests
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics
from dsl.files.folders import folder_reader
from dsl.files.reading import Reader
from dsl.program import Program
from dsl.resolve.beside import program_name
from dsl.resolve.resolver import in_order
from dsl.syntax.parser import parse


def program_of(tests: Path) -> Path:
    return tests.with_name(program_name(tests.name))


def _as_typed(diagnostic: Diagnostic, path: Path) -> Diagnostic:
    """The finding with the file's path as the user typed it. Without a place, it has only the name in the folder."""
    return (
        diagnostic
        if diagnostic.span
        else replace(diagnostic, message=diagnostic.message.replace(f"`{path.name}`", f"`{path}`", 1))
    )


def load_tests(
    path: Path, program: Program, folder: str, include: Sequence[Path] | None = None
) -> tuple[ProgramTest, ...]:
    """The tests of `program` in the file at `path`. Raises `CommandError` (exit 1) with all findings.

    The file may be a link into its own folder or into one of the folders `include`.
    """
    diagnostics = Diagnostics()
    reader = Reader(folder_reader(path.parent, tuple(include or ())), diagnostics, path.parent.as_posix())
    source = reader.text(path.name, None)
    tests: tuple[ProgramTest, ...] = ()
    if source is not None:
        tests = resolve_tests(parse(source, diagnostics), program, diagnostics)
    if diagnostics.has_errors:
        raise CommandError(Exit.INPUT, [_as_typed(diagnostic, path) for diagnostic in in_order(diagnostics)], folder)
    if not tests:
        raise wrong_usage(
            "ADM845",
            f"there is no test in `{path}`",
            hint="add one, such as `test few = adms <= 4`, or remove the file",
        )
    return tests
