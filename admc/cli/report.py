"""`admc report`: a plan, or a saved difference, as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from admc.base.exits import Exit, wrong_usage
from admc.base.terminal import visible
from admc.cli.options import EffortOption, IncludeOption

if TYPE_CHECKING:
    from admc.review.report.model import Page

ENDINGS: Final = (".html", ".htm")
_JSON: Final = ".json"
_PLAN: Final = ".plan.json"


def report(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PROGRAM|PLAN|DIFF.json",
            help="A program, REV:PATH, a plan, or a difference from `admc diff --format json`.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page; its name ends in .html.")],
    include: IncludeOption = None,
    effort: EffortOption = None,
) -> int:
    """Write one HTML page that shows a plan, or what changes: the mesh, its ADMs, why they are there, and their cost.

    The page is complete in itself. It loads nothing, and can be sent or published as it is.
    """
    if output.suffix.lower() not in ENDINGS:
        raise wrong_usage(
            "ADM801", f"`{visible(str(output))}` does not have the ending of a page", hint="its name ends in `.html`"
        )
    from admc.base.files import write_whole
    from admc.cli.output import write_out
    from admc.review.report.html import render

    make = _difference if _is_difference(subject) else _plan
    page, inputs = make(subject, include, effort)
    changed = write_whole(output, render(page), inputs=inputs)
    shown = visible(str(output))
    write_out(f"wrote `{shown}`\n" if changed else f"`{shown}` is up to date\n")
    return Exit.DONE


def _is_difference(subject: str) -> bool:
    """Whether the subject has the name of a saved difference: a name that ends in `.json`, but not in `.plan.json`, the
    ending of plans. `admc diff` tells them apart in the same way."""
    return subject.endswith(_JSON) and not subject.endswith(_PLAN)


class _Made(NamedTuple):
    page: Page
    inputs: tuple[Path, ...]
    """Files on disk that must not be overwritten."""


def _plan(subject: str, include: list[Path] | None, effort: float | None) -> _Made:
    from admc.cli.output import Progress
    from admc.review.diff.render.words import TEXT, side_taken
    from admc.review.diff.sides.take import Options, side
    from admc.review.report.plan_page import plan_page

    progress = Progress()
    try:
        taken = side(subject, Options(tuple(include or ()), effort, progress))
    finally:
        progress.clear()
    return _Made(plan_page(taken.known, side_taken(taken.taken, TEXT)), taken.on_disk())


def _difference(subject: str, include: list[Path] | None, effort: float | None) -> _Made:
    if include or effort is not None:
        raise wrong_usage("ADM801", "a saved difference is shown as it is, without `--include` and `--effort`")
    from admc.review.diff.read import read_diff
    from admc.review.report.diff_page import diff_page

    path = Path(subject)
    return _Made(diff_page(read_diff(path)), (path,))
