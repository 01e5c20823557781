"""`admc report`: a plan, a saved difference or a saved advice as one HTML page."""

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
            metavar="PROGRAM|PLAN|DIFF.json|ADVICE.json",
            help="A program, REV:PATH, a plan, or what `admc diff` or `admc advise` wrote with `--format json`.",
        ),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The page; its name ends in .html.")],
    include: IncludeOption = None,
    effort: EffortOption = None,
) -> int:
    """Write one HTML page that shows a plan, or what changes: the mesh, its ADMs, why they are there, and their cost;
    or the sidecars of a mesh with Istio, and why these are there.

    The page is complete in itself. It loads nothing, and can be sent or published as it is.
    """
    if output.suffix.lower() not in ENDINGS:
        raise wrong_usage(
            "ADM801", f"`{visible(str(output))}` does not have the ending of a page", hint="its name ends in `.html`"
        )
    from admc.base.files import write_whole
    from admc.cli.output import write_out
    from admc.review.report.html import render

    make = _saved if _is_saved(subject) else _plan
    page, inputs = make(subject, include, effort)
    changed = write_whole(output, render(page), inputs=inputs)
    shown = visible(str(output))
    write_out(f"wrote `{shown}`\n" if changed else f"`{shown}` is up to date\n")
    return Exit.DONE


def _is_saved(subject: str) -> bool:
    """Whether the subject has the name of a saved answer: a name that ends in `.json`, but not in `.plan.json`, the
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


def _saved(subject: str, include: list[Path] | None, effort: float | None) -> _Made:
    """The page of a difference or an advice."""
    if include or effort is not None:
        raise wrong_usage("ADM801", "a saved answer is shown as it is, without `--include` and `--effort`")
    from admc.base.files import read_bounded
    from admc.istio.document import AdviceDocument, advice_of
    from admc.review.diff.model import Diff
    from admc.review.diff.read import MAX_BYTES, diff_of, from_json
    from admc.review.report.advice_page import advice_page
    from admc.review.report.diff_page import diff_page
    from dsl.documents import DocumentError, kind_of

    path = Path(subject)
    content = read_bounded(path, MAX_BYTES, "the saved answer")
    kind = kind_of(content, (AdviceDocument, Diff))
    if kind is AdviceDocument:
        return _Made(advice_page(advice_of(content, path)), (path,))
    if kind is Diff:
        return _Made(diff_page(diff_of(content, path)), (path,))
    try:
        diff = from_json(content)
    except DocumentError as error:
        raise wrong_usage(
            "ADM839",
            f"`{visible(subject)}` is neither a difference nor an advice that admc can read",
            cause=error.message,
            hint="write it again: `admc diff BASE HEAD --format json -o DIFF.json`, or "
            "`admc advise PATH... --format json > ADVICE.json`",
        ) from error
    return _Made(diff_page(diff), (path,))
