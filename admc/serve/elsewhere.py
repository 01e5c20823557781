"""Addresses of now for a plan of before: while a plan is taken back, pods come and go all the same.

Whoever made the groups of the newer plan does not hold the one that proxies still have, so these are emitted here, as
far as the addresses can change them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from admc.serve.affected import Index
from admc.serve.groups import Groups, snapshots

if TYPE_CHECKING:
    from admc.serve.feed import State


def is_elsewhere(state: State, newer: State) -> bool:
    """Whether another state has been told other addresses. Without a file they follow from the program."""
    return bool(newer.located) and newer.located != state.located


def elsewhere(state: State, newer: State) -> State:
    """A state at the addresses of another."""
    return replace(state, addresses=newer.addresses, located=newer.located)


def changed(before: State, after: State) -> Groups:
    """What addresses change of what proxies have. Raises `CommandError` where Envoy cannot express it."""
    index = Index(after.program, after.placement)
    only = index.affected(before.addresses, after.addresses)
    return snapshots(after, only, index.hops)
