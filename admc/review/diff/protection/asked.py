"""Finds policies whose ADMs call another party than before, or reach it in another way. The findings are `unclear`.

Arguments of type `service` are the parties that ADMs call. A policy on the way to an authorization service may answer
in its place, and a policy on the way of a copy may refuse the copy. So each policy on such a call is compared, too, if
it may change the request or the answer.
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
"""The effects of a policy that change neither a request nor its answer."""


_Met = tuple[str, str | None, int | None, PolicyContent]
"""A policy on the way of a call: its name, the caller (None if the policy does not depend on the caller), the number of
replicas (None likewise), and its content."""


def asked_otherwise(comparison: Comparison) -> Iterator[Note]:
    """Policies of both plans whose ADMs call another party, or reach it in another way."""
    shared = {name for pair in comparison.newly_shared for name in pair}
    for contents in comparison.contents:
        called = list(_called(contents.base))
        if not called or called != list(_called(contents.head)):
            continue  # `arguments` reports another argument
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
    """The identity of a party in the network (pods, or hosts and addresses), and the port, its protocol and target."""
    port = _port(index, name, number)
    spoken = None if port is None else (port.number, port.protocol, port.target)
    service, external = index.services.get(name), index.externals.get(name)
    if service is not None:
        return selection(service), service.host_network, spoken
    return None if external is None else (frozenset(external.hosts), frozenset(networks(external)), spoken)


def _changed(
    comparison: Comparison, base: str, head: str, call: CallName, target: tuple[str, int | None]
) -> Iterator[str]:
    """The policies on the call of an ADM that differ: in one plan only, with another content, or in another order."""
    before = [
        (comparison.head_name.get(name, name), *rest) for name, *rest in _way(comparison.base, base, call, target)
    ]
    after = [(name, *rest) for name, *rest in _way(comparison.head, head, call, target)]
    yield from {str(meeting[0]) for meeting in before if meeting not in after}
    yield from {str(meeting[0]) for meeting in after if meeting not in before}
    kept = [meeting for meeting in before if meeting in after]
    if kept != [meeting for meeting in after if meeting in before]:
        yield from {str(meeting[0]) for meeting in kept}  # in another order


def _way(index: PlanIndex, policy: str, call: CallName, target: tuple[str, int | None]) -> list[_Met]:
    """The policies that an ADM meets when it calls `target` for `policy` on the call `call`.

    The caller of `target` is the ADM that enforces `policy`.
    """
    name, number = target
    port = _port(index, name, number)
    decision = index.decisions.get(policy, {}).get(call.destination)
    if port is None or decision is None:
        return []
    service = index.services.get(name)
    replicas = None if service is None else service.replicas
    places = {Side.EGRESS: call.source, Side.INGRESS: call.destination}
    meetings: list[_Met] = []
    for asker in (places[side] for side in decision.place.sides):
        for other in index.meets(CallName(asker, name, port.number)):
            content = index.content(other)
            if content.effects is None or {e.verb for e in content.effects} - _HARMLESS:
                judged = any(argument.type in ("caller", "[caller]") for argument in content.arguments)
                limited = replicas if content.per_replica else None
                meetings.append((other, asker if judged else None, limited, meaning(content)))
    return meetings
