"""Addresses of now for a plan of before: while a plan is taken back, pods come and go all the same. And addresses of
before for a plan of now: while it comes into force, what it does not know any more is still there.

Whoever made the groups of the newer plan does not hold the one that proxies still have, so these are emitted here, as
far as the addresses can change them.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from admc.serve.build.address_deps import AddressIndex
from admc.serve.build.snapshots import SnapshotSet, snapshots
from emitters.addresses import Addresses, ServiceAddresses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from admc.serve.build.source import State


def is_elsewhere(state: State, newer: State) -> bool:
    """Whether another state has been told other addresses. Without a file they follow from the program."""
    return bool(newer.endpoints_digest) and newer.endpoints_digest != state.endpoints_digest


def elsewhere(state: State, newer: State) -> State:
    """A state at the addresses of another, and of whom that one does not know at those of before."""
    return replace(state, addresses=_both(state, newer), endpoints_digest=newer.endpoints_digest)


def during(old: State, new: State) -> State:
    """A state of the new plan, with what was known of whom that one does not know any more.

    Without, policies of the old plan would be about nobody there, and connections that may be theirs would be refused.
    """
    addresses = _both(old, new)
    return new if addresses is new.addresses else replace(new, addresses=addresses)


def listed(state: State) -> bytes:
    """An endpoints file with the addresses of a state, as far as its program knows them."""
    program, addresses = state.program, state.addresses
    return _file(
        {name: located for name, located in addresses.services.items() if name in program.services},
        {name: texts for name, texts in addresses.externals.items() if name in program.externals},
    )


def _both(old: State, new: State) -> Addresses:
    """The new addresses, and the old ones of whom the new program does not know, but for those that others have now."""
    gone = old.addresses.services.keys() - new.program.services.keys()
    outside = old.addresses.externals.keys() - new.program.externals.keys()
    pairs = old.addresses.egress.keys() - new.addresses.egress.keys()
    now = new.addresses
    if not gone and not outside and not pairs:
        return now
    here = _texts(now)
    listening = here | set(now.egress.values())
    return Addresses(
        {name: _without(old.addresses.services[name], here) for name in sorted(gone)} | dict(now.services),
        {name: _other(old.addresses.externals[name], here) for name in sorted(outside)} | dict(now.externals),
        {pair: text for pair in sorted(pairs) if (text := old.addresses.egress[pair]) not in listening}
        | dict(now.egress),
    )


def _texts(addresses: Addresses) -> frozenset[str]:
    services = (text for located in addresses.services.values() for part in located for text in part)
    return frozenset(chain(services, *addresses.externals.values()))


def _without(located: ServiceAddresses, others: Collection[str]) -> ServiceAddresses:
    return ServiceAddresses(*(_other(part, others) for part in located))


def _other(texts: Iterable[str], others: Collection[str]) -> tuple[str, ...]:
    """Without the addresses that another party has now: a policy about the one would hold for the other. A network of
    an outside party is as it was: a pod inside that network is not the party (docs/endpoints.md)."""
    return tuple(text for text in texts if text not in others)


def _file(services: Mapping[str, ServiceAddresses], externals: Mapping[str, tuple[str, ...]]) -> bytes:
    document = {
        "services": {
            name: {key: list(part) for key, part in located._asdict().items()} for name, located in services.items()
        },
        "externals": {name: {"addresses": list(texts)} for name, texts in externals.items()},
    }
    return json.dumps(document).encode()


def changed(before: State, after: State) -> SnapshotSet:
    """What addresses change of what proxies have. Raises `CommandError` where Envoy cannot express it."""
    index = AddressIndex(after.program, after.placement)
    only = index.affected(before.addresses, after.addresses)
    return snapshots(after, only, index.hops)
