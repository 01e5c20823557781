"""A difference of two plans as Markdown, for a comment on a change or the summary of a job.

The first lines have the findings that are weaker and the gates that did not pass. All other sections are folded. Code
hosts refuse a comment that is too long, so whole sections are left out. Those that repeat the changed files go first.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from admc.review.diff.model import Diff, How, Verdict
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.markdown_sections import MARKDOWN, Section, finding_rows, link, sections

LIMIT: Final = 65_000
"""The size in bytes. GitHub accepts comments of 65,536 characters."""
LINES: Final = 25
"""The number of lines before the first folded section."""
_GATES: Final = 4
_NOTES: Final = 4
_ROW: Final = 1_200
"""A folded table may have one row for this many bytes of the limit, so that several tables fit."""
_ROWS: Final = 5
_RESERVED: Final = 400
"""Bytes for the line that lists the sections that were left out."""


class _Head(NamedTuple):
    lines: list[str]
    shown: int
    """The number of weaker findings in these lines."""


def render(diff: Diff, *, blob: str | None = None, limit: int = LIMIT) -> str:
    """The difference as Markdown with at most `limit` bytes.

    `blob` is the address at which a code host shows files: `https://github.com/OWNER/REPO/blob`. A link appends a
    commit, a path and a line. Without `blob`, and for a side that was not read from a commit, places are plain text.
    """
    head = _head(diff, blob, limit)
    if first_line.is_equal(diff):
        return "\n".join(head.lines) + "\n"
    foot = _foot(diff)
    if _size([*head.lines, *foot]) > limit - _RESERVED:
        # With very long names even the first lines are too long. The headline alone always fits.
        head, foot = _Head([_sentence(diff)], 0), []
    room = limit - _RESERVED - _size([*head.lines, *foot])
    candidates = sections(diff, blob, all_weaker=head.shown < len(diff.weaker), rows=max(_ROWS, limit // _ROW))
    kept = _fitting(candidates, room)
    lines = [*head.lines]
    for section in candidates:
        if section.name in kept:
            lines += ["", *folded(section)]
    lines += ["", *foot] if foot else []
    left_out = ", ".join(section.name for section in candidates if section.name not in kept)
    if left_out:
        lines += ["", f"Left out, to stay under {limit:,} bytes: {left_out}. `admc diff --format json` has them."]
    return "\n".join(lines) + "\n"


def folded(section: Section) -> list[str]:
    # An empty line ends the HTML, so that Markdown has its effect again.
    return ["<details>", f"<summary>{escape(section.title)}</summary>", "", *section.lines, "", "</details>"]


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in lines)


def _fitting(candidates: Sequence[Section], room: int) -> set[str]:
    """The names of the sections that fit, the most important ones first."""
    kept = set()
    for section in sorted(candidates, key=lambda section: section.rank):
        size = _size(["", *folded(section)])
        if size <= room:
            kept.add(section.name)
            room -= size
    return kept


# ---- before the first folded section ----


def _head(diff: Diff, blob: str | None, limit: int) -> _Head:
    lines = [_sentence(diff)]
    doubts = first_line.doubts(diff, MARKDOWN)
    if doubts:
        lines += ["", *(f"- **Attention**: {doubt}" for doubt in doubts)]
    gates = _gates(diff, blob)
    if gates:
        # Doubts and gates are one list, without an empty line between them.
        lines += [*([] if doubts else [""]), *gates]
    if not diff.weaker or diff.base.how is How.BROKEN:
        return _Head(lines, 0)
    # Six lines are reserved: two for the head of the table, one for the rest, and three empty lines.
    rows = finding_rows(diff, diff.weaker[: LINES - len(lines) - 6], blob)
    while rows and _size([*lines, *rows]) > limit // 2:
        rows.pop()
    lines += ["", "| weaker | call | what changes | line |", "|---|---|---|---|", *rows]
    if len(rows) < len(diff.weaker):
        lines += ["", f"and {len(diff.weaker) - len(rows):,} more"]
    return _Head(lines, len(rows))


def _sentence(diff: Diff) -> str:
    verdict, figures = first_line.headline(diff, MARKDOWN)
    sentence = f"**{MARKDOWN.name(diff.app)}: {verdict}.**"
    if not figures:
        return sentence
    return f"{sentence} {'; '.join(figures)}."


def _gates(diff: Diff, blob: str | None) -> list[str]:
    """A line for each gate that did not pass, and one line for all gates that passed."""
    shown = [gate for gate in diff.gates if gate.verdict is not Verdict.PASSED]
    passed = len(diff.gates) - len(shown)
    lines = []
    for gate in shown[:_GATES]:
        verb = "fail" if gate.fails else "warn"
        at = link(words.base_place(diff, gate.line), blob)
        lines.append(
            f"- **{words.gate_word(gate)}**: {MARKDOWN.name(gate.name)}, {verb} when "
            f"{MARKDOWN.name(gate.condition)}: {words.gate_text(gate, MARKDOWN)} ({at})"
        )
    if len(shown) > _GATES:
        lines.append(f"- and {len(shown) - _GATES:,} more gates that did not pass")
    if passed:
        lines.append(f"- {passed:,} {'gate' if passed == 1 else 'gates'} passed")
    return lines


def _foot(diff: Diff) -> list[str]:
    base, head = words.side_taken(diff.base, MARKDOWN), words.side_taken(diff.head, MARKDOWN)
    notes = first_line.notes(diff)
    lines = [f"- {MARKDOWN.sentence(note)}" for note in notes[:_NOTES]]
    lines += [f"- and {len(notes) - _NOTES:,} more notes"] if len(notes) > _NOTES else []
    return [f"Compared: BASE {base}, HEAD {head}.", *(["", *lines] if lines else [])]
