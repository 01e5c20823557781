"""Every rendering of a difference by its name, as `admc diff` calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admc.review.diff.model import Diff
from admc.review.diff.render import github as diff_github
from admc.review.diff.render import junit as diff_junit
from admc.review.diff.render import markdown as diff_markdown
from admc.review.diff.render import mermaid as diff_mermaid
from admc.review.diff.render import sarif as diff_sarif
from admc.review.diff.render import text as diff_text

BLOB: Final = "https://github.com/OWNER/REPO/blob"


def markdown(diff: Diff) -> str:
    return diff_markdown.render(diff, blob=BLOB)


RENDERERS: Final[dict[str, Callable[[Diff], str]]] = {
    "text": diff_text.render,
    "markdown": markdown,
    "mermaid": diff_mermaid.mermaid,
    "sarif": diff_sarif.render,
    "junit": diff_junit.render,
    "github": diff_github.render,
}
