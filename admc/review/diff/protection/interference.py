"""Finds unchanged policies that a gained policy on the same call may weaken (unclear).

    the gained policy newly                  and so may
    writes an element of requests            change which requests a later policy selects, and what it reads
    writes an element of responses           change what an earlier policy reads
    writes the same element as a policy      overwrite its value
    routes requests to another service       keep them from all later policies
    repeats requests                         repeat those that a later timeout bounds
    has unknown effects                      answer requests, or pass them on around all later filters

Only gains (`_GAINS`) are considered. Every other change is already a finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from admc.compile.plan.model import PolicyContent
from admc.review.diff.model import CallName, Word
from admc.review.diff.protection import effects
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import UNDECLARED, PlanIndex
from admc.review.diff.protection.matches import exclude_each_other
from admc.review.diff.protection.note import Note
from dsl.program import Verb

_GAINS = frozenset((Word.GAINED, Word.WIDENED, Word.TIGHTENED))


def interference(comparison: Comparison, notes: Iterable[Note]) -> Iterator[Note]:
    """Policies of both plans that a gain in `notes` may weaken."""
    head = comparison.head
    calls: dict[str, set[CallName]] = {}
    for note in notes:
        if note.word not in _GAINS or note.policy not in head.rows:
            continue
        if _acts_on_others(head.content(note.policy), note.word):
            calls.setdefault(note.policy, set()).update(note.calls)
    for name, these in calls.items():
        yield from _weakened_by(comparison, name, these)


def _acts_on_others(content: PolicyContent, word: Word) -> bool:
    if content.effects is None or effects.does(content, Verb.WRITES):
        return True
    # A policy that only gets a stricter argument already routed or repeated requests in BASE.
    return word is not Word.TIGHTENED and (effects.does(content, Verb.ROUTES) or effects.does(content, Verb.REPEATS))


def _weakened_by(comparison: Comparison, name: str, calls: Iterable[CallName]) -> Iterator[Note]:
    head, base = comparison.head, comparison.base
    reasons: dict[tuple[str, bool], str | None] = {}
    calls_by_reason: dict[tuple[str, str], list[CallName]] = {}
    for call in calls:
        here = met(head, call)
        alone = writes_alone(head, name, here)
        for other in here:
            old = comparison.base_name.get(other)
            if other == name or old is None or not (call.source == UNDECLARED or base.applies(old, call)):
                continue
            if (other, alone) not in reasons:
                reasons[other, alone] = why_weaker(comparison, name, other, alone=alone)
            why = reasons[other, alone]
            if why is not None:
                calls_by_reason.setdefault((other, why), []).append(call)
    for (other, why), these in calls_by_reason.items():
        yield comparison.note(Word.UNCLEAR, Pair(comparison.base_name[other], other), these, why)


def met(head: PlanIndex, call: CallName) -> list[str]:
    """The policies that a call meets; for `*`, all policies that some undeclared caller meets."""
    if call.source != UNDECLARED:
        return head.meets(call)
    endpoint = (call.destination, call.port)
    return [*head.open_at.get(endpoint, ()), *head.guarded_at.get(endpoint, ())]


def why_weaker(comparison: Comparison, name: str, other: str, *, alone: bool) -> str | None:
    """Why the policy `name` may weaken `other`; None if it cannot.

    `alone`: no third policy on the call writes an element that matches compare.
    """
    head = comparison.head
    one, two = head.content(name), head.content(other)
    if alone and exclude_each_other(one.when, two.when):
        return None
    inner = head.position[name] > head.position[other]
    if one.effects is None and _unknown_may_weaken(one, two, inner=inner):
        return f"nothing is known of what `{name}` does, and `{other}` may meet other requests because of it"
    if effects.overwrites(one, two):
        return f"`{name}` newly writes what `{other}` writes"
    if inner:
        feeds = effects.feeds(one, two, on_response=True)
        return f"`{name}`, after `{other}`, newly writes what `{other}` reads of responses" if feeds else None
    if effects.does(one, Verb.ROUTES):
        return f"`{name}`, before `{other}`, newly sends requests to another service"
    if effects.feeds(one, two, on_response=False):
        return f"`{name}`, before `{other}`, newly writes what `{other}` reads"
    if effects.does(one, Verb.REPEATS) and effects.does(two, Verb.TIMES_OUT):
        return f"`{name}`, before `{other}`, newly repeats what `{other}` bounds"
    return None


def _unknown_may_weaken(one: PolicyContent, two: PolicyContent, *, inner: bool) -> bool:
    """Whether a policy `one` with unknown effects may weaken `two`.

    As the inner policy it can do so only by its answers, and by elements that both may write.
    """
    if not inner:
        return True
    reads = effects.feeds(one, two, on_response=True)
    return reads or effects.overwrites(one, two) or effects.does(two, Verb.REPEATS)


def writes_alone(index: PlanIndex, name: str, others: Iterable[str]) -> bool:
    """Whether no other policy on a call writes an element of requests, which matches may compare."""
    return not any(effects.writes_request(index.content(other)) for other in others if other != name)
