"""What becomes of the protection of requests: every finding of two plans, by word.

    plan, plan, renames -> Comparison -> detectors -> notes -> [Findings]

Each detector looks for one kind of change and knows nothing of the others, but for `interference`, which looks at what
they found gained. `docs/diff.md` defines the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from admc.compile.plan.model import Plan
from admc.review.diff.model import STRICTER, WEAKER, Finding, Rename, Word
from admc.review.diff.parties import in_names_of
from admc.review.diff.protection import (
    arguments,
    asked,
    callers,
    closing,
    environment,
    guards,
    kinds,
    matches,
    meeting,
    ordering,
    reliance,
    targets,
)
from admc.review.diff.protection.comparison import Comparison
from admc.review.diff.protection.interference import interference
from admc.review.diff.protection.note import Note, grouped

Detector = Callable[[Comparison], Iterator[Note]]

DETECTORS: Final[tuple[Detector, ...]] = (
    meeting.lost,
    meeting.gained,
    meeting.gone,
    targets.other_ways,
    matches.changed_matches,
    arguments.changed_arguments,
    kinds.changed_kinds,
    guards.admitted,
    guards.refused,
    closing.no_longer_closed,
    closing.newly_closed,
    closing.newly_declared,
    reliance.rests_on_more,
    reliance.rests_on_less,
    ordering.reordered,
    environment.replicas,
    environment.protocols,
    environment.selected_pods,
    environment.destinations,
    callers.now_known_otherwise,
    callers.known_otherwise_before,
    asked.asked_otherwise,
)


class Findings(NamedTuple):
    weaker: tuple[Finding, ...]
    """By word, as in `WEAKER`, then policy and calls; `stricter` in the same way."""
    stricter: tuple[Finding, ...]
    gone: tuple[Finding, ...]


def findings(base: Plan, head: Plan, renames: Sequence[Rename] = ()) -> Findings:
    """What gets weaker, what gets stricter, and what goes with its call, from BASE to HEAD."""
    comparison = Comparison(in_names_of(base, head), head, renames)
    notes = [note for detector in DETECTORS for note in detector(comparison)]
    notes += interference(comparison, notes)
    all_findings = grouped(notes)
    return Findings(
        tuple(finding for finding in all_findings if finding.word in WEAKER),
        tuple(finding for finding in all_findings if finding.word in STRICTER),
        tuple(finding for finding in all_findings if finding.word is Word.GONE_WITH_ITS_CALL),
    )
