"""Posts the comment of a run: as a new comment, or in place of the comment of an earlier run.

    GitHub, WantedComment -> Posted

A comment of a newer run, of another author or with another tag is never replaced.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from admc.base.exits import wrong_usage
from admc.review.comment.body import Run, body, digest, has_tag, written
from admc.review.comment.github import Comment, GitHub, LostAnswerError, WaitedError

TRIES: Final = 4


class WantedComment(NamedTuple):
    """The comment that the pull request should have."""

    pull: int
    author: str
    """Only comments of this author are read: any reader of the pull request may write our tag."""
    tag: str
    run: Run
    content: str
    quiet_if_same: bool
    """Leave a comment with the same content as it is, and write no first comment if `nothing_to_say`."""
    nothing_to_say: bool


class Action(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    SAME = "same"
    """The comment already has the same content."""
    OLDER = "older"
    """This run is older than the run that wrote the comment."""
    NOTHING = "nothing"


class Posted(NamedTuple):
    action: Action
    url: str
    others: int
    """Further comments with our author and tag: an earlier run may have written two."""


async def post(github: GitHub, wanted: WantedComment) -> Posted:
    """Post the comment in one request, so that no part of a comment is ever posted alone. Raises `CommandError`."""
    text = body(wanted.tag, wanted.run, wanted.content)
    lost = 0
    while True:
        # While this run waited, a newer run may have written. A comment whose answer was lost may exist.
        own = await _own(github, wanted)
        try:
            if own:
                return await _replaced(github, wanted, own, text)
            if wanted.quiet_if_same and wanted.nothing_to_say:
                return Posted(Action.NOTHING, "", 0)
            made = await github.create(wanted.pull, text)
            return Posted(Action.CREATED, made.url, 0)
        except WaitedError:
            continue  # `github.wait` ends this: it raises when the time for waiting is spent
        except LostAnswerError as error:
            lost += 1
            if lost == TRIES:
                raise wrong_usage(
                    "ADM878", f"GitHub does not answer: {error}", hint="run it again later: it looks first"
                ) from error
            await github.wait(2.0 ** (lost - 1), str(error))


async def _own(github: GitHub, wanted: WantedComment) -> list[Comment]:
    comments = await github.comments(wanted.pull)
    return [comment for comment in comments if comment.author == wanted.author and has_tag(comment.body, wanted.tag)]


async def _replaced(github: GitHub, wanted: WantedComment, own: list[Comment], text: str) -> Posted:
    """Replace the oldest of our comments: links to the comment lead there."""
    first, others = own[0], len(own) - 1
    before = written(first.body)
    if before is not None and before.run > wanted.run:
        return Posted(Action.OLDER, first.url, others)
    same = (
        before is not None
        and before.digest == digest(wanted.content)
        and _plain(first.body).endswith(_plain(wanted.content))
    )
    if first.body == text or (same and wanted.quiet_if_same):
        return Posted(Action.SAME, first.url, others)
    made = await github.update(first.id, text)
    return Posted(Action.UPDATED, made.url or first.url, others)


def _plain(text: str) -> str:
    """The text without what GitHub or a browser may change: its line ends, and blanks at its end."""
    return text.replace("\r\n", "\n").rstrip()
