"""`admc comment github`: the differences of a change in one comment on its pull request."""

from __future__ import annotations

import json
import os
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from admc.base.exits import Exit, wrong_usage
from admc.base.terminal import visible
from admc.cli.parser import Command, CommandGroup

if TYPE_CHECKING:
    from admc.cli.output import Progress
    from admc.review.comment.body import Run
    from admc.review.comment.post import Posted, WantedComment
    from admc.review.diff.model import Diff

API: Final = "https://api.github.com"
SERVER: Final = "https://github.com"
AUTHOR: Final = "github-actions[bot]"
WAIT: Final = 300.0
LEAST_BYTES: Final = 4_000
"""Of one program among many."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable


class CommentFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


app = typer.Typer(name="comment", cls=CommandGroup, rich_markup_mode=None, help="Comment on a change.")


@app.callback()
def _about() -> None:
    """Comment on a change."""


@app.command("github", cls=Command)
def github(
    diffs: Annotated[
        list[Path], typer.Argument(metavar="DIFF.json...", help="Differences, from `admc diff --format json`.")
    ],
    pull: Annotated[int | None, typer.Option("--pull", min=1, help="The number of the pull request.")] = None,
    commit: Annotated[
        str | None,
        typer.Option("--commit", metavar="SHA", help="Instead: the open pull request whose newest commit this is."),
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            "--repository",
            metavar="OWNER/NAME",
            envvar="GITHUB_REPOSITORY",
            show_envvar=False,
            help="The repository; unless given, GITHUB_REPOSITORY.",
        ),
    ] = None,
    tag: Annotated[
        str, typer.Option("--tag", help="Tells comments of one author apart; a later run updates that of its tag.")
    ] = "admc",
    author: Annotated[
        str, typer.Option("--author", metavar="LOGIN", help="The account of the token, which writes the comment.")
    ] = AUTHOR,
    run: Annotated[
        str | None,
        typer.Option(
            "--run",
            metavar="ID[.ATTEMPT]",
            help="The run of the workflow that made the differences: an older one never overwrites a newer one. "
            "Unless given, GITHUB_RUN_ID and GITHUB_RUN_ATTEMPT.",
        ),
    ] = None,
    quiet_if_same: Annotated[
        bool,
        typer.Option("--quiet-if-same", help="Leave an equal comment alone, and write no first one without a change."),
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait, all in all, as GitHub asks for.")
    ] = WAIT,
    api: Annotated[
        str | None, typer.Option("--api", metavar="URL", help="The address of the API; unless given, GITHUB_API_URL.")
    ] = None,
    format_: Annotated[CommentFormat, typer.Option("--format", help="The format of the result.")] = CommentFormat.TEXT,
) -> int:
    """Write all differences into one comment on a pull request, or update that of an earlier run.

    The token is in GITHUB_TOKEN. It needs `pull-requests: write`.
    """
    import asyncio

    from admc.cli.output import Progress, write_out
    from admc.review.comment.post import WantedComment
    from admc.review.diff.build import changes_anything
    from admc.review.diff.read import read_diff

    if (pull is None) is (commit is None):
        raise wrong_usage("ADM801", "`--pull` or `--commit` has to name the pull request", hint="give one of them")
    _check(tag, commit, repository)
    differences = [read_diff(path) for path in diffs]
    wanted = WantedComment(
        pull or 0,
        author,
        tag,
        _run(run),
        _content(differences, repository or ""),
        quiet_if_same,
        nothing_to_say=not any(changes_anything(diff) or diff.notes for diff in differences),
    )
    address = api or os.environ.get("GITHUB_API_URL") or API
    progress = Progress()
    try:
        posted = asyncio.run(_posted(address, repository or "", wanted, commit, wait, progress))
    finally:
        progress.clear()
    write_out(_shown(posted, commit, format_))
    return Exit.DONE


async def _posted(
    api: str, repository: str, wanted: WantedComment, commit: str | None, wait: float, progress: Progress
) -> Posted | None:
    """Post the comment. None if no open pull request has the commit as its newest one."""
    from admc.review.comment.github import Waiting, connected
    from admc.review.comment.post import post

    async with connected(api, repository, _token(), Waiting(wait, report=progress)) as client:
        if commit is not None:
            pull = await client.pull_of(commit)
            if pull is None:
                return None
            wanted = wanted._replace(pull=pull)
        return await post(client, wanted)


def _check(tag: str, commit: str | None, repository: str | None) -> None:
    from admc.review.comment.body import TAG

    if TAG.fullmatch(tag) is None or "--" in tag:
        hint = "a tag has up to 100 letters, digits, `.`, `_`, `/` and single `-`"
        raise wrong_usage("ADM801", f"`{visible(tag[:100])}` cannot be a tag", hint=hint)
    if commit is not None and _COMMIT.fullmatch(commit) is None:
        message = f"`{visible(commit[:100])}` is not the full id of a commit"
        raise wrong_usage("ADM801", message, hint="it has 40 or 64 digits from 0 to f")
    if not repository:
        raise wrong_usage("ADM801", "the repository is not known", hint="give `--repository OWNER/NAME`")


def _token() -> str:
    token = os.environ.get(_TOKEN, "")
    if not token or not token.isascii() or not token.isprintable():
        raise wrong_usage(
            "ADM877",
            f"there is no token in `{_TOKEN}`",
            hint="give the step `env: GITHUB_TOKEN: ${{ github.token }}`, and its job `pull-requests: write`",
        )
    return token


def _run(given: str | None) -> Run:
    from admc.review.comment.body import Run

    text = given or f"{os.environ.get('GITHUB_RUN_ID', '')}.{os.environ.get('GITHUB_RUN_ATTEMPT') or 1}"
    match = re.fullmatch(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?", text)
    if match is None:
        hint = "give `--run ID` or `--run ID.ATTEMPT`: of two comments, that of the larger one remains"
        raise wrong_usage("ADM801", "the run that made the differences is not known", hint=hint)
    return Run(int(match[1]), int(match[2] or 1))


def _content(diffs: list[Diff], repository: str) -> str:
    from admc.review.comment.body import MAX_BYTES, joined
    from admc.review.diff.render import markdown as diff_markdown

    blob = f"{os.environ.get('GITHUB_SERVER_URL') or SERVER}/{repository}/blob"
    limit = max(LEAST_BYTES, (MAX_BYTES - LEAST_BYTES) // len(diffs))
    return joined([diff_markdown.render(diff, blob=blob, limit=limit) for diff in diffs], "")


def _shown(posted: Posted | None, commit: str | None, format_: CommentFormat) -> str:
    from admc.review.comment.post import Action

    if format_ is CommentFormat.JSON:
        document = {"action": "nothing", "url": "", "others": 0}
        if posted is not None:
            document = {"action": posted.action.value, "url": posted.url, "others": posted.others}
        return json.dumps(document) + "\n"
    if posted is None:
        return f"nothing was written: no open pull request has {commit} as its newest commit\n"
    text = {
        Action.CREATED: "wrote the comment",
        Action.UPDATED: "updated the comment",
        Action.SAME: "the comment is the same",
        Action.OLDER: "nothing was written: the comment is of a newer run",
        Action.NOTHING: "nothing was written: nothing changes, and there is no comment of an earlier run",
    }[posted.action]
    others = f"; {posted.others} more with the same tag can be deleted" if posted.others else ""
    return visible(f"{text}{f': {posted.url}' if posted.url else ''}{others}") + "\n"
