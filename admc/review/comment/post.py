"""Posts the comment of a run: a new one, or in the place of the one of an earlier run."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from admc.base.exits import wrong_usage
from admc.review.comment.body import Run, body, digest, has_tag, written
from admc.review.comment.github import Comment, GitHub, LostAnswerError, WaitedError

TRIES: Final = 4


class WantedComment(NamedTuple):
    """The comment that there should be."""

    pull: int
    author: str
    """Only comments of this author are looked at: any reader may write our tag."""
    tag: str
    run: Run
    content: str
    quiet_if_same: bool
    """Leave a comment with the same content alone, and write none where `nothing_to_say`."""
    nothing_to_say: bool


class Action(StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    SAME = "same"
    """The comment has the same content already."""
    OLDER = "older"
    """The comment is of a newer run."""
    NOTHING = "nothing"


class Posted(NamedTuple):
    action: Action
    url: str
    others: int
    """Further comments with our author and tag: an earlier run may have written two."""


async def post(github: GitHub, wanted: WantedComment) -> Posted:
    """Raises `CommandError`. Nothing is half posted: a comment is written in one request."""
    text = body(wanted.tag, wanted.run, wanted.content)
    lost = 0
    while True:
        # A newer run may have written while this one waited, and a comment may be there although its answer was lost.
        own = await _own(github, wanted)
        try:
            if own:
                return await _replaced(github, wanted, own, text)
            if wanted.quiet_if_same and wanted.nothing_to_say:
                return Posted(Action.NOTHING, "", 0)
            made = await github.create(wanted.pull, text)
            return Posted(Action.CREATED, made.url, 0)
        except WaitedError:
            continue  # as often as the time for waiting allows
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
    """The oldest of our comments is the one that people have links to."""
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
    """Without what a host or a browser changes: line ends, and blanks at the end."""
    return text.replace("\r\n", "\n").rstrip()
