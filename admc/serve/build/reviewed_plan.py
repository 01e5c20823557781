"""Serves a plan as it was reviewed: with its decisions, not with those that the solver would make today.

The program is read again, and the plan must fit it (`admc.compile.reviewed_plan`).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from admc.compile.pipeline import load_program
from admc.compile.reviewed_plan import served, unfit
from admc.plan.read import read_plan
from admc.serve.file_watch import look
from dsl.files.folders import folder_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from admc.serve.file_watch import Signature
    from dsl.program import Program
    from solver.placement import Placement


def recording(
    folder: Path, stats: Signature, contents: dict[str, bytes], include: Sequence[Path] = ()
) -> Callable[[str], bytes]:
    """A reader of files in a folder and in those of `include`. It records the stat of each file before it is read, so
    that the server can follow it."""
    inner = folder_reader(folder, include)

    def read(path: str) -> bytes:
        stats[folder / path] = look(folder / path)
        contents[path] = inner(path)
        return contents[path]

    return read


def placed(
    path: Path, stats: Signature, contents: dict[str, bytes], include: Sequence[Path] = ()
) -> tuple[Program, Placement]:
    """The program that a plan was made from, and its placement. Raises `CommandError`."""
    stats[path] = look(path)
    plan = read_plan(path, regular=True)
    if not plan.inputs:
        raise unfit(path, "it names no program", "compile again to write a new one")
    main = path.parent / plan.inputs[0].path
    if main.parent != path.parent:
        raise unfit(path, f"its program `{plan.inputs[0].path}` is not beside it", "compile again to write a new one")
    program = load_program(main, recording(path.parent, stats, contents, include), include=include)
    return program, served(path, plan, program)
