"""Addresses of now for a plan of before: while a plan is taken back, pods come and go all the same. And addresses of
before for a plan of now: while it comes into force, what it does not know any more is still there.

Whoever made the groups of the newer plan does not hold the one that proxies still have, so these are emitted here, as
far as the addresses can change them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.serve.affected import Index
from admc.serve.groups import Groups, snapshots
from emitters.addresses import Addresses, Located

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.serve.feed import State


def is_elsewhere(state: State, newer: State) -> bool:
    """Whether another state has been told other addresses. Without a file they follow from the program."""
    return bool(newer.located) and newer.located != state.located


def elsewhere(state: State, newer: State) -> State:
    """A state at the addresses of another."""
    return replace(state, addresses=newer.addresses, located=newer.located)


def during(old: State, new: State) -> State:
    """The new state, with what was known of whom it does not know any more, but for addresses that others have by now.

    Without, policies of the old plan would be about nobody there, and connections that may be theirs would be refused.
    """
    gone = old.addresses.services.keys() - new.program.services.keys()
    outside = old.addresses.externals.keys() - new.program.externals.keys()
    pairs = old.addresses.egress.keys() - new.addresses.egress.keys()
    if not gone and not outside and not pairs:
        return new
    now = new.addresses
    here = {text for located in now.services.values() for part in located for text in part}
    listening = here | set(now.egress.values())
    addresses = Addresses(
        {name: Located(*(_without(part, here) for part in old.addresses.services[name])) for name in gone}
        | dict(now.services),
        {name: old.addresses.externals[name] for name in outside} | dict(now.externals),
        {pair: text for pair in pairs if (text := old.addresses.egress[pair]) not in listening} | dict(now.egress),
    )
    return replace(new, addresses=addresses)


def _without(texts: Collection[str], others: Collection[str]) -> tuple[str, ...]:
    return tuple(text for text in texts if text not in others)


def changed(before: State, after: State) -> Groups:
    """What addresses change of what proxies have. Raises `CommandError` where Envoy cannot express it."""
    index = Index(after.program, after.placement)
    only = index.affected(before.addresses, after.addresses)
    return snapshots(after, only, index.hops)
