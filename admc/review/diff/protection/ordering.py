"""Finds two policies that a request meets in the reverse order, and that do not commute (reordered).

Whether two policies commute is judged by BASE's effects. Two policies whose matches exclude each other never meet the
same request, so their order makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from admc.compile.plan.model import PolicyContent
from admc.review.diff.model import CallName, Word
from admc.review.diff.protection import effects
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import UNDECLARED
from admc.review.diff.protection.matches import exclude_each_other
from admc.review.diff.protection.note import Note

Inversion = tuple[str, str]
"""Two policies by BASE's names, in BASE's order, which HEAD has in the reverse order."""


def reordered(comparison: Comparison) -> Iterator[Note]:
    if _in_order(comparison):
        return
    calls_by_inversion: dict[Inversion, list[CallName]] = {}
    inversions: dict[tuple[str, ...], tuple[Inversion, ...]] = {}
    for call, met in _met_in_both(comparison):
        if met not in inversions:
            inversions[met] = tuple(_inverted(comparison, met))
        for inversion in inversions[met]:
            calls_by_inversion.setdefault(inversion, []).append(call)
    for (first, second), calls in calls_by_inversion.items():
        one, other = comparison.head_name[first], comparison.head_name[second]
        text = f"`{other}` is met before `{one}` now, and these two do not commute"
        yield comparison.note(Word.REORDERED, Pair(first, one), calls, text)._replace(other=other)


def _in_order(comparison: Comparison) -> bool:
    """Whether the policies that both plans have are in the same order in both."""
    position = comparison.head.position
    order = [position[comparison.head_name[name]] for name in comparison.base.position if name in comparison.head_name]
    return order == sorted(order)


def _met_in_both(comparison: Comparison) -> Iterator[tuple[CallName, tuple[str, ...]]]:
    """Each call with the policies that it meets in both plans, by BASE's names and in BASE's order."""
    base, head = comparison.base, comparison.head
    declared = set(head.policies_at) | set(base.policies_at)
    undeclared = {CallName(UNDECLARED, *endpoint) for endpoint in head.open_at.keys() | head.guarded_at.keys()}
    for call in declared | undeclared:
        before = base.meets(call) if call.source != UNDECLARED else _undeclared(comparison, call)
        after = set(head.meets(call)) if call.source != UNDECLARED else None
        met = [name for name in before if name in comparison.head_name]
        if after is not None:
            met = [name for name in met if comparison.head_name[name] in after]
        if len(met) > 1:
            yield call, tuple(met)


def _undeclared(comparison: Comparison, call: CallName) -> list[str]:
    """The policies that some undeclared caller may meet in both plans."""
    base, head = comparison.base, comparison.head
    endpoint = (call.destination, call.port)
    before = {*base.open_at.get(endpoint, ()), *base.guarded_at.get(endpoint, ())}
    after = {*head.open_at.get(endpoint, ()), *head.guarded_at.get(endpoint, ())}
    return sorted((name for name in before if comparison.head_name.get(name) in after), key=base.position.__getitem__)


def _inverted(comparison: Comparison, met: tuple[str, ...]) -> Iterator[Inversion]:
    position = comparison.head.position
    for first, second in combinations(met, 2):
        one, other = comparison.head_name[first], comparison.head_name[second]
        if position[one] > position[other] and _matters(comparison, first, second):
            yield first, second


def _matters(comparison: Comparison, first: str, second: str) -> bool:
    one, other = comparison.base.content(first), comparison.base.content(second)
    return not effects.commute(one, other) and not never_meet(one, other)


def never_meet(one: PolicyContent, other: PolicyContent) -> bool:
    """Whether the matches of two policies are proven to exclude each other in both orders of the policies."""
    if effects.writes_request(one) or effects.writes_request(other):
        return False
    return exclude_each_other(one.when, other.when)
