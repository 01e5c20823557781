"""Collects all findings about the protection of requests, sorted by their words, such as `lost` or `tightened`.

    plan, plan, renames -> Comparison -> detectors -> notes -> [Findings]

Each detector looks for one kind of change, independently of the others. Only `interference` reads the notes of the
others: it looks for unchanged policies that a policy which was gained may weaken. `docs/diff.md` defines the words.
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
    closing.newly_admitted,
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
    """Sorted by word in the order of `WEAKER`, then by policy and calls. `stricter` is sorted in the same way."""
    stricter: tuple[Finding, ...]
    gone: tuple[Finding, ...]


def findings(base: Plan, head: Plan, renames: Sequence[Rename] = ()) -> Findings:
    """Return the findings by which protection becomes weaker, those by which it becomes stricter, and those about
    policies that are no longer met because their call is gone."""
    comparison = Comparison(in_names_of(base, head), head, renames)
    notes = [note for detector in DETECTORS for note in detector(comparison)]
    notes += interference(comparison, notes)
    all_findings = grouped(notes)
    return Findings(
        tuple(finding for finding in all_findings if finding.word in WEAKER),
        tuple(finding for finding in all_findings if finding.word in STRICTER),
        tuple(finding for finding in all_findings if finding.word is Word.GONE_WITH_ITS_CALL),
    )
