"""Computes and applies the differences between two states of addresses. A worker sends these differences, and not all
addresses for each new pod.

old, new --changes--> what differs;  old, what differs --changed--> new
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from emitters.addresses import Addresses, ServiceAddresses

if TYPE_CHECKING:
    from collections.abc import Iterable

Value = TypeVar("Value")


class AddressChanges(NamedTuple):
    """The changed parties: name -> the new addresses, or None if the party has no entry any more."""

    services: Mapping[str, ServiceAddresses | None]
    externals: Mapping[str, tuple[str, ...] | None]
    egress: Mapping[tuple[str, str], str]
    """All entries, changed or not: without redirection there are few, and otherwise they do not change."""
    others: Mapping[str, ServiceAddresses | None]
    probes: Mapping[str, str | None]


def changes(old: Addresses, new: Addresses) -> AddressChanges:
    return AddressChanges(
        _different(old.services, new.services),
        _different(old.externals, new.externals),
        dict(new.egress),
        _different(old.others, new.others),
        _different(old.probes, new.probes),
    )


def changed(old: Addresses, changes: AddressChanges) -> Addresses:
    """Return the new addresses, in the order of names, as in the state from which `changes` was made."""
    return Addresses(
        _replaced(old.services, changes.services),
        _replaced(old.externals, changes.externals),
        dict(changes.egress),
        _replaced(old.others, changes.others),
        _replaced(old.probes, changes.probes),
    )


def _different(old: Mapping[str, Value], new: Mapping[str, Value]) -> dict[str, Value | None]:
    differences: dict[str, Value | None] = {name: value for name, value in new.items() if old.get(name) != value}
    return differences | dict.fromkeys(old.keys() - new.keys())


def _replaced(old: Mapping[str, Value], changes: Mapping[str, Value | None]) -> Mapping[str, Value]:
    kept: Iterable[str] = old if changes.keys() <= old.keys() else sorted({*old, *changes})
    both = {**old, **changes}
    return {name: value for name in kept if (value := both[name]) is not None}
