"""A difference of two plans as GitHub workflow commands, which GitHub shows beside the changed lines.

GitHub shows at most ten errors, ten warnings and ten notices of a step. So the output has the ten worst annotations,
and a notice with the headline of the difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from admc.base.findings.github import command
from admc.review.diff.model import Diff, Verdict, Word
from admc.review.diff.render import headline as first_line
from admc.review.diff.render import words
from admc.review.diff.render.words import TEXT, LinePlace

MOST: Final = 10


def render(diff: Diff) -> str:
    annotations = [*_doubts(diff), *_gates(diff), *_notes(diff), *_findings(diff)]
    verdict, figures = first_line.headline(diff, TEXT)
    lines = ["; ".join((f"{diff.app}: {verdict}", *figures))]
    if len(annotations) > MOST:
        lines.append(f"and {len(annotations) - MOST} more, which `admc diff` lists")
    return "".join(
        f"{annotation}\n" for annotation in (*annotations[:MOST], command("notice", {"title": "admc diff"}, lines))
    )


def _doubts(diff: Diff) -> Iterator[str]:
    for doubt in first_line.doubts(diff, TEXT):
        yield command("warning", {"title": "admc diff: not compared"}, [doubt])


def _gates(diff: Diff) -> Iterator[str]:
    """The annotations of gates that did not pass; gates that fail come first."""
    shown = [gate for gate in diff.gates if gate.verdict is not Verdict.PASSED]
    for gate in sorted(shown, key=lambda gate: words.gate_word(gate) != "fails"):
        word = words.gate_word(gate)
        text = f"{'fail' if gate.fails else 'warn'} when {gate.condition}: {words.gate_text(gate, TEXT)}"
        at = words.base_place(diff, gate.line).text
        title = {"title": f"admc gate {gate.name}: {word}"}
        yield command("error" if word == "fails" else "warning", title, [text, at])


def _notes(diff: Diff) -> Iterator[str]:
    """One annotation with all notes: the changes of gates in HEAD, or why no gate is judged."""
    notes = first_line.notes(diff)
    if notes:
        more = [f"and {len(notes) - MOST} more"] if len(notes) > MOST else []
        yield command("warning", {"title": "admc diff"}, [*notes[:MOST], *more])


def _findings(diff: Diff) -> Iterator[str]:
    refused = (finding for finding in diff.stricter if finding.word is Word.REFUSED)
    for finding in (*diff.weaker, *refused):
        at = words.place(diff, finding)
        lines = [f"{words.call_names(finding.calls)}: {finding.text}" if finding.calls else finding.text]
        properties = _file(at)
        if at is not None and not properties:
            lines.append(at.text)
        yield command("warning", {**properties, "title": f"admc diff: {finding.word.value}"}, lines)


def _file(at: LinePlace | None) -> dict[str, str]:
    """The file and line of a place; empty for a line of BASE, since GitHub shows the files of HEAD."""
    return {} if at is None or at.is_base else {"file": at.path, "line": str(at.line)}
