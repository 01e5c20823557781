"""Decides the addresses in published snapshots: those of the newest plan, also in the snapshots of the earlier plan.

    State (old), State (new) -> Addresses

Pods come and go during a rollout, so the earlier plan is published at the new addresses, too. If the new program does
not declare a service of the old one, a cluster gives its current addresses (`Addresses.others`). With an endpoints
file, the service keeps its old addresses for as long as policies of the old plan refer to it.

The worker that compiled the new plan does not have the earlier plan. So this module builds the snapshots of the earlier
plan that new addresses change.
"""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Address, ip_address
from itertools import chain
from typing import TYPE_CHECKING

from admc.serve.compiling.address_deps import AddressIndex
from admc.serve.compiling.snapshots import SnapshotSet, snapshots
from emitters.addresses import Addresses, ServiceAddresses
from emitters.envoy import Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from admc.serve.compiling.source import State

    _Egress = Mapping[tuple[str, str], str]
    """(source, destination) -> address."""


def is_elsewhere(state: State, newer: State) -> bool:
    """Whether the addresses of a newer state differ. Without an endpoints file, addresses follow from the program."""
    return bool(newer.endpoints_digest) and newer.endpoints_digest != state.endpoints_digest


def elsewhere(state: State, newer: State) -> State:
    """Return a state at the addresses of a newer one. Parties that the newer program does not declare keep their
    addresses."""
    return replace(state, addresses=_both(state, newer), endpoints_digest=newer.endpoints_digest)


def during(old: State, new: State) -> State:
    """Return the new state, with the old addresses of parties that its program does not declare.

    Without these, policies of the old plan would match no connection of such a party, and the connections would be
    refused.
    """
    addresses = _both(old, new)
    return new if addresses is new.addresses else replace(new, addresses=addresses)


def listed(state: State) -> bytes:
    """Return an endpoints file with the addresses of the parties that the program of a state declares."""
    program, addresses = state.program, state.addresses
    return _file(
        {name: located for name, located in addresses.services.items() if name in program.services},
        {name: texts for name, texts in addresses.externals.items() if name in program.externals},
        addresses.probes,
    )


def _both(old: State, new: State) -> Addresses:
    """Return the new addresses, and the old addresses of parties that only the old program declares. An old address
    that another party has now is left out."""
    gone = _gone(old, new)
    outside = old.addresses.externals.keys() - new.program.externals.keys()
    pairs = old.addresses.egress.keys() - new.addresses.egress.keys()
    now = new.addresses
    if not gone and not outside and not pairs:
        return now
    taken = _texts(now)
    services = {name: _without(located, taken) for name, located in gone.items()}
    if not new.source.mode.redirected:
        services = _listening(services, (*_dialled(old.addresses), *_dialled(now)))
    return Addresses(
        services | dict(now.services),
        {name: _other(old.addresses.externals[name], taken) for name in sorted(outside)} | dict(now.externals),
        _egress(old.addresses.egress, now.egress, sorted(pairs)) | dict(now.egress),
        now.others,
        now.probes,
    )


def _gone(old: State, new: State) -> Mapping[str, ServiceAddresses]:
    """Return the addresses of the services that only the old program declares."""
    if new.source.mode is Mode.POD:
        locations, names = new.addresses.others, new.addresses.others.keys() & old.program.services.keys()
    else:
        locations, names = old.addresses.services, old.addresses.services.keys() - new.program.services.keys()
    return {name: locations[name] for name in sorted(names)}


def _egress(old: _Egress, now: _Egress, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the addresses at which ADMs listen, without redirection, for calls that only the old program has.

    A call's loopback address depends on its position in the program. If another call has the old address now, the call
    gets an address that neither program uses, because two ADMs cannot listen at one address.
    """
    taken = frozenset(now.values())
    free = _beyond((*old.values(), *now.values()))
    return {pair: text if (text := old[pair]) not in taken else next(free) for pair in pairs}


def _listening(services: Mapping[str, ServiceAddresses], taken: Iterable[str]) -> dict[str, ServiceAddresses]:
    """Return the services, with a new address for each service that has lost its own: its ADM still has to listen."""
    free = _beyond(taken)
    return {
        name: located if located.addresses else located._replace(addresses=(next(free),))
        for name, located in services.items()
    }


def _dialled(addresses: Addresses) -> Iterable[str]:
    return (text for located in addresses.services.values() for text in located.addresses)


def _beyond(texts: Iterable[str]) -> Iterator[str]:
    """Yield the IPv4 addresses after the highest one of `texts`."""
    highest = max((address for text in texts if isinstance(address := ip_address(text), IPv4Address)), default=None)
    while highest is not None:
        highest += 1
        yield str(highest)


def _texts(addresses: Addresses) -> frozenset[str]:
    services = (text for located in addresses.services.values() for part in located for text in part)
    return frozenset(chain(services, *addresses.externals.values()))


def _without(located: ServiceAddresses, others: Collection[str]) -> ServiceAddresses:
    return ServiceAddresses(*(_other(part, others) for part in located))


def _other(texts: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    """Return the addresses that no other party has now. A policy about this party would otherwise hold for the other
    party. The network of an outside party stays, because a pod inside of that network is not the party
    (docs/endpoints.md)."""
    return tuple(text for text in texts if text not in others)


def _file(
    services: Mapping[str, ServiceAddresses], externals: Mapping[str, tuple[str, ...]], probes: Mapping[str, str]
) -> bytes:
    document = {
        "services": {
            name: {key: list(part) for key, part in located._asdict().items() if part}
            for name, located in services.items()
        },
        "externals": {name: {"addresses": list(texts)} for name, texts in externals.items()},
        **({"probes": dict(probes)} if probes else {}),
    }
    return json.dumps(document).encode()


def changed(before: State, after: State) -> SnapshotSet:
    """Return the snapshots that new addresses change. Raises `CommandError` if Envoy cannot express them."""
    index = AddressIndex(after.program, after.placement)
    only = index.affected(before.addresses, after.addresses)
    return snapshots(after, only, index.hops)
