"""Pure functions for the order of responses on one stream: which types wait for others, and when removals may be
sent."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from xds_server.protocol.type_state import NOTHING
from xds_server.resources.types import (
    CLUSTER,
    ENDPOINTS,
    EXTENSION,
    LISTENER,
    ORDER,
    ROUTES,
    SECRET,
    TRIAL,
    USED_BY_LISTENERS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.shared_results import SharedResults
    from xds_server.protocol.type_state import TypeState
    from xds_server.resources.snapshot import Resource, Snapshot

_WAITS_FOR: Final = {
    EXTENSION: (CLUSTER,),
    LISTENER: (CLUSTER, EXTENSION),
    ROUTES: (CLUSTER, EXTENSION, LISTENER),
}
STAGED: Final = frozenset({CLUSTER, EXTENSION, LISTENER, ROUTES})
"""A transition waits for the ACKs of these types."""
_KEPT_WHILE_USED: Final = frozenset({CLUSTER, ENDPOINTS, EXTENSION, ROUTES, SECRET})
_PLACE: Final = {type_url: place for place, type_url in enumerate(ORDER)}


class TransitionPhase(IntEnum):
    """The phases of a transition."""

    TRY = 0
    """The client receives the trial extension."""
    MAKE = 1
    """New and changed resources are sent."""
    BREAK = 2
    """Resources that are no longer used are removed."""
    DONE = 3


class Gate(Enum):
    """Whether changes of a type may be sent, given the types on which it depends."""

    OPEN = auto()
    AWAITING_ACK = auto()
    """An ACK of a type before it is pending."""
    BLOCKED_BY_NACK = auto()
    """The client has refused a resource of a type before it. Changes wait until that resource has changed."""


def in_order(states: Mapping[str, TypeState]) -> dict[str, TypeState]:
    """The states in the order of responses. Unknown types come last, in the order of their first requests."""
    return dict(sorted(states.items(), key=lambda item: _PLACE.get(item[0], len(_PLACE))))


def gate_of(type_url: str, states: Mapping[str, TypeState], *, warming: bool) -> Gate:
    """Whether changes of a type may be sent. `warming`: whether clusters wait for endpoints."""
    gate = Gate.OPEN
    if type_url not in _WAITS_FOR:
        return gate
    for kind in _WAITS_FOR[type_url]:
        state = states.get(kind)
        if (kind == CLUSTER and warming) or (state is not None and state.pending_acks):
            return Gate.AWAITING_ACK
        if state is not None and any(state.nacked.values()):
            gate = Gate.BLOCKED_BY_NACK  # but not for a removal, on which no other type depends
    endpoints = states.get(ENDPOINTS)
    return Gate.BLOCKED_BY_NACK if endpoints is not None and endpoints.in_doubt else gate


def trial(states: Mapping[str, TypeState], target: Snapshot) -> Resource | None:
    """The trial extension of the target, if the client has another version of it."""
    there = target.of_type(EXTENSION).resources.get(TRIAL)
    state = states.get(EXTENSION)
    held = None if state is None else state.known.get(TRIAL)
    return None if there is None or held is None or held.version == there.version else there


def removed_clusters_unsubscribed(states: Mapping[str, TypeState], target: Snapshot) -> bool:
    """Whether a client that subscribes to clusters by name has ended its subscriptions to removed clusters.

    Clients of gRPC acknowledge routes when they read them, and use the earlier routes and clusters until they have the
    endpoints of the new clusters. Then they end the subscriptions to the old clusters. There is no other sign that the
    old clusters are unused.
    """
    clusters = states.get(CLUSTER)
    if clusters is None or not clusters.subscription.names:
        return True
    there = target.of_type(CLUSTER).resources
    return all(name in there or name not in clusters.subscription.names for name in clusters.known)


def users_may_follow(states: Mapping[str, TypeState], target: Snapshot) -> bool:
    """Whether a returning client has resources to be removed, and may still name listeners or routes that use these."""
    listeners = states.get(LISTENER)
    there = target.of_type(LISTENER).resources
    if all(
        state.known.keys() <= target.of_type(type_url).resources.keys()
        for type_url, state in states.items()
        if type_url in _KEPT_WHILE_USED
    ):
        return False
    # A proxy requests listeners before the routes of these, and routes of its bootstrap even before them.
    if listeners is None or not listeners.requested:
        return bool(there) or not _is_requested(states, ROUTES)
    listed = (there[name] for name in listeners.known if name in there)
    used = {reference.type_url for listener in listed for reference in listener.references}
    return any(kind in used and not _is_requested(states, kind) for kind in USED_BY_LISTENERS)


def _is_requested(states: Mapping[str, TypeState], type_url: str) -> bool:
    state = states.get(type_url)
    return state is not None and state.requested


def serves_draining_chains(state: TypeState, target: Snapshot) -> bool:
    """Whether the client still subscribes by name to route tables or extensions that it has, and the target has not.

    Its draining filter chains use them, until it ends the subscription. They also use the clusters to which these
    resources lead. That is unknown here if an earlier server has sent them.
    """
    kept = state.type_url in USED_BY_LISTENERS and not state.subscription.wildcard
    return kept and not state.known.keys() <= target.of_type(state.type_url).resources.keys()


def may_remove(
    type_url: str, states: Mapping[str, TypeState], target: Snapshot, phase: TransitionPhase, *, patient: bool
) -> bool:
    """Whether resources that the target does not have may be removed now. `patient`: whether the removal waits for a
    client that still subscribes to them."""
    if type_url not in _KEPT_WHILE_USED:
        return True
    if type_url in USED_BY_LISTENERS and not states[type_url].subscription.wildcard:
        return False  # the client drops them when it ends its subscription
    if type_url == CLUSTER and any(serves_draining_chains(state, target) for state in states.values()):
        return False
    if phase < TransitionPhase.BREAK or (
        type_url == CLUSTER and patient and not removed_clusters_unsubscribed(states, target)
    ):
        return False
    clusters = states.get(CLUSTER)
    if type_url not in {ENDPOINTS, SECRET} or clusters is None:
        return True
    gone = clusters.known.keys() <= target.of_type(CLUSTER).resources.keys()
    return gone and not clusters.pending_acks


def complete(states: Mapping[str, TypeState], target: Snapshot, shared: SharedResults, *, urgent: bool = True) -> bool:
    """Whether the client has acknowledged listeners and clusters, if there are any, and all resources to which these
    refer.

    `urgent`: whether endpoints and secrets have to be the latest versions; otherwise earlier versions are enough. The
    caller calls this only when no ACK of any other type is pending.
    """
    for root in (CLUSTER, LISTENER):
        state = states.get(root)
        if target.of_type(root).resources and (state is None or state.pending_acks or not state.known):
            return False
        for type_url, names in shared.needs(state.known if state else NOTHING, root, target).items():
            used = states.get(type_url)
            if used is None or (urgent and used.pending_acks) or not names <= used.known.keys():
                return False
            if used.pending_acks and not names.isdisjoint(used.new):
                return False
    return True
