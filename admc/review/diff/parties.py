"""Pairs services and externals of BASE with those of HEAD, so that another name alone is no change.

    BASE, HEAD -> BASE in the names of HEAD

A party that only BASE has was renamed if HEAD has a new party with the same identity: a service with the same pods
(namespace and labels), or an external with the same addresses and host names.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_network

from admc.compile.plan.model import ArgumentRow, ExternalRow, LabelRow, Plan, PolicyContent, PolicyRow, ServiceRow

Network = IPv4Network | IPv6Network
Selection = tuple[str, tuple[LabelRow, ...]]
"""A namespace, and the labels that select pods in it."""


def selection(service: ServiceRow) -> Selection:
    """The namespace and the labels of a service. Without labels in the program, it is the label `app` with its name."""
    return service.namespace, tuple(sorted(service.labels or (LabelRow("app", service.name),)))


def networks(external: ExternalRow, *, called: bool = False) -> list[Network]:
    """The address ranges of an external, merged. `called`: including addresses among its hosts, where it is called."""
    ranges: list[Network] = []
    for cidr in (*external.cidrs, *(external.hosts if called else ())):
        try:
            ranges.append(ip_network(cidr, strict=False))
        except ValueError:
            continue  # a host name
    four = [network for network in ranges if isinstance(network, IPv4Network)]
    six = [network for network in ranges if isinstance(network, IPv6Network)]
    return [*collapse_addresses(four), *collapse_addresses(six)]


def share_a_place(one: ExternalRow, other: ExternalRow) -> bool:
    """Whether two externals have a host name or an address in common."""
    if not {*one.hosts}.isdisjoint(other.hosts):
        return True
    ones, others = networks(one, called=True), networks(other, called=True)
    return any(a.version == b.version and a.overlaps(b) for a in ones for b in others)


def is_nowhere(row: ExternalRow) -> bool:
    """Whether a program gives an external neither addresses nor host names."""
    return not row.hosts and not row.cidrs


def renamed_parties(base: Plan, head: Plan) -> Mapping[str, str]:
    """Name in BASE -> name in HEAD of the parties that were renamed.

    | gone parties of BASE with one identity | new parties of HEAD with it | renamed to                    |
    | -------------------------------------- | --------------------------- | ----------------------------- |
    | one                                    | one or more                 | the first by name             |
    | several                                | any number                  | none: the pairs are not clear |
    """
    old = {*(row.name for row in base.services), *(row.name for row in base.externals)}
    new = {*(row.name for row in head.services), *(row.name for row in head.externals)}
    if old <= new or new <= old:
        return {}
    came, went = new - old, old - new
    return {
        **_matched(
            ((row.name, selection(row)) for row in base.services),
            ((row.name, selection(row)) for row in head.services),
            went,
            came,
        ),
        **_matched(
            ((row.name, _addresses(row)) for row in base.externals),
            ((row.name, _addresses(row)) for row in head.externals),
            went,
            came,
        ),
    }


def in_names_of(base: Plan, head: Plan) -> Plan:
    """The plan of BASE, in which each renamed party has its name in HEAD."""
    names = renamed_parties(base, head)
    return _renamed(base, names) if names else base


def _matched(
    before: Iterable[tuple[str, Hashable]], after: Iterable[tuple[str, Hashable]], went: set[str], came: set[str]
) -> dict[str, str]:
    old: dict[Hashable, list[str]] = {}
    for name, key in before:
        old.setdefault(key, []).append(name)
    new: dict[Hashable, list[str]] = {}
    for name, key in after:
        new.setdefault(key, []).append(name)
    renamed: dict[str, str] = {}
    for key, names in old.items():
        gone = [name for name in names if name in went]
        others = [name for name in new.get(key, ()) if name in came]
        if len(gone) == 1 and others:
            renamed[gone[0]] = min(others)
    return renamed


def _addresses(row: ExternalRow) -> Hashable:
    """The identity of an external: its addresses and hosts, or its ports if it has neither addresses nor hosts."""
    ports = frozenset(port.number for port in row.ports) if is_nowhere(row) else None
    return frozenset(networks(row)), frozenset(row.hosts), ports


def _renamed(plan: Plan, names: Mapping[str, str]) -> Plan:
    def new(name: str) -> str:
        return names.get(name, name)

    def all_new(parties: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(new, parties))

    # The pods of a service without labels have the label `app` with its old name, also after the rename.
    services = tuple(
        replace(row, name=new(row.name), labels=selection(row)[1]) if row.name in names else row
        for row in plan.services
    )
    return replace(
        plan,
        services=services,
        externals=tuple(replace(row, name=new(row.name)) for row in plan.externals),
        calls=tuple(replace(row, source=new(row.source), destination=new(row.destination)) for row in plan.calls),
        policies=tuple(_policy(row, names) for row in plan.policies),
        enforcements=tuple(
            replace(
                row,
                source=new(row.source),
                destination=new(row.destination),
                service=None if row.service is None else new(row.service),
            )
            for row in plan.enforcements
        ),
        decisions=tuple(replace(row, destination=new(row.destination)) for row in plan.decisions),
        closed=tuple(
            replace(row, destination=new(row.destination), senders=all_new(row.senders)) for row in plan.closed
        ),
    )


def _policy(row: PolicyRow, names: Mapping[str, str]) -> PolicyRow:
    content = row.content

    def all_new(parties: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in parties)

    changed: PolicyContent = replace(
        content,
        arguments=tuple(_argument(argument, names) for argument in content.arguments),
        sources=all_new(content.sources),
        excluded=all_new(content.excluded),
        destinations=all_new(content.destinations),
    )
    return replace(row, content=changed)


def _argument(row: ArgumentRow, names: Mapping[str, str]) -> ArgumentRow:
    """The argument with new names of parties. An argument of type `service` may have a port: `authz:8080`."""
    if row.type.strip("[]") not in ("service", "caller"):
        return row
    value: object = row.value
    if isinstance(value, tuple):
        return replace(row, value=tuple(_reference(str(reference), names) for reference in value))
    return row if value is None else replace(row, value=_reference(str(value), names))


def _reference(text: str, names: Mapping[str, str]) -> str:
    name, colon, port = text.partition(":")
    return f"{names.get(name, name)}{colon}{port}"
