"""Finds policies whose effect changes with the parties around them: replicas, ports, pods and addresses.

a policy                                       depends on
with a limit for each replica                  the number of replicas
on a port                                      the protocol of the port
that tells callers apart, or closes            the namespace and labels that select the pods of services
on an external                                 its host names and address ranges
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from admc.compile.plan.model import ExternalRow, ServiceRow
from admc.review.diff.model import CallName, Change, Word
from admc.review.diff.parties import selection
from admc.review.diff.protection.comparison import Comparison, Pair
from admc.review.diff.protection.index import UNDECLARED, PlanIndex
from admc.review.diff.protection.note import Note, list_text
from admc.review.diff.protection.regions import Moved, moved_addresses
from admc.review.diff.protection.reliance import tells_apart
from dsl.program import Reliance
from dsl.words import few

_NAMED = 3
"""A sentence names this many services, and counts the others."""


def replicas(comparison: Comparison) -> Iterator[Note]:
    """Policies that limit each replica of a service whose number of replicas changes."""
    base, head = comparison.base, comparison.head
    for contents in comparison.contents:
        if not (contents.base.per_replica and contents.head.per_replica):
            continue
        calls = comparison.shared(contents.pair)
        for name in sorted({call.destination for call in calls}):
            before, after = base.services.get(name), head.services.get(name)
            if before is None or after is None or before.replicas == after.replicas:
                continue
            word = Word.LOOSENED if after.replicas > before.replicas else Word.TIGHTENED
            these = [call for call in calls if call.destination == name]
            text = f"`{contents.pair.name}` limits each replica, and `{name}` has {after.replicas} of them"
            change = Change(f"replicas of {name}", str(before.replicas), str(after.replicas))
            yield comparison.note(word, contents.pair, these, text, change)


def protocols(comparison: Comparison) -> Iterator[Note]:
    """Policies on a port with another protocol, since they see other requests and give other answers there."""
    changed: dict[tuple[str, int], Change] = {}
    for name in comparison.base.services.keys() | comparison.base.externals.keys():
        before = {row.number: row.protocol for row in comparison.base.ports_of(name)}
        for row in comparison.head.ports_of(name):
            if before.get(row.number, row.protocol) is not row.protocol:
                what = f"protocol of {name}:{row.number}"
                changed[name, row.number] = Change(what, before[row.number], row.protocol)
    if not changed:
        return
    for pair in comparison.pairs:
        for call in comparison.shared(pair):
            change = changed.get((call.destination, call.port))
            if change is not None:
                text = f"port {call.port} of `{call.destination}` speaks `{change.head}` instead of `{change.base}`"
                yield comparison.note(Word.UNCLEAR, pair, (call,), text, change)


def selected_pods(comparison: Comparison) -> Iterator[Note]:
    """Policies that know a service by its pods, if the service selects other pods, or is an external on one side."""
    changed = dict(_selections(comparison))
    if not changed:
        return
    for pair in comparison.pairs:
        known: dict[str, frozenset[str]] = {}
        names: set[str] = set()
        calls: list[CallName] = []
        for call in comparison.shared(pair):
            if call.destination not in known:
                identified = _identified(comparison, pair, call.destination)
                known[call.destination] = frozenset(changed if identified is None else changed.keys() & identified)
            services = known[call.destination] | (_callers(comparison, pair, call) & changed.keys())
            names |= services
            calls += [call] if services else []
        if names:
            change = changed[next(iter(names))] if len(names) == 1 else None
            members = few([f"`{name}`" for name in sorted(names)], _NAMED)
            text = f"`{pair.name}` knows {members} by pods, and other pods are selected"
            yield comparison.note(Word.UNCLEAR, pair, calls, text, change)


def _selections(comparison: Comparison) -> Iterator[tuple[str, Change]]:
    """Names of services that select other pods, share pods with another service, or are an external on one side."""
    base, head = comparison.base, comparison.head
    for one, other in comparison.newly_shared:
        shared = Change(f"pods of {one}", one, f"{one}, {other}" if one in head.services else other)
        yield from ((name, shared) for name in (one, other))
    for name, before in base.services.items():
        after = head.services.get(name)
        if after is None:
            if name in head.externals:
                yield name, Change(name, "service", "external")
        elif before.namespace != after.namespace:
            yield name, Change(f"namespace of {name}", before.namespace, after.namespace)
        elif selection(before) != selection(after):
            yield name, Change(f"labels of {name}", _labels_text(before), _labels_text(after))
    for name in base.externals.keys() & head.services.keys():
        yield name, Change(name, "external", "service")


def _labels_text(service: ServiceRow) -> str:
    return "{ " + "  ".join(f'{label.name} = "{label.value}"' for label in selection(service)[1]) + " }"


def _identified(comparison: Comparison, pair: Pair, destination: str) -> frozenset[str] | None:
    """The parties that a policy of HEAD identifies at a destination, besides the callers of declared calls.

    These are the destination, whose pods get the ADM or the NetworkPolicy, the senders that the NetworkPolicy admits,
    and the callers that the policy admits or leaves out by address. None: all parties, since the policy admits or
    leaves out unknown callers, and a pod that no service selects any more is an unknown caller.
    """
    head, name = comparison.head, pair.head or ""
    decision, content = head.decisions[name].get(destination), head.content(name)
    if decision is None:
        return frozenset()
    services = {destination}
    if decision.closes:
        services.update(head.admitted_senders.get(destination, ()))
    if Reliance.ADDRESSES in decision.place.relies_on and tells_apart(content):
        admitted = head.admits(name) or ()
        if not head.strangers.isdisjoint((*content.excluded, *admitted)):
            return None
        services.update(admitted)
        services.update(content.excluded)
    return frozenset(services)


def _callers(comparison: Comparison, pair: Pair, call: CallName) -> frozenset[str]:
    """The callers that a policy of HEAD identifies on a call.

    At ingress it identifies them by address, and on a call of `*` it identifies all its sources. A policy that only
    senders enforce identifies the sender, whose own ADM enforces it.
    """
    head, name = comparison.head, pair.head or ""
    decision, content = head.decisions[name].get(call.destination), head.content(name)
    if decision is None:
        return frozenset()
    if Reliance.ADDRESSES not in decision.place.relies_on:
        return frozenset((call.source,))
    if not tells_apart(content):
        return frozenset()
    return frozenset(content.sources if call.source == UNDECLARED else (call.source,))


def destinations(comparison: Comparison) -> Iterator[Note]:
    """Policies on an external that gets or loses host names or addresses."""
    base, head = comparison.base, comparison.head
    moved = list(moved_addresses(base, head))
    changed = {name for name in base.externals if _other_hosts(base, head, name)}
    changed.update(name for move in moved for name in move)
    if not changed:
        return
    for contents in comparison.contents:
        calls_by_destination: dict[str, list[CallName]] = {}
        for call in comparison.shared(contents.pair):
            if call.destination in changed and call.destination in base.externals.keys() & head.externals.keys():
                calls_by_destination.setdefault(call.destination, []).append(call)
        for name, calls in calls_by_destination.items():
            before, after = base.externals[name], head.externals[name]
            for word in _growth(before, after, moved):
                text = f"`{contents.pair.name}` knows `{name}` by its addresses"
                yield comparison.note(word, contents.pair, calls, text, _address_change(before, after))


def _other_hosts(base: PlanIndex, head: PlanIndex, name: str) -> bool:
    after = head.externals.get(name)
    return after is not None and base.externals[name].hosts != after.hosts


def _address_change(before: ExternalRow, after: ExternalRow) -> Change:
    if before.hosts != after.hosts and before.cidrs == after.cidrs:
        return Change(f"hosts of {before.name}", list_text(before.hosts), list_text(after.hosts))
    return Change(f"cidrs of {before.name}", list_text(before.cidrs), list_text(after.cidrs))


def _growth(before: ExternalRow, after: ExternalRow, moved: Iterable[Moved]) -> Iterator[Word]:
    """Widened if host names or addresses come, narrowed if some go; unclear if the first comes or the last goes."""
    if bool(before.cidrs) is not bool(after.cidrs) or bool(before.hosts) is not bool(after.hosts):
        yield Word.UNCLEAR
        return
    old, new = set(before.hosts), set(after.hosts)
    moved = list(moved)
    if new - old or any(move.after == after.name for move in moved):
        yield Word.WIDENED
    if old - new or any(move.before == before.name for move in moved):
        yield Word.NARROWED
