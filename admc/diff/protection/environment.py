"""What changes around a policy: replicas, ports, and by what the network knows a service or an external.

A limit of each replica admits more in sum if there are more replicas. A caller is known by the addresses of the pods
that its namespace and labels select; an external is known by its address ranges and host names.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network
from typing import NamedTuple

from admc.diff.model import CallName, Change, Word
from admc.diff.protection.comparison import Comparison, Contents, Pair
from admc.diff.protection.index import UNDECLARED, PlanIndex
from admc.diff.protection.note import Note, list_text
from admc.diff.protection.reliance import tells_apart
from admc.plan.model import ExternalRow, LabelRow, ServiceRow
from dsl.program import Side

_NAMED = 3
"""Services that a sentence names; it counts the others."""
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
    """Policies that know services by their pods, where other pods are selected now."""
    changed = dict(_selections(comparison))
    if not changed:
        return
    for pair in comparison.pairs:
        known: dict[str, frozenset[str]] = {}
        names: set[str] = set()
        calls: list[CallName] = []
        for call in comparison.shared(pair):
            if call.destination not in known:
                known[call.destination] = _identified(comparison, pair, call.destination) & changed.keys()
            found = known[call.destination] | (
                {call.source} & changed.keys() if _tells(comparison, pair, call) else set()
            )
            names |= found
            calls += [call] if found else []
        if names:
            change = changed[next(iter(names))] if len(names) == 1 else None
            text = f"`{pair.name}` knows {_few(sorted(names))} by pods, and other pods are selected"
            yield comparison.note(Word.UNCLEAR, pair, calls, text, change)


def _few(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names[:_NAMED]]
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return ", ".join((*shown, *more))


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


def _identified(comparison: Comparison, pair: Pair, destination: str) -> frozenset[str]:
    """Services that a policy of HEAD knows by address or by the NetworkPolicy that it needs, but for its callers."""
    head, name = comparison.head, pair.head or ""
    decision, content = head.decisions[name].get(destination), head.content(name)
    if decision is None or content is None:
        return frozenset()
    found: set[str] = set()
    closed = head.closed.get(destination)
    if decision.closes and closed is not None:
        found.update((destination, *closed.senders))
    if Side.INGRESS in decision.sides and tells_apart(content):
        found.update(head.admits(name) or ())
        found.update(content.excluded)
    return frozenset(found)


def _tells(comparison: Comparison, pair: Pair, call: CallName) -> bool:
    """Whether a policy of HEAD identifies the caller by its address."""
    head, name = comparison.head, pair.head or ""
    decision, content = head.decisions[name].get(call.destination), head.content(name)
    return decision is not None and content is not None and Side.INGRESS in decision.sides and tells_apart(content)


def addresses(comparison: Comparison) -> Iterator[Note]:
    """Policies that know an external by addresses or host names that change."""
    changes = list(_address_changes(comparison))
    if not changes:
        return
    for contents in comparison.contents:
        calls = comparison.shared(contents.pair)
        for moved in changes:
            found: dict[Word, list[CallName]] = {}
            for call in calls:
                for word in _words(comparison.head, contents, moved, call):
                    found.setdefault(word, []).append(call)
            for word, these in found.items():
                text = f"`{contents.pair.name}` {moved.knows}"
                yield comparison.note(word, contents.pair, these, text, moved.change)


class _Moved(NamedTuple):
    """An external that is known by more or fewer addresses; None where the direction is not known."""

    external: str
    knows: str
    """How a policy knows the external."""
    more: bool | None
    fewer: bool | None
    change: Change
    unknown: bool = False
    """It stands for all callers with an unknown address."""


def _address_changes(comparison: Comparison) -> Iterator[_Moved]:
    """Addresses of externals, and what follows for one that stands for all unknown addresses."""
    base, head = comparison.base, comparison.head
    if base.plan.externals is None or head.plan.externals is None:
        return
    for name in sorted(base.externals.keys() | head.externals.keys()):
        before, after = base.externals.get(name), head.externals.get(name)
        if before is not None and after is not None and (before.cidrs, before.hosts) == (after.cidrs, after.hosts):
            continue
        change = _address_change(name, before, after)
        if before is not None and after is not None:
            more, fewer = _growth(before, after)
            yield _Moved(name, f"knows `{name}` by its addresses", more, fewer, change)
        else:
            more, fewer = after is not None and bool(after.cidrs), before is not None and bool(before.cidrs)
        # An address that an external no longer has is an unknown one, and the reverse.
        if more is not False or fewer is not False:
            for unknown in sorted((base.unknown & head.unknown) - {name}):
                knows = f"takes every address of no other party for `{unknown}`"
                yield _Moved(unknown, knows, fewer, more, change, unknown=True)


def _address_change(name: str, before: ExternalRow | None, after: ExternalRow | None) -> Change:
    if before is None or after is None or before.cidrs != after.cidrs:
        texts = (None if row is None else list_text(row.cidrs) for row in (before, after))
        return Change(f"cidrs of {name}", *texts)
    return Change(f"hosts of {name}", list_text(before.hosts), list_text(after.hosts))


def _words(head: PlanIndex, contents: Contents, moved: _Moved, call: CallName) -> Iterator[Word]:
    """What more or fewer addresses mean for a policy on one call."""
    if moved.unknown and call.destination == moved.external:
        return
    role = _role(head, contents, moved.external, call)
    if role is None:
        return
    if moved.more is None or moved.fewer is None:
        yield Word.UNCLEAR
        return
    more, less = _MEANING[role]
    if moved.more:
        yield more
    if moved.fewer:
        yield less


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
