"""Finds callers that a guard newly admits (loosened) or refuses (tightened, refused), if it judges the caller alone.

Such a guard judges a caller in the same way whether its call is declared or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from admc.review.diff.model import CallName, Change, Word
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import MOST_UNDECLARED, UNDECLARED, PlanIndex
from admc.review.diff.protection.matches import direction
from admc.review.diff.protection.note import Note, list_text


def admitted(comparison: Comparison) -> Iterator[Note]:
    """Callers that a guard newly admits, or newly refuses without a declared call."""
    base, head = comparison.base, comparison.head
    for pair, before, after in _judging(comparison):
        change = _change(before, after)
        for caller in sorted(after - before):
            calls = [call for call in _calls_of(caller, pair, comparison) if base.applies(pair.base, call)]
            text = f"newly admitted by `{pair.name}`"
            if calls:
                yield comparison.note(Word.LOOSENED, pair, calls, text, change)
        for caller in sorted(before - after):
            calls = [call for call in _calls_of(caller, pair, comparison) if not _declared(head, call)]
            text = f"no longer admitted by `{pair.name}`"
            if calls:
                yield comparison.note(Word.TIGHTENED, pair, calls, text, change)


def refused(comparison: Comparison) -> Iterator[Note]:
    """Declared calls that a guard newly refuses: they will break."""
    base, head = comparison.base, comparison.head
    for pair in comparison.pairs:
        after = None if pair.head is None else head.admits(pair.head)
        if pair.head is None or after is None:
            continue
        before = None if pair.base is None else base.admits(pair.base)
        newly = [
            call
            for call in head.met[pair.head]
            if call.source not in after and not _refused_before(comparison, pair, before, call)
        ]
        when = head.content(pair.head).when
        where = "" if when is None else f" when {when}"
        for removed in (True, False):
            calls = [call for call in newly if (before is not None and call.source in before) is removed]
            change = _change(before, after) if removed and before is not None else None
            if calls:
                yield comparison.note(Word.REFUSED, pair, calls, f"refused by `{pair.head}`{where}", change)


def _refused_before(comparison: Comparison, pair: Pair, before: frozenset[str] | None, call: CallName) -> bool:
    """Whether BASE's guards refuse all requests of a call that HEAD's guard refuses."""
    base = comparison.base
    if call not in base.calls:
        return False  # a new call that is refused from its beginning is always reported
    if base.refusing(call) is not None:
        return True
    if pair.base is None or pair.head is None or before is None:
        return False
    if call.source in before or not base.applies(pair.base, call):
        return False
    old, new = base.content(pair.base), comparison.head.content(pair.head)
    return direction(old.when, new.when) in (None, Word.NARROWED)


def _judging(comparison: Comparison) -> Iterator[tuple[Pair, frozenset[str], frozenset[str]]]:
    for pair in comparison.pairs:
        before = None if pair.base is None else comparison.base.admits(pair.base)
        after = None if pair.head is None else comparison.head.admits(pair.head)
        if before is not None and after is not None and before != after:
            yield pair, before, after


def _calls_of(caller: str, pair: Pair, comparison: Comparison) -> list[CallName]:
    """The calls of a caller that meet the guard in HEAD: all declared ones, and the first undeclared ones."""
    head, name = comparison.head, pair.head or ""
    declared = [call for call in head.calls_from.get(caller, ()) if call in head.met[name]]
    endpoints = sorted(head.open(name) | head.guarded(name))
    calls = (CallName(caller, *endpoint) for endpoint in endpoints)
    undeclared = (call for call in calls if not _declared(head, call) and head.applies(name, call))
    return [*declared, *islice(undeclared, MOST_UNDECLARED)]


def _declared(head: PlanIndex, call: CallName) -> bool:
    return call.source != UNDECLARED and call in head.calls


def _change(before: frozenset[str], after: frozenset[str]) -> Change:
    return Change("callers", list_text(sorted(before)), list_text(sorted(after)))
