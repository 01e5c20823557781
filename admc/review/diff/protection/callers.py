"""Finds policies that callers lose or gain because the same callers have another name in HEAD.

    Comparison --regions--> callers with another name -> notes

Policies select callers by name. The name of the same callers changes if another service selects their pods, another
external gets their address, their service becomes an external, or it starts or stops to share the network of its node.
Under the new name, the callers must meet the policies that they met under the old name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from admc.review.diff.model import CallName, Change, Word
from admc.review.diff.protection import effects
from admc.review.diff.protection.comparison import NO_POLICY, Comparison, Pair
from admc.review.diff.protection.index import MOST_UNDECLARED, PlanIndex, has_source
from admc.review.diff.protection.note import Note, list_text
from admc.review.diff.protection.regions import Moved, moved_callers
from dsl.program import Verb

_ON_OTHERS = (Verb.WRITES, Verb.ROUTES, Verb.REPEATS)


class _Sides(NamedTuple):
    """Two plans, `one` and `other`, and the policies that both have."""

    one: PlanIndex
    other: PlanIndex
    partners: Mapping[str, str]
    """Name of a policy in `one` -> its name in `other`; `back` is the reverse."""
    back: Mapping[str, str]


class _Loss(NamedTuple):
    """A policy that callers meet in one plan, and do not meet in the other under their new name."""

    call: CallName
    policy: str | None
    partner: str | None
    admitted: bool
    """The other plan admits the callers: the policy does, or without a policy a NetworkPolicy."""


def now_known_otherwise(comparison: Comparison) -> Iterator[Note]:
    """Policies that callers with another name no longer meet, or that newly admit them."""
    base, head = comparison.base, comparison.head
    for moved in moved_callers(base, head):
        why = f"callers known as `{moved.before}` in BASE are `{moved.after}` now"
        for loss in _losses(_Sides(base, head, comparison.head_name, comparison.base_name), moved):
            pair = Pair(loss.policy, loss.partner) if loss.policy else NO_POLICY
            word = Word.LOOSENED if loss.admitted else _word(head, loss.partner, moved.before)
            text = f"newly admitted: {why}" if loss.admitted else why
            yield comparison.note(word, pair, (loss.call,), text, _change(comparison, pair, moved))
        yield from _unclear(comparison, moved, why)


def _word(head: PlanIndex, partner: str | None, source: str) -> Word:
    """Lost; but narrowed if the scope of the policy still has the caller under the old name."""
    kept = partner is not None and head.is_party(source) and has_source(head.content(partner), source)
    return Word.NARROWED if kept else Word.LOST


def known_otherwise_before(comparison: Comparison) -> Iterator[Note]:
    """Policies that such callers newly meet, or that no longer admit them."""
    base, head = comparison.base, comparison.head
    for moved in moved_callers(head, base):
        why = f"callers known as `{moved.after}` in BASE are `{moved.before}` now"
        for loss in _losses(_Sides(head, base, comparison.base_name, comparison.head_name), moved):
            if loss.policy is None or loss.partner is None:
                continue  # other detectors report new policies and NetworkPolicies
            pair = Pair(loss.partner, loss.policy)
            call = replace(loss.call, source=moved.before)
            word = Word.TIGHTENED if loss.admitted else Word.WIDENED
            yield comparison.note(word, pair, (call,), why, _change(comparison, pair, moved))


def _change(comparison: Comparison, pair: Pair, moved: Moved) -> Change | None:
    """The callers that a guard admits, if they changed; else the addresses of an external among the two names."""
    base, head = comparison.base, comparison.head
    before = None if pair.base is None else base.admits(pair.base)
    after = None if pair.head is None else head.admits(pair.head)
    if before is not None and after is not None and before != after:
        return Change("callers", list_text(sorted(before)), list_text(sorted(after)))
    for name in moved:
        rows = [index.externals.get(name) for index in (base, head)]
        ranges = [None if row is None else list_text(row.cidrs) for row in rows]
        if ranges[0] != ranges[1]:
            return Change(f"cidrs of {name}", *ranges)
    return None


def _losses(sides: _Sides, moved: Moved) -> Iterator[_Loss]:
    one, other, partners, _ = sides
    for call in _calls(sides, moved):
        if other.refuses(call):
            continue
        old = replace(call, source=moved.before)
        before, after = _before(sides, old, call), set(other.meets(call))
        guards = False
        for name in before:
            partner = partners.get(name)
            if partner is None or partner not in after:
                yield _Loss(call, name, partner, admitted=False)
                continue
            admitted, admits = one.admits(name), other.admits(partner)
            if admitted is not None and admits is not None and moved.before not in admitted and moved.after in admits:
                guards = True
                yield _Loss(call, name, partner, admitted=True)
        if not guards and old not in one.calls and one.closed_to(old):
            yield _Loss(call, None, None, admitted=True)


def _before(sides: _Sides, old: CallName, call: CallName) -> list[str]:
    """The policies that the callers met under their old name.

    If `other` declares the call under neither name, only policies count that the call met without a declaration: all
    others are gone with their call.
    """
    declared = sides.other.declares(call) or sides.other.declares(old)
    return sides.one.meets(old) if declared else sides.one.undeclared(old)


def _calls(sides: _Sides, moved: Moved) -> list[CallName]:
    """Calls under the new name for which the name may make a difference."""
    one, other, partners, back = sides
    calls = set(other.calls_from.get(moved.after, ()))
    calls |= {replace(call, source=moved.after) for call in one.calls_from.get(moved.before, ())}
    endpoints = {
        endpoint
        for name in {
            *one.singled_out.get(moved.before, ()),
            *(back[name] for name in other.singled_out.get(moved.after, ()) if name in back),
        }
        if _differs(sides, name, partners.get(name), moved)
        for endpoint in one.open(name) | one.guarded(name)
    }
    calls |= {CallName(moved.after, *endpoint) for endpoint in sorted(endpoints)[:MOST_UNDECLARED]}
    return sorted(
        call
        for call in calls
        if call.destination not in moved
        and one.is_party(call.destination)
        and other.is_party(call.destination)
        and other.has_port(call.destination, call.port)
        and (call.destination not in other.externals or other.declares(call))
    )


def _differs(sides: _Sides, name: str, partner: str | None, moved: Moved) -> bool:
    """Whether a policy makes a difference between both names where no call is declared."""
    if partner is None:
        return False  # the policy is gone for all callers, which `meeting` reports
    one, other, *_ = sides
    if one.selects(name, moved.before) is not other.selects(partner, moved.after):
        return True
    return (moved.before in (one.admits(name) or ())) is not (moved.after in (other.admits(partner) or ()))


def _unclear(comparison: Comparison, moved: Moved, why: str) -> Iterator[Note]:
    """Policies that these callers newly meet, and that may weaken the policies that they met before."""
    sides = _Sides(comparison.base, comparison.head, comparison.head_name, comparison.base_name)
    for call in _calls(sides, moved):
        known = {comparison.head_name.get(name) for name in _before(sides, replace(call, source=moved.before), call)}
        for name in comparison.head.meets(call) if known else ():
            if name in known:
                continue
            content = comparison.head.content(name)
            if content.effects is None or any(effects.does(content, verb) for verb in _ON_OTHERS):
                text = f"these requests newly meet `{name}`: {why}"
                yield comparison.note(Word.UNCLEAR, Pair(comparison.base_name.get(name), name), (call,), text)
