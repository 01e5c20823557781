"""What waits for what on one stream, given what the client asked for, has, and has not answered yet: pure functions."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from xds_server.protocol.type_state import NOTHING
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ORDER, ROUTES, SECRET, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import SharedResults, TypeState
    from xds_server.resources.snapshot import Resource, Snapshot

_WAITS_FOR: Final = {
    EXTENSION: (CLUSTER,),
    LISTENER: (CLUSTER, EXTENSION),
    ROUTES: (CLUSTER, EXTENSION, LISTENER),
}
STAGED: Final = frozenset({CLUSTER, EXTENSION, LISTENER, ROUTES})
"""Types whose responses have to be answered before a transition goes on."""
_KEPT_WHILE_USED: Final = frozenset({CLUSTER, ENDPOINTS, EXTENSION, ROUTES, SECRET})
_PLACE: Final = {type_url: place for place, type_url in enumerate(ORDER)}


class TransitionPhase(IntEnum):
    """Where a transition is."""

    TRY = 0
    MAKE = 1
    BREAK = 2
    DONE = 3


class Gate(Enum):
    """Whether a type may be sent now, as far as types before it go."""

    OPEN = auto()
    AWAITING_ACK = auto()
    """Something before it has not been acknowledged."""
    BLOCKED_BY_NACK = auto()
    """Something before it was refused: no changes until that is mended."""


def in_order(states: Mapping[str, TypeState]) -> dict[str, TypeState]:
    """As they are to be served; types that nobody knows come last, as they came."""
    return dict(sorted(states.items(), key=lambda item: _PLACE.get(item[0], len(_PLACE))))


def gate(type_url: str, states: Mapping[str, TypeState], *, warming: bool) -> Gate:
    """`warming`: whether clusters wait for endpoints."""
    found = Gate.OPEN
    if type_url not in _WAITS_FOR:
        return found
    for kind in _WAITS_FOR[type_url]:
        state = states.get(kind)
        if (kind == CLUSTER and warming) or (state is not None and state.pending_acks):
            return Gate.AWAITING_ACK
        if state is not None and any(state.nacked.values()):
            found = Gate.BLOCKED_BY_NACK  # but not for a removal: nothing builds on it
    endpoints = states.get(ENDPOINTS)
    return Gate.BLOCKED_BY_NACK if endpoints is not None and endpoints.in_doubt else found


def trial(states: Mapping[str, TypeState], target: Snapshot) -> Resource | None:
    """What the client is to try before anything else of a snapshot: it has an earlier one of it."""
    there = target.of_type(EXTENSION).resources.get(TRIAL)
    state = states.get(EXTENSION)
    held = None if state is None else state.known.get(TRIAL)
    return None if there is None or held is None or held.version == there.version else there


def removed_clusters_unsubscribed(states: Mapping[str, TypeState], target: Snapshot) -> bool:
    """Whether a client that asks for clusters by name has stopped to ask for those that are gone.

    Clients of gRPC acknowledge routes when they read them, and use the routes and clusters of before until they know
    the new clusters' endpoints. Then they unsubscribe from the old ones: nothing else tells that they are not in use.
    """
    clusters = states.get(CLUSTER)
    if clusters is None or not clusters.subscription.names:
        return True
    there = target.of_type(CLUSTER).resources
    return all(name in there or name not in clusters.subscription.names for name in clusters.known)


def users_may_follow(states: Mapping[str, TypeState], target: Snapshot) -> bool:
    """Whether something is to be taken away from a client that came back, and may be about to say that it has
    listeners or routes which use that."""
    listeners, routes = states.get(LISTENER), states.get(ROUTES)
    if routes is not None and routes.requested:
        return False  # clients ask for listeners first, if at all
    if all(
        state.known.keys() <= target.of_type(type_url).resources.keys()
        for type_url, state in states.items()
        if type_url in _KEPT_WHILE_USED
    ):
        return False
    if listeners is None or not listeners.requested:
        return True
    there = target.of_type(LISTENER).resources
    return any(
        reference.type_url == ROUTES
        for name in listeners.known
        if name in there
        for reference in there[name].references
    )


def removing(
    type_url: str, states: Mapping[str, TypeState], target: Snapshot, phase: TransitionPhase, *, patient: bool
) -> bool:
    """Whether what is not in the target may be taken away now. `patient`: whether clients may take their time."""
    if type_url not in _KEPT_WHILE_USED:
        return True
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
    """Whether the client has listeners and clusters, if there are any, and all that those refer to. `urgent`: whether
    endpoints and secrets have to be the latest ones. Else earlier ones of the same names will do; of other types
    nothing is on its way where this is asked."""
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
