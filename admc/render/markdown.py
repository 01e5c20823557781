"""Findings as Markdown, for a comment on a change. Text of users never becomes markup."""

from __future__ import annotations

import re

from admc.render.excerpt import marked_line
from admc.render.report import Report, counts, place
from admc.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@&$:])")


def render(report: Report) -> str:
    if not report.diagnostics:
        return "No findings.\n"
    blocks = [f"**{counts(report.diagnostics)}**"]
    blocks += [_block(item, report.folder) for item in report.diagnostics]
    return "\n\n".join(blocks) + "\n"


def prose(text: str) -> str:
    """A message: text between backticks becomes code, all other text is escaped."""
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # a lone backtick: it quotes nothing
        return _SPECIAL.sub(r"\\\1", visible(text))
    return "".join(
        f"`{part}`" if i % 2 and part.strip() else _SPECIAL.sub(r"\\\1", part) for i, part in enumerate(parts)
    )


def code(text: str) -> str:
    """Text of the user as a code span, with more backticks around it than it contains."""
    shown = visible(text)
    fence = "`" * (_longest_run(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def fenced(text: str) -> str:
    """Lines of the user as a code block."""
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def cell(markdown: str) -> str:
    """Markdown in a table. A bar ends a cell even inside a code span."""
    return markdown.replace("\\|", "|").replace("|", "\\|")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _block(item: Diagnostic, folder: str) -> str:
    lines = [f"### {item.severity.value} {item.code}: {prose(item.message)}"]
    if item.span is not None:
        where = place(item.span, folder)
        shown, mark_at, mark_width = marked_line(item.span)
        marked = f"{shown}\n{' ' * mark_at}{'^' * mark_width}"
        lines += ["", code(f"{where.path}:{where.line}:{where.column}")]
        lines += ["", fenced(marked)] if shown.strip() else []
    notes = []
    if item.cause:
        notes.append(f"- because: {prose(item.cause)}")
    if item.hint:
        notes.append(f"- hint: {prose(item.hint)}")
    for related in item.related:
        where = place(related.span, folder)
        notes.append(f"- {code(f'{where.path}:{where.line}:{where.column}')}: {prose(related.message)}")
    if notes:
        lines += ["", *notes]
    return "\n".join(lines)
