"""Unclear: what an ADM calls for a policy (an argument of type `service`) is another one, or is reached in another way.

An authorization service whose answer comes from a policy in front of it decides nothing, and a copy that is refused on
its way is none. So each policy on such a call counts that may change what is sent or answered.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from admc.compile.plan.model import PolicyContent, PortRow
from admc.review.diff.identity import meaning
from admc.review.diff.model import CallName, Word
from admc.review.diff.parties import networks, selection
from admc.review.diff.protection.comparison import Comparison
from admc.review.diff.protection.index import PlanIndex
from admc.review.diff.protection.note import Note
from dsl.program import Side, Verb, callee

_HARMLESS = frozenset((Verb.READS, Verb.COUNTS, Verb.COPIES))
"""What a policy may do on the way without a change of what is sent or answered."""


_Met = tuple[str, str | None, int | None, PolicyContent]
"""A policy on the way, the caller and the number of replicas if these make a difference to it, and what it does."""


def asked_otherwise(comparison: Comparison) -> Iterator[Note]:
    """Policies of both plans whose ADMs call something else."""
    shared = {name for pair in comparison.newly_shared for name in pair}
    for contents in comparison.contents:
        called = list(_called(contents.base))
        if not called or called != list(_called(contents.head)):
            continue  # another argument is a finding itself
        pair = contents.pair
        calls = comparison.shared(pair)
        for name, number in called:
            before = _target(comparison.base, name, number)
            after = _target(comparison.head, name, number)
            if before != after or name in shared:
                text = f"`{pair.name}` calls `{name}`, which is another one now, or is reached in another way"
                yield comparison.note(Word.UNCLEAR, pair, calls, text)
                continue
            calls_by_policy: dict[str, list[CallName]] = {}
            for call in calls:
                for changed in _changed(comparison, pair.base or "", pair.head or "", call, (name, number)):
                    calls_by_policy.setdefault(changed, []).append(call)
            for changed, these in sorted(calls_by_policy.items()):
                text = f"`{pair.name}` calls `{name}`, and `{changed}` treats that call in another way"
                yield comparison.note(Word.UNCLEAR, pair, these, text)


def _called(content: PolicyContent) -> Iterator[tuple[str, int | None]]:
    for argument in content.arguments:
        value: object = argument.value
        if argument.type.strip("[]") == "service" and value is not None:
            yield from (callee(str(reference)) for reference in (value if isinstance(value, tuple) else (value,)))


def _port(index: PlanIndex, name: str, number: int | None) -> PortRow | None:
    return next((row for row in index.ports_of(name) if number in (None, row.number)), None)


def _target(index: PlanIndex, name: str, number: int | None) -> Hashable:
    """By what the network knows a party, and how it is spoken to."""
    port = _port(index, name, number)
    spoken = None if port is None else (port.number, port.protocol, port.target)
    service, external = index.services.get(name), index.externals.get(name)
    if service is not None:
        return selection(service), service.host_network, spoken
    return None if external is None else (frozenset(external.hosts), frozenset(networks(external)), spoken)


def _changed(
    comparison: Comparison, base: str, head: str, call: CallName, target: tuple[str, int | None]
) -> Iterator[str]:
    """Policies that the call of an ADM meets in one plan alone, for other requests, in another order, or with other
    arguments."""
    before = [
        (comparison.head_name.get(name, name), *rest) for name, *rest in _way(comparison.base, base, call, target)
    ]
    after = [(name, *rest) for name, *rest in _way(comparison.head, head, call, target)]
    yield from {str(meeting[0]) for meeting in before if meeting not in after}
    yield from {str(meeting[0]) for meeting in after if meeting not in before}
    kept = [meeting for meeting in before if meeting in after]
    if kept != [meeting for meeting in after if meeting in before]:
        yield from {str(meeting[0]) for meeting in kept}  # another order


def _way(index: PlanIndex, policy: str, call: CallName, target: tuple[str, int | None]) -> list[_Met]:
    """What the call of an ADM meets, for a policy on this call. The ADM that enforces the policy is the caller."""
    name, number = target
    port = _port(index, name, number)
    decision = index.decisions.get(policy, {}).get(call.destination)
    if port is None or decision is None:
        return []
    service = index.services.get(name)
    replicas = None if service is None else service.replicas
    places = {Side.EGRESS: call.source, Side.INGRESS: call.destination}
    meetings: list[_Met] = []
    for asker in (places[side] for side in decision.sides):
        for other in index.meets(CallName(asker, name, port.number)):
            content = index.content(other)
            if content.effects is None or {e.verb for e in content.effects} - _HARMLESS:
                judged = any(argument.type in ("caller", "[caller]") for argument in content.arguments)
                limited = replicas if content.per_replica else None
                meetings.append((other, asker if judged else None, limited, meaning(content)))
    return meetings
