"""Finds callers that have one name in BASE and another in HEAD.

plan, plan -> overlaps of services, owners of addresses -> [Moved]

callers                        have the name of
pods                           the service that selects them by namespace and labels
addresses outside              the external with the most specific range around the address
all other addresses            the externals without addresses; `*` if there is no such external
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from admc.compile.plan.model import ExternalRow, LabelRow
from admc.review.diff.parties import Selection, networks, selection
from admc.review.diff.protection.index import PlanIndex

Owners = frozenset[str]
_VERSIONS = ((4, 32), (6, 128))


class Moved(NamedTuple):
    """The names of some callers in BASE (`before`) and in HEAD (`after`), which differ."""

    before: str
    after: str


def moved_callers(base: PlanIndex, head: PlanIndex) -> tuple[Moved, ...]:
    """The old and new names of callers that HEAD still knows by some name."""
    return tuple(sorted({*_moved_pods(base, head), *moved_addresses(base, head)}))


def _moved_pods(base: PlanIndex, head: PlanIndex) -> Iterator[Moved]:
    for name, other in newly_shared(base, head):
        yield from _pairs(_known_as(base, name), _known_as(head, other))
    for name, before in base.services.items():
        after = head.services.get(name)
        if after is None and name in head.externals:
            yield from _pairs(_known_as(base, name), head.strangers - {name})
        if after is not None and before.host_network is not after.host_network:
            yield from _pairs(_known_as(base, name), _known_as(head, name))


def _known_as(index: PlanIndex, service: str) -> Owners:
    """The names by which pods of a service are known: pods on the network of their nodes have unknown addresses."""
    return index.strangers if index.services[service].host_network else frozenset((service,))


def _pairs(before: Iterable[str], after: Iterable[str]) -> Iterator[Moved]:
    return (Moved(one, other) for one in before for other in after if one != other)


# ---- pods ----


def newly_shared(base: PlanIndex, head: PlanIndex) -> list[tuple[str, str]]:
    """Pairs of a service of BASE and another service of HEAD that newly selects pods of it."""
    before, after = _selections(base), _selections(head)
    if before == after:
        return []
    overlapping = overlaps(before, after) - overlaps(before, before)
    return sorted((one, other) for one, other in overlapping if one != other)


def _selections(index: PlanIndex) -> dict[str, Selection]:
    return {name: selection(row) for name, row in index.services.items()}


def overlaps(ones: Mapping[str, Selection], others: Mapping[str, Selection]) -> set[tuple[str, str]]:
    """Pairs of services of which one selects all pods of the other."""
    return {
        *((one, other) for one, other in _within(ones, others)),
        *((one, other) for other, one in _within(others, ones)),
    }


def _within(inner: Mapping[str, Selection], outer: Mapping[str, Selection]) -> Iterator[tuple[str, str]]:
    """Pairs of which the second selects all pods of the first.

    Each outer service is indexed by its rarest label alone, so that few pairs are compared.
    """
    counts = Counter((space, label) for space, labels in outer.values() for label in labels)
    by_label: dict[tuple[str, LabelRow], list[tuple[str, frozenset[LabelRow]]]] = {}
    for name, (space, labels) in outer.items():
        rarest = min(labels, key=lambda label: (counts[space, label], label))
        by_label.setdefault((space, rarest), []).append((name, frozenset(labels)))
    for name, (space, labels) in inner.items():
        for label in labels:
            for other, needed in by_label.get((space, label), ()):
                if needed.issubset(labels):
                    yield name, other


# ---- addresses ----


def moved_addresses(base: PlanIndex, head: PlanIndex) -> Iterator[Moved]:
    """The owners of each address in BASE and in HEAD, if they differ."""
    if _ranges(base) == _ranges(head) and base.strangers == head.strangers:
        return
    for before, after in owners(base, head):
        if before != after:
            yield from _pairs(before, after)


def _ranges(index: PlanIndex) -> dict[str, tuple[str, ...]]:
    return {name: row.cidrs for name, row in index.externals.items()}


def owners(base: PlanIndex, head: PlanIndex) -> set[tuple[Owners, Owners]]:
    """All pairs of the owners of an address in BASE and its owners in HEAD."""
    owner_pairs: set[tuple[Owners, Owners]] = set()
    for version, bits in _VERSIONS:
        edges: dict[int, list[tuple[bool, int, int, str]]] = {0: []}
        for side, index in enumerate((base, head)):
            for row in index.externals.values():
                for first, end, length in _intervals(row, version):
                    edges.setdefault(first, []).append((True, side, length, row.name))
                    edges.setdefault(end, []).append((False, side, length, row.name))
        inside: tuple[dict[int, Counter[str]], dict[int, Counter[str]]] = ({}, {})
        for edge in sorted(edges):
            for begins, side, length, name in edges[edge]:
                at = inside[side].setdefault(length, Counter())
                at[name] += 1 if begins else -1
                if not at[name]:
                    del at[name]
                if not at:
                    del inside[side][length]
            if edge < 1 << bits:
                owner_pairs.add((_owner(inside[0], base), _owner(inside[1], head)))
    return owner_pairs


def _intervals(row: ExternalRow, version: int) -> Iterator[tuple[int, int, int]]:
    for network in networks(row):
        if network.version == version:
            yield int(network.network_address), int(network.broadcast_address) + 1, network.prefixlen


def _owner(inside: Mapping[int, Counter[str]], index: PlanIndex) -> Owners:
    return frozenset(inside[max(inside)]) if inside else index.strangers
