"""`admc diff`: what changes between two revisions, programs or plans."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from admc.cli.options import EffortOption, IncludeOption
from admc.exits import Exit

if TYPE_CHECKING:
    from admc.diff.model import Diff


class DiffFormat(StrEnum):
    JSON = "json"


def diff(
    base: Annotated[str, typer.Argument(metavar="BASE", help="What is in force: a plan, a program, REV:PATH or REV.")],
    head: Annotated[str, typer.Argument(metavar="HEAD", help="What is proposed, in the same forms.")],
    include: IncludeOption = None,
    merge_base: Annotated[
        bool, typer.Option("--merge-base", help="Compare with the commit in which BASE and HEAD began to differ.")
    ] = False,
    effort: EffortOption = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the difference to a file.")
    ] = None,
    detailed_exitcode: Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 if anything changes.")] = False,
    format_: Annotated[DiffFormat, typer.Option("--format", help="The format of the difference.")] = DiffFormat.JSON,
) -> int:
    """Show what changes from BASE to HEAD: protection, placement, rollout and cost."""
    from admc.cli.output import Progress, write_out
    from admc.diff.build import changes_anything, difference
    from admc.diff.sides.take import Options, sides

    progress = Progress()
    try:
        before, after = sides(base, head, Options(tuple(include or ()), effort, progress), merge_base=merge_base)
        progress("comparing")
        found = difference(before.plan, after.known, before.taken, after.taken)
        text = _rendered(found, format_)
    finally:
        progress.clear()
    if output is None:
        write_out(text)
    else:
        _write(output, text)
    return Exit.CHANGES if detailed_exitcode and changes_anything(found) else Exit.DONE


def _rendered(found: Diff, format_: DiffFormat) -> str:
    from admc.render import diff_json

    return {DiffFormat.JSON: diff_json.render}[format_](found)


def _write(output: Path, text: str) -> None:
    from admc.cli.output import write_out
    from admc.files import write_whole
    from admc.terminal import visible

    changed = write_whole(output, text.encode("utf-8"))
    write_out(f"wrote `{visible(str(output))}`\n" if changed else f"`{visible(str(output))}` is up to date\n")
