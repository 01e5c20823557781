"""What changes around a policy: replicas, ports, and by what the network knows a service or an external.

A limit of each replica admits more in sum if there are more replicas. A caller is known by the addresses of the pods
that its namespace and labels select; an external is known by its address ranges and host names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from admc.diff.model import CallName, Change, Word
from admc.diff.protection.comparison import Comparison, Contents, Pair
from admc.diff.protection.index import UNDECLARED, PlanIndex
from admc.diff.protection.note import Note
from admc.diff.protection.reliance import Reason, rests_on
from admc.diff.protection.values import names_text
from admc.plan.model import ExternalRow, LabelRow, ServiceRow

_Network = IPv4Network | IPv6Network


def replicas(comparison: Comparison) -> Iterator[Note]:
    """Limits that hold for each replica of a service that gets more or fewer of them."""
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
    """Policies on a port that speaks another protocol: they see and answer something else there."""
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
    """Policies that know a service by its pods, where other pods are selected now."""
    changed = dict(_selections(comparison))
    if not changed:
        return
    for pair in comparison.pairs:
        calls: dict[str, list[CallName]] = {}
        for call in comparison.shared(pair):
            for name in _identified(comparison, pair, call) & changed.keys():
                calls.setdefault(name, []).append(call)
        for name, these in calls.items():
            text = f"`{pair.name}` knows `{name}` by its pods, and other pods are selected"
            yield comparison.note(Word.UNCLEAR, pair, these, text, changed[name])


def _selections(comparison: Comparison) -> Iterator[tuple[str, Change]]:
    for name, before in comparison.base.services.items():
        after = comparison.head.services.get(name)
        if after is None:
            continue
        if before.namespace != after.namespace:
            yield name, Change(f"namespace of {name}", before.namespace, after.namespace)
        elif _labels(before) != _labels(after):
            yield name, Change(f"labels of {name}", _labels_text(before), _labels_text(after))


def _labels(service: ServiceRow) -> tuple[LabelRow, ...]:
    """Those that select its pods: `app` with its name, if the program gives none."""
    return service.labels or (LabelRow("app", service.name),)


def _labels_text(service: ServiceRow) -> str:
    return "{ " + "  ".join(f'{label.name} = "{label.value}"' for label in _labels(service)) + " }"


def _identified(comparison: Comparison, pair: Pair, call: CallName) -> frozenset[str]:
    """Services that a policy of HEAD knows by address or by the NetworkPolicy that it needs."""
    head, name = comparison.head, pair.head
    decision = None if name is None else head.decisions[name].get(call.destination)
    content = None if name is None else head.content(name)
    if decision is None or content is None:
        return frozenset()
    found: set[str] = set()
    reasons = {assumption.reason for assumption in rests_on(head, decision)}
    if Reason.CLOSED in reasons:
        found.update((call.destination, *head.closed[call.destination].senders))
    if Reason.ADDRESS in reasons:
        found.add(call.source)
        found.update(head.admits(name or "") or ())
        found.update(content.excluded)
    return frozenset(found)


def addresses(comparison: Comparison) -> Iterator[Note]:
    """Policies that know an external by addresses or host names that change."""
    for name, before in sorted(comparison.base.externals.items()):
        after = comparison.head.externals.get(name)
        if after is None or (before.cidrs, before.hosts) == (after.cidrs, after.hosts):
            continue
        change = _address_change(before, after)
        for contents in comparison.contents:
            for word, call in _known_by_address(comparison, contents, before, after):
                text = f"`{contents.pair.name}` knows `{name}` by its addresses"
                yield comparison.note(word, contents.pair, (call,), text, change)


def _address_change(before: ExternalRow, after: ExternalRow) -> Change:
    if before.cidrs != after.cidrs:
        return Change(f"cidrs of {before.name}", names_text(before.cidrs), names_text(after.cidrs))
    return Change(f"hosts of {before.name}", names_text(before.hosts), names_text(after.hosts))


def _known_by_address(
    comparison: Comparison, contents: Contents, before: ExternalRow, after: ExternalRow
) -> Iterator[tuple[Word, CallName]]:
    """What the change of an external's addresses means for one policy, for each call that it is about."""
    name, head = before.name, comparison.head
    grown, shrunk = _growth(before, after)
    for call in comparison.shared(contents.pair):
        role = _role(head, contents, name, call)
        if role is None:
            continue
        if grown is None or shrunk is None:
            yield Word.UNCLEAR, call
            continue
        more, less = _MEANING[role]
        if grown:
            yield more, call
        if shrunk:
            yield less, call


class _Role(StrEnum):
    """What the addresses of an external decide."""

    ADMITTED = "admitted"
    """A guard or a NetworkPolicy lets them through."""
    SELECTED = "selected"
    """The policy applies to them."""
    EXCLUDED = "excluded"
    """The policy leaves them out."""


_MEANING = {
    _Role.ADMITTED: (Word.LOOSENED, Word.TIGHTENED),
    _Role.SELECTED: (Word.WIDENED, Word.NARROWED),
    _Role.EXCLUDED: (Word.NARROWED, Word.WIDENED),
}
"""What it means if there are more, and if there are fewer."""


def _role(head: PlanIndex, contents: Contents, name: str, call: CallName) -> _Role | None:
    policy, content = contents.pair.head or "", contents.head
    decision = head.decisions[policy].get(call.destination)
    if call.destination == name:
        return _Role.SELECTED
    if call.source not in (name, UNDECLARED):
        return None
    if name in (head.admits(policy) or ()):
        return _Role.ADMITTED
    if call.source == name and decision is not None and decision.closes:
        return _Role.ADMITTED
    if call.source == name and not content.open:
        return _Role.SELECTED
    return _Role.EXCLUDED if call.source == UNDECLARED and name in content.excluded else None


def _growth(before: ExternalRow, after: ExternalRow) -> tuple[bool | None, bool | None]:
    """Whether addresses come, and whether addresses go; None where that is not known."""
    if before.hosts != after.hosts:
        if before.cidrs != after.cidrs or not (before.hosts and after.hosts):
            return None, None
        old, new = set(before.hosts), set(after.hosts)
        return bool(new - old), bool(old - new)
    if not before.cidrs or not after.cidrs:
        return None, None
    try:
        old_networks, new_networks = _networks(before.cidrs), _networks(after.cidrs)
    except ValueError:
        return None, None
    return not _covers(old_networks, new_networks), not _covers(new_networks, old_networks)


def _networks(cidrs: tuple[str, ...]) -> list[_Network]:
    found = [ip_network(cidr, strict=False) for cidr in cidrs]
    four = [each for each in found if isinstance(each, IPv4Network)]
    six = [each for each in found if isinstance(each, IPv6Network)]
    return [*collapse_addresses(four), *collapse_addresses(six)]


def _covers(networks: list[_Network], others: list[_Network]) -> bool:
    return all(any(_within(other, network) for network in networks) for other in others)


def _within(one: _Network, other: _Network) -> bool:
    if isinstance(one, IPv4Network) and isinstance(other, IPv4Network):
        return one.subnet_of(other)
    return isinstance(one, IPv6Network) and isinstance(other, IPv6Network) and one.subnet_of(other)
