"""What waits for what on one stream, given what the client asked for, has, and has not answered yet: pure functions."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Final

from xds_server.protocol.type_state import NOTHING
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ORDER, ROUTES, SECRET, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import Channel, Shared
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


class Phase(IntEnum):
    """Where a transition is."""

    TRY = 0
    MAKE = 1
    BREAK = 2
    DONE = 3


class Gate(Enum):
    """Whether a type may be sent now, as far as types before it go."""

    OPEN = auto()
    SHUT = auto()
    """Something before it has not been acknowledged."""
    HELD = auto()
    """Something before it was refused: no changes until that is mended."""


def in_order(channels: Mapping[str, Channel]) -> dict[str, Channel]:
    """As they are to be served; types that nobody knows come last, as they came."""
    return dict(sorted(channels.items(), key=lambda item: _PLACE.get(item[0], len(_PLACE))))


def gate(type_url: str, channels: Mapping[str, Channel], *, warming: bool) -> Gate:
    """`warming`: whether clusters wait for endpoints."""
    found = Gate.OPEN
    if type_url not in _WAITS_FOR:
        return found
    for kind in _WAITS_FOR[type_url]:
        channel = channels.get(kind)
        if (kind == CLUSTER and warming) or (channel is not None and channel.flights):
            return Gate.SHUT
        if channel is not None and any(channel.refused.values()):
            found = Gate.HELD  # but not for a removal: nothing builds on it
    endpoints = channels.get(ENDPOINTS)
    return Gate.HELD if endpoints is not None and endpoints.in_doubt else found


def trial(channels: Mapping[str, Channel], target: Snapshot) -> Resource | None:
    """What the client is to try before anything else of a snapshot: it has an earlier one of it."""
    there = target.of_type(EXTENSION).resources.get(TRIAL)
    channel = channels.get(EXTENSION)
    held = None if channel is None else channel.known.get(TRIAL)
    return None if there is None or held is None or held.version == there.version else there


def let_go(channels: Mapping[str, Channel], target: Snapshot) -> bool:
    """Whether a client that asks for clusters by name has stopped to ask for those that are gone.

    Clients of gRPC acknowledge routes when they read them, and use the routes and clusters of before until they know
    the new clusters' endpoints. Then they unsubscribe from the old ones: nothing else tells that they are not in use.
    """
    clusters = channels.get(CLUSTER)
    if clusters is None or not clusters.subscription.names:
        return True
    there = target.of_type(CLUSTER).resources
    return all(name in there or name not in clusters.subscription.names for name in clusters.known)


def users_unknown(channels: Mapping[str, Channel], target: Snapshot) -> bool:
    """Whether something is to be taken away from a client that came back, and may be about to say that it has
    listeners or routes which use that."""
    listeners, routes = channels.get(LISTENER), channels.get(ROUTES)
    if routes is not None and routes.asked:
        return False  # clients ask for listeners first, if at all
    if all(
        channel.known.keys() <= target.of_type(type_url).resources.keys()
        for type_url, channel in channels.items()
        if type_url in _KEPT_WHILE_USED
    ):
        return False
    if listeners is None or not listeners.asked:
        return True
    there = target.of_type(LISTENER).resources
    return any(
        reference.type_url == ROUTES
        for name in listeners.known
        if name in there
        for reference in there[name].references
    )


def removing(type_url: str, channels: Mapping[str, Channel], target: Snapshot, phase: Phase, *, patient: bool) -> bool:
    """Whether what is not in the target may be taken away now. `patient`: whether clients may take their time."""
    if type_url not in _KEPT_WHILE_USED:
        return True
    if phase < Phase.BREAK or (type_url == CLUSTER and patient and not let_go(channels, target)):
        return False
    clusters = channels.get(CLUSTER)
    if type_url not in {ENDPOINTS, SECRET} or clusters is None:
        return True
    gone = clusters.known.keys() <= target.of_type(CLUSTER).resources.keys()
    return gone and not clusters.flights


def complete(channels: Mapping[str, Channel], target: Snapshot, shared: Shared, *, urgent: bool = True) -> bool:
    """Whether the client has listeners and clusters, if there are any, and all that those refer to. `urgent`: whether
    endpoints and secrets have to be the latest ones. Else earlier ones of the same names will do; of other types
    nothing is on its way where this is asked."""
    for root in (CLUSTER, LISTENER):
        channel = channels.get(root)
        if target.of_type(root).resources and (channel is None or channel.flights or not channel.known):
            return False
        for type_url, names in shared.needs(channel.known if channel else NOTHING, root, target).items():
            used = channels.get(type_url)
            if used is None or (urgent and used.flights) or not names <= used.known.keys():
                return False
            if used.flights and not names.isdisjoint(used.new):
                return False
    return True
