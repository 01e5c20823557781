"""What differs between two states of addresses: a worker sends that, and not all addresses for each pod that comes.

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
    """By name, what a party has now; None: it has no entry any more."""

    services: Mapping[str, ServiceAddresses | None]
    externals: Mapping[str, tuple[str, ...] | None]
    egress: Mapping[tuple[str, str], str]
    """All of them: where nothing is redirected, they are few or do not change."""
    others: Mapping[str, ServiceAddresses | None]


def changes(old: Addresses, new: Addresses) -> AddressChanges:
    return AddressChanges(
        _different(old.services, new.services),
        _different(old.externals, new.externals),
        dict(new.egress),
        _different(old.others, new.others),
    )


def changed(old: Addresses, changes: AddressChanges) -> Addresses:
    """In the same order as those from which `changes` was made, which is that of names."""
    return Addresses(
        _replaced(old.services, changes.services),
        _replaced(old.externals, changes.externals),
        dict(changes.egress),
        _replaced(old.others, changes.others),
    )


def _different(old: Mapping[str, Value], new: Mapping[str, Value]) -> dict[str, Value | None]:
    differences: dict[str, Value | None] = {name: value for name, value in new.items() if old.get(name) != value}
    return differences | dict.fromkeys(old.keys() - new.keys())


def _replaced(old: Mapping[str, Value], changes: Mapping[str, Value | None]) -> Mapping[str, Value]:
    kept: Iterable[str] = old if changes.keys() <= old.keys() else sorted({*old, *changes})
    both = {**old, **changes}
    return {name: value for name in kept if (value := both[name]) is not None}
