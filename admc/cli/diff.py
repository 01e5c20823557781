"""`admc diff`: the changes between two revisions, programs or plans, judged by the gates of BASE."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from admc.base.exits import Exit, wrong_usage
from admc.base.terminal import command, visible
from admc.cli.options import EffortOption, FactsOption, IncludeOption

if TYPE_CHECKING:
    from admc.review.diff.model import Diff


class DiffFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    JUNIT = "junit"
    GITHUB = "github"


class _Shown(NamedTuple):
    """The form of the difference. `links` and `max_bytes` apply to Markdown."""

    format: DiffFormat
    links: str | None
    max_bytes: int


def diff(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE",
            help="What is in force: a plan, a program, REV:PATH or REV. Without HEAD: a saved difference, to show it.",
        ),
    ],
    head: Annotated[str | None, typer.Argument(metavar="HEAD", help="What is proposed, in the same forms.")] = None,
    include: IncludeOption = None,
    facts: FactsOption = None,
    merge_base: Annotated[
        bool, typer.Option("--merge-base", help="Compare with the commit in which BASE and HEAD began to differ.")
    ] = False,
    effort: EffortOption = None,
    causes: Annotated[
        bool, typer.Option("--causes/--no-causes", help="Whether to find out why decisions moved.")
    ] = True,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="GATE=REASON",
            help="Accept that this gate is breached, and say why; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write the difference to a file.")
    ] = None,
    detailed_exitcode: Annotated[bool, typer.Option("--detailed-exitcode", help="Exit 2 if anything changes.")] = False,
    format_: Annotated[DiffFormat, typer.Option("--format", help="The format of the difference.")] = DiffFormat.TEXT,
    links: Annotated[
        str | None,
        typer.Option(
            "--links",
            metavar="URL",
            help="Where a code host shows files, for links in Markdown: https://github.com/OWNER/REPO/blob.",
        ),
    ] = None,
    max_bytes: Annotated[
        int,
        typer.Option("--max-bytes", min=4_000, help="Whole sections of Markdown give way where it would be longer."),
    ] = 65_000,
) -> int:
    """Show what changes from BASE to HEAD: protection, placement, rollout and cost."""
    accepted = _accepted(accept or ())
    if links is not None and not links.startswith(("https://", "http://")):
        raise wrong_usage("ADM801", f"`--links {visible(links)}` is no address", hint="it begins with `https://`")
    shown = _Shown(format_, links, max_bytes)
    from admc.cli.output import write_out
    from admc.review.diff.build import changes_anything
    from admc.review.diff.compare import fails

    if head is None:
        difference = _saved(base, merge_base or bool(include or accepted or facts) or effort is not None)
        inputs: tuple[Path, ...] = (Path(base),)
    else:
        difference, inputs = _compared(
            base, head, tuple(include or ()), facts, effort, accepted, merge_base=merge_base, causes=causes
        )
    if output is None:
        write_out(_rendered(difference, shown, terminal=True))
    else:
        _write(output, _rendered(difference, shown, terminal=False), inputs)
    if fails(difference):
        return Exit.GATE
    return Exit.CHANGES if detailed_exitcode and changes_anything(difference) else Exit.DONE


def _compared(
    base: str,
    head: str,
    include: tuple[Path, ...],
    facts: Path | None,
    effort: float | None,
    accepted: dict[str, str],
    *,
    merge_base: bool,
    causes: bool,
) -> tuple[Diff, tuple[Path, ...]]:
    """The difference, and the files on disk that were read for it."""
    from admc.cli.output import Progress
    from admc.compile.facts import read_facts
    from admc.review.diff.compare import compared
    from admc.review.diff.sides.take import Options, sides

    progress = Progress()
    known = None if facts is None else read_facts(facts)
    try:
        before, after = sides(base, head, Options(include, effort, progress, known), merge_base=merge_base)
        progress("comparing")
        difference = compared(before, after, accepted, causes=causes, effort=effort, facts=known)
        return difference, (*before.on_disk(), *after.on_disk(), *(() if facts is None else (facts,)))
    finally:
        progress.clear()


def _saved(path: str, compares: bool) -> Diff:
    """Read a difference that was saved as JSON. It is shown in any format, with the same exit code."""
    from admc.compile.plan.beside import PLAN_ENDING

    if not path.endswith(".json") or path.endswith(PLAN_ENDING):
        raise wrong_usage(
            "ADM801",
            f"`{visible(path)}` has nothing to be compared with",
            hint=_two_sides(path),
        )
    if compares:
        raise wrong_usage("ADM801", "a saved difference is shown as it is", hint="name HEAD, too, to compare anew")
    from admc.review.diff.read import read_diff

    return read_diff(Path(path))


def _two_sides(given: str) -> str:
    """The hint for a single side, which is a program or a revision."""
    if Path(given).suffix in (".adm", ".json"):
        return f"name two sides, BASE first: `{command('diff', 'main', given)}`"
    line = command("diff", given, "policies.adm")
    return f"name the program, too: `{line}` compares that file with the one of `{visible(given)}`"


def _accepted(given: list[str] | tuple[str, ...]) -> dict[str, str]:
    """The accepted gates with their reasons. Raises `CommandError`."""
    reasons: dict[str, str] = {}
    for item in given:
        name, separator, reason = item.partition("=")
        if not separator or not name:
            raise wrong_usage(
                "ADM801", f"`--accept {visible(item)}` gives no reason", hint="write `--accept GATE=REASON`"
            )
        if name in reasons:
            raise wrong_usage("ADM801", f"`--accept` names the gate `{visible(name)}` twice")
        reasons[name] = reason
    return reasons


def _rendered(difference: Diff, shown: _Shown, *, terminal: bool) -> str:
    """The rendered difference. A renderer is imported only when it is needed."""
    if shown.format is DiffFormat.JSON:
        from admc.review.diff.render import json as diff_json

        return diff_json.render(difference)
    if shown.format is DiffFormat.MARKDOWN:
        from admc.review.diff.render import markdown as diff_markdown

        return diff_markdown.render(difference, blob=shown.links, limit=shown.max_bytes)
    if shown.format is DiffFormat.SARIF:
        from admc.review.diff.render import sarif as diff_sarif

        return diff_sarif.render(difference)
    if shown.format is DiffFormat.JUNIT:
        from admc.review.diff.render import junit as diff_junit

        return diff_junit.render(difference)
    if shown.format is DiffFormat.GITHUB:
        from admc.review.diff.render import github as diff_github

        return diff_github.render(difference)
    return _text(difference, terminal=terminal)


def _text(difference: Diff, *, terminal: bool) -> str:
    import sys

    from admc.base.terminal import takes_colour, width
    from admc.review.diff.render import text as diff_text

    if not terminal:
        return diff_text.render(difference)
    return diff_text.render(difference, colour=takes_colour(sys.stdout), width=width(sys.stdout))


def _write(output: Path, text: str, inputs: tuple[Path, ...]) -> None:
    from admc.base.files import write_whole
    from admc.cli.output import write_out

    changed = write_whole(output, text.encode("utf-8"), inputs=inputs)
    write_out(f"wrote `{visible(str(output))}`\n" if changed else f"`{visible(str(output))}` is up to date\n")
