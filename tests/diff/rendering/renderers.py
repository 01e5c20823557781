"""Every rendering of a difference by its name, as `admc diff` calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admc.diff.model import Diff
from admc.render import diff_github, diff_junit, diff_markdown, diff_mermaid, diff_sarif, diff_text

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
