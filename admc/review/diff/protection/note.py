"""The notes of detectors about calls, and their grouping to findings.

notes -> [Finding]
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from admc.compile.plan.model import SourceLine
from admc.review.diff.model import STRICTER, WEAKER, CallName, Change, Finding, Word

ORDER: Final = {word: index for index, word in enumerate((*WEAKER, *STRICTER, Word.GONE_WITH_ITS_CALL))}


class Note(NamedTuple):
    """One observation of one detector. Notes that differ only in their calls become one finding."""

    word: Word
    policy: str
    calls: tuple[CallName, ...]
    text: str
    change: Change | None
    lines: tuple[SourceLine | None, SourceLine | None]
    """The lines of the policy in BASE and in HEAD."""
    other: str | None = None


def grouped(notes: Iterable[Note]) -> list[Finding]:
    """The findings in canonical order: one for all notes that differ only in their calls."""
    calls: dict[Note, set[CallName]] = {}
    for note in notes:
        calls.setdefault(note._replace(calls=()), set()).update(note.calls)
    findings = [
        Finding(note.word, note.policy, note.other, tuple(sorted(these)), note.text, note.change, *note.lines)
        for note, these in calls.items()
    ]
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> tuple[object, ...]:
    return ORDER[finding.word], finding.policy, finding.calls, finding.other or "", finding.text


def list_text(names: Iterable[str]) -> str:
    return f"[{', '.join(names)}]"
