"""Finds calls that meet a policy in one plan and not in the other: lost, gained, or gone with the call.

A policy is gone with its call if HEAD no longer declares the call. It is lost if the requests may go on without the
declaration, because one end of the call is outside of the mesh:

- A client outside sends its requests whether a program declares them or not.
- Every service can call a party outside, but ADMs capture only the calls of declared senders. So a guard, or a policy
  for `*`, is not enforced on such a call without its declaration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from admc.compile.plan.model import PolicyContent
from admc.review.diff.model import CallName, Word
from admc.review.diff.parties import share_a_place
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import MOST_UNDECLARED, UNDECLARED, PlanIndex, has_source
from admc.review.diff.protection.note import Note
from dsl.program import Verb

_PURPOSES = (
    (Verb.REPEATS, "retried"),
    (Verb.TIMES_OUT, "bounded in time"),
    (Verb.ROUTES, "sent elsewhere"),
    (Verb.COPIES, "copied"),
    (Verb.DELAYS, "delayed"),
    (Verb.COUNTS, "counted"),
    (Verb.WRITES, "rewritten"),
    (Verb.REJECTS, "checked"),
)


class Missing(NamedTuple):
    """A call that meets a policy in one plan and not in the other plan."""

    call: CallName
    left: bool
    """The call itself is gone from the other plan: its declaration (and so its requests), its port or its caller."""


def lost(comparison: Comparison) -> Iterator[Note]:
    """Policies that a call no longer meets, although the call or its requests are still there."""
    base, head = comparison.base, comparison.head
    for pair in comparison.pairs:
        if pair.base is None:
            continue
        for missing in _missing(base, pair.base, head, pair.head):
            if not missing.left:
                yield comparison.note(Word.LOST, pair, (missing.call,), _lost_text(comparison, pair, missing.call))


def gone(comparison: Comparison) -> Iterator[Note]:
    """Policies that are gone with their call, with the policies that a request on the call would meet."""
    base, head = comparison.base, comparison.head
    for pair in comparison.pairs:
        if pair.base is None:
            continue
        for missing in _missing(base, pair.base, head, pair.head):
            if missing.left:
                text = _all_the_same(head, missing.call)
                yield comparison.note(Word.GONE_WITH_ITS_CALL, pair, (missing.call,), text)


def gained(comparison: Comparison) -> Iterator[Note]:
    """Policies that a call newly meets."""
    base, head = comparison.base, comparison.head
    for pair in comparison.pairs:
        if pair.head is None:
            continue
        for missing in _missing(head, pair.head, base, pair.base):
            if pair.base is None:
                text = f"newly {purpose(head.content(pair.head))}: `{pair.head}` is new"
            elif missing.left:
                what = "port" if missing.call.source == UNDECLARED else "call"
                text = f"the {what} is new, and `{pair.head}` applies to it"
            else:
                text = f"newly {purpose(head.content(pair.head))}: `{pair.head}` newly applies here"
            yield comparison.note(Word.GAINED, pair, (missing.call,), text)


def _missing(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None) -> Iterator[Missing]:
    """Calls that meet `policy` in the plan `one`, and do not meet its `partner` in the plan `other`."""
    for call in one.met[policy] - (other.met[partner] if partner is not None else set()):
        if not other.applies(partner, call):
            yield Missing(call, _left(one, policy, other, partner, call))
    there = frozenset() if partner is None else other.open(partner)
    for destination, port in one.open(policy) - there:
        yield Missing(CallName(UNDECLARED, destination, port), not other.has_port(destination, port))
    yield from _undeclared_names(one, policy, other, partner)
    # An open policy meets such a call as undeclared in `one`; `other` declares it, and its partner's scope lacks it.
    for call in one.met_undeclared(other).get(policy, ()):
        if not other.applies(partner, call):
            yield Missing(call, left=False)


def _left(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None, call: CallName) -> bool:
    """Whether `other` no longer declares a call, and its requests end with the declaration.

    It is False if the policy would meet the call also without a declaration, and no longer selects the caller.
    """
    if other.declares(call):
        return False
    return not _shrank_for(one, policy, other, partner, call) and not goes_on(one, policy, other, partner, call)


def _shrank_for(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None, call: CallName) -> bool:
    """Whether a policy that meets a call also without its declaration no longer selects the caller.

    Such policies are guards that name their sources, and policies for `*`.
    """
    content = one.content(policy)
    if partner is None or not (content.open or content.guard):
        return False
    others = other.content(partner)
    return (
        has_source(content, call.source)
        and not has_source(others, call.source)
        and not _went(one, other, call.source)
        and other.has_port(call.destination, call.port)
    )


def _undeclared_names(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None) -> Iterator[Missing]:
    """Missing calls of undeclared callers with a name: sources of a guard, or callers that an open scope leaves out."""
    content = one.content(policy)
    here = one.guarded(policy)
    there = frozenset() if partner is None else other.open(partner) | other.guarded(partner)
    for destination, port in here - there:
        yield Missing(CallName(UNDECLARED, destination, port), not other.has_port(destination, port))
    if partner is None:
        return
    others = other.content(partner)
    known = content.sources if here else others.excluded
    names = [name for name in known if has_source(content, name) and not has_source(others, name)]
    if not names:
        return
    calls = (
        CallName(name, destination, port)
        for name in sorted(names)
        for destination, port in sorted((here or one.open(policy)) & there)
    )
    # There may be as many of these calls as callers times destinations, so their number is limited.
    missing = (call for call in calls if one.applies(policy, call) and not other.applies(partner, call))
    for call in islice(missing, MOST_UNDECLARED):
        if call not in one.met[policy]:
            yield Missing(call, left=_went(one, other, call.source))


def _went(one: PlanIndex, other: PlanIndex, name: str) -> bool:
    """Whether a caller is gone, so that it sends no more requests.

    A service is gone with its pods (`callers` handles pods that another service has). An external that is gone from the
    program still has its addresses.
    """
    return name in one.services and not other.is_party(name)


def purpose(content: PolicyContent) -> str:
    """The effect of a policy on a request, as a participle."""
    if content.effects is None:
        return "met"
    if content.guard:
        return "guarded"
    verbs = {effect.verb for effect in content.effects}
    if {Verb.COUNTS, Verb.REJECTS} <= verbs:
        return "limited"
    return next((word for verb, word in _PURPOSES if verb in verbs), "met")


def _lost_text(comparison: Comparison, pair: Pair, call: CallName) -> str:
    base, head = comparison.base, comparison.head
    start = f"no longer {purpose(base.content(pair.base or ''))}"
    if pair.head is None:
        return f"{start}: `{pair.base}` is gone"
    content, before = head.content(pair.head), base.content(pair.base or "")
    if before.open and not content.open:
        return f"{start}: `{pair.head}` names its callers instead of `*`"
    if content.open and call.source in content.excluded:
        return f"{start}: `{pair.head}` leaves this caller out"
    for name in (call.destination, call.source):
        selected = content.destinations if name == call.destination else content.sources
        if name not in selected and _labels_differ(comparison, name):
            return f"{start}: labels changed, and `{pair.head}` does not select the service any more"
    if has_source(content, call.source) and goes_on(base, pair.base or "", head, pair.head, call):
        return f"{start}: {reason(base, call)}"
    return f"{start}: the scope of `{pair.head}` leaves it out"


def _labels_differ(comparison: Comparison, name: str) -> bool:
    before, after = comparison.base.services.get(name), comparison.head.services.get(name)
    return before is not None and after is not None and before.labels != after.labels


def _all_the_same(head: PlanIndex, call: CallName) -> str:
    """A phrase about a request on a call that HEAD no longer declares: its port, its refusal or its policies."""
    start = "if the call comes all the same"
    if not head.has_port(call.destination, call.port):
        return "its port is gone"
    guard = head.refusing(call)
    if head.closed_to(call):
        return f"{start}, the NetworkPolicy of its destination refuses it"
    if guard is not None:
        return f"{start}, `{guard}` refuses it"
    met = head.meets(call)
    if not met:
        return f"{start}, it meets no policy"
    return f"{start}, it meets {', '.join(f'`{name}`' for name in met)}"


def goes_on(one: PlanIndex, policy: str, other: PlanIndex, partner: str | None, call: CallName) -> bool:
    """Whether requests of a call go on in `other` without its declaration, and do not meet the policy's partner."""
    content = one.content(policy)
    if call.source in one.externals:
        if not other.has_port(call.destination, call.port) or other.refuses(call):
            return False
        ways = [replace(call, source=name) for name in _successors(one, other, call.source, unknown=True)]
    elif call.destination in one.externals and (content.open or content.guard):
        if call.source not in other.services:
            return False
        ends = (call.destination, *_successors(one, other, call.destination, unknown=False))
        ways = [CallName(call.source, name, call.port) for name in ends]
    else:
        return False
    return not any(other.applies(partner, way) for way in ways)


def reason(one: PlanIndex, call: CallName) -> str:
    """Why requests of a call go on, as the continuation of a sentence about its policy."""
    if call.source in one.externals:
        return "the call is no longer declared, and clients outside of the mesh still send it"
    return "the call is no longer declared, and one to a party outside of the mesh is then not captured"


def _successors(one: PlanIndex, other: PlanIndex, external: str, *, unknown: bool) -> list[str]:
    """The externals of `other` that have addresses of an external that is gone; none if it is still there.

    `unknown`: also the externals that stand for all clients with an unknown address.
    """
    row = one.externals[external]
    if external in other.externals:
        return []
    successors = (
        name
        for name, candidate in other.externals.items()
        if share_a_place(row, candidate) or (unknown and name in other.unknown)
    )
    return sorted(successors)
