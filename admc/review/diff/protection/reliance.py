"""Finds policies that need more or fewer assumptions than before (rests on more, rests on less).

An assumption must be true for a policy to hold, and admc cannot enforce it. A decision may rest on these:

    CLOSED      the NetworkPolicy of the destination refuses undeclared callers
    SENDER      a sender cannot bypass its own ADM
    BYPASS      a sender that is not trusted, or is on the network of its node, uses its own ADM
    ADDRESS     addresses tell callers apart
    NODE        a service on the host's network, which passes the NetworkPolicies of its node, does not use that
    ALONE       the NetworkPolicy of the destination alone enforces the policy, on connections that are made after it
    OUTSIDE     only declared senders call an external: undeclared callers do not meet the policy

An assumption is new if the policy held without it in BASE. For a new policy or a new call, only CLOSED and SENDER
count, and only if no decision of BASE has the assumption: for CLOSED, at the same port.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from admc.compile.plan.model import DecisionPlan, PolicyContent
from admc.review.diff.model import CallName, Word
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import UNDECLARED, PlanIndex
from admc.review.diff.protection.note import Note
from dsl.program import Place, Reliance, Verb


class Reason(StrEnum):
    CLOSED = "closed"
    SENDER = "sender"
    BYPASS = "bypass"
    ADDRESS = "address"
    OUTSIDE = "outside"
    ALONE = "alone"
    NODE = "node"


class Assumption(NamedTuple):
    reason: Reason
    party: str


_MORE = {
    Reason.CLOSED: "`{policy}` now needs its destination closed to undeclared callers",
    Reason.SENDER: "`{policy}` now relies on senders not to bypass their own ADMs",
    Reason.BYPASS: "`{policy}` is now enforced by senders that are not trusted",
    Reason.ADDRESS: "`{policy}` now tells callers apart by address",
    Reason.OUTSIDE: "the destination is now outside the mesh, and undeclared callers do not meet `{policy}`",
    Reason.NODE: "`{policy}` now relies on services of the host's network not to pass a NetworkPolicy on their node",
    Reason.ALONE: "`{policy}` is now enforced by the NetworkPolicy of its destination alone, on new connections only",
}
_LESS = {
    Reason.CLOSED: "`{policy}` no longer needs its destination closed to undeclared callers",
    Reason.SENDER: "`{policy}` no longer relies on senders not to bypass their own ADMs",
    Reason.BYPASS: "`{policy}` is no longer enforced by senders that are not trusted",
    Reason.ADDRESS: "`{policy}` no longer tells callers apart by address",
    Reason.OUTSIDE: "the destination is no longer outside the mesh, where undeclared callers do not meet `{policy}`",
    Reason.NODE: "`{policy}` no longer relies on services of the host's network not to pass NetworkPolicies there",
    Reason.ALONE: "`{policy}` is no longer enforced by the NetworkPolicy of its destination alone",
}


def rests_on_more(comparison: Comparison) -> Iterator[Note]:
    base, head = comparison.base, comparison.head
    known: frozenset[Assumption] | None = None
    for pair in comparison.pairs:
        if pair.head is None:
            continue
        for decision in head.decisions[pair.head].values():
            after = rests_on(head, decision)
            if not after:
                continue
            before = _of(base, pair.base, decision.destination)
            if known is None:
                known = _all(base)
            for assumption in sorted(after - (before or frozenset())):
                if _implied(before, assumption):
                    continue
                calls = _calls(head, decision, assumption)
                if before is None or assumption.reason in (Reason.SENDER, Reason.BYPASS):
                    calls = [
                        call
                        for call in calls
                        if _is_new_to(base, known, assumption, call) or base.applies(pair.base, call)
                    ]
                if calls:
                    yield _note(comparison, Word.RESTS_ON_MORE, pair, calls, assumption)


def _is_new_to(base: PlanIndex, known: frozenset[Assumption], assumption: Assumption, call: CallName) -> bool:
    """Whether no decision of BASE has an assumption that counts also if a new policy needs it."""
    if assumption.reason is Reason.CLOSED:
        return (call.destination, call.port) not in base.closed_at
    return assumption.reason is Reason.SENDER and assumption not in known


def rests_on_less(comparison: Comparison) -> Iterator[Note]:
    base, head = comparison.base, comparison.head
    for pair in comparison.pairs:
        if pair.base is None or pair.head is None:
            continue
        for decision in base.decisions[pair.base].values():
            after = _of(head, pair.head, decision.destination)
            if after is None:
                continue
            for assumption in sorted(rests_on(base, decision) - after):
                calls = [call for call in _calls(base, decision, assumption) if _still(head, pair.head, call)]
                if calls and not _implied(after, assumption):
                    yield _note(comparison, Word.RESTS_ON_LESS, pair, calls, assumption)


def rests_on(index: PlanIndex, decision: DecisionPlan) -> frozenset[Assumption]:
    assumptions: set[Assumption] = set()
    if decision.closes:
        assumptions.add(Assumption(Reason.CLOSED, decision.destination))
        assumptions.update(Assumption(Reason.NODE, row.name) for row in index.services.values() if row.host_network)
    if decision.place is Place.NETWORK:
        assumptions.add(Assumption(Reason.ALONE, decision.destination))
    content = index.content(decision.policy)
    relies_on = decision.place.relies_on
    if Reliance.SENDERS in relies_on:
        if decision.open and decision.destination in index.externals:
            assumptions.add(Assumption(Reason.OUTSIDE, decision.destination))
        for call in index.at_egress.get((decision.policy, decision.destination), ()):
            sender = index.services.get(call.source)
            if must_rely(content):
                assumptions.add(Assumption(Reason.SENDER, call.source))
            elif sender is not None and (sender.host_network or not sender.trusted):
                assumptions.add(Assumption(Reason.BYPASS, call.source))
    if Reliance.ADDRESSES in relies_on and must_rely(content) and tells_apart(content):
        assumptions.add(Assumption(Reason.ADDRESS, decision.destination))
    return frozenset(assumptions)


def must_rely(content: PolicyContent) -> bool:
    """Whether a sender could gain from a bypass of the policy: it is a guard, or may reject requests."""
    return content.guard or content.effects is None or any(effect.verb is Verb.REJECTS for effect in content.effects)


def tells_apart(content: PolicyContent) -> bool:
    """Whether the ADM of the destination has to identify callers for a policy."""
    named = any(argument.type in ("caller", "[caller]") for argument in content.arguments)
    return named or not content.open or bool(content.excluded)


def _of(index: PlanIndex, policy: str | None, destination: str) -> frozenset[Assumption] | None:
    decision = None if policy is None else index.decisions.get(policy, {}).get(destination)
    return None if decision is None else rests_on(index, decision)


def _all(index: PlanIndex) -> frozenset[Assumption]:
    decisions = (decision for by_destination in index.decisions.values() for decision in by_destination.values())
    return frozenset(assumption for decision in decisions for assumption in rests_on(index, decision))


def _implied(before: frozenset[Assumption] | None, assumption: Assumption) -> bool:
    """Whether assumptions of a side imply this one: the NetworkPolicy of a closed destination uses addresses, too."""
    return assumption.reason is Reason.ADDRESS and Assumption(Reason.CLOSED, assumption.party) in (before or ())


def _calls(index: PlanIndex, decision: DecisionPlan, assumption: Assumption) -> list[CallName]:
    if assumption.reason in (Reason.SENDER, Reason.BYPASS):
        calls = index.at_egress.get((decision.policy, decision.destination), ())
        return [call for call in calls if call.source == assumption.party]
    if not decision.open:
        return [call for call in index.met[decision.policy] if call.destination == decision.destination]
    return [CallName(UNDECLARED, decision.destination, port) for port in decision.ports]


def _still(head: PlanIndex, policy: str, call: CallName) -> bool:
    return call.source == UNDECLARED or call in head.met[policy]


def _note(comparison: Comparison, word: Word, pair: Pair, calls: list[CallName], assumption: Assumption) -> Note:
    texts = _LESS if word is Word.RESTS_ON_LESS else _MORE
    return comparison.note(word, pair, calls, texts[assumption.reason].format(policy=pair.name))
