"""Findings as Markdown, for a comment on a change. Text of users never becomes markup."""

from __future__ import annotations

import re

from admc.base.findings.excerpt import marked_line
from admc.base.findings.report import Report, counts, place
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~@&$:])")
_LINKED = re.compile(r"[@$]|#\d|GH-\d|://|www\.|:[\w+-]+:", re.IGNORECASE)
_PIECE = re.compile(r"(`++).*?(?<!`)\1(?!`)|\\.|\|", re.DOTALL)


def render(report: Report) -> str:
    if not report.diagnostics:
        return "No findings.\n"
    blocks = [f"**{counts(report.diagnostics)}**"]
    blocks += [_block(item, report.folder) for item in report.diagnostics]
    return "\n\n".join(blocks) + "\n"


def prose(text: str) -> str:
    """A message: text between backticks becomes code, all other text is escaped.

    A code host makes links of names (`@team`), numbers (`#1`) and addresses even in escaped text, but not in code. So
    a word that it could make a link of becomes code, too.
    """
    parts = visible(text).split("`")
    if len(parts) % 2 == 0:  # a lone backtick: it quotes nothing
        return "\\`".join(_escaped(part) for part in parts)
    shown = ""
    for at, part in enumerate(parts):
        piece = f"`{part}`" if at % 2 and part.strip() else _escaped(part)
        # Two code spans without a blank between them would be one.
        shown += " " if shown.endswith("`") and piece.startswith("`") else ""
        shown += piece
    return shown


def _escaped(part: str) -> str:
    return "".join(
        code(word) if _LINKED.search(word) else _SPECIAL.sub(r"\\\1", word) for word in re.split(r"(\s+)", part)
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
    """Escape the bars of Markdown for a table, where a bar ends the cell even in a code span. Escaped bars stay."""

    def in_cell(match: re.Match[str]) -> str:
        piece = match[0]
        return piece if piece.startswith("\\") else piece.replace("|", "\\|")

    return _PIECE.sub(in_cell, markdown)


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
