"""The conversation with one client: a request or a snapshot comes in, responses come out. No input, output or clock.

A transition from what a client has to a new snapshot runs in phases. First the client tries what is to be tried, if
there is such a thing. Then everything new is sent in the order clusters, endpoints, extensions, listeners, routes; each
step waits until what it builds on is acknowledged, and for new clusters until their endpoints are. Last, what nothing
uses any more is removed. One snapshot, the latest, waits meanwhile; endpoints alone do not wait. A step that the client
refuses ends the transition where it is: old and new are both there, and the next snapshot goes on from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.limits.stream_bounds import check
from xds_server.protocol.cluster_handover import Lead
from xds_server.protocol.earlier_streams import Past
from xds_server.protocol.events import Accepted, Completed, Event, Refused, Settled, Took, TypeStatus
from xds_server.protocol.responses import Sender
from xds_server.protocol.sequencing import STAGED, Phase, complete, in_order, let_go, trial, users_unknown
from xds_server.protocol.type_state import Channel, Flight, Shared
from xds_server.protocol.wire import ProtocolError, Request, Response, TooMuchError
from xds_server.resources.snapshot import Known, Resource
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, TRIAL, USED_BY_LISTENERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xds_server.resources.snapshot import Snapshot

MAX_TYPES: Final = 32
MAX_ERROR: Final = 4096
"""Characters of a client's error that are kept."""


class Wait(NamedTuple):
    """It is the client's turn to ask, or it needs some time."""

    snapshot: Snapshot
    type_url: str
    lead: bool = False
    """Whether it is for a client of gRPC to notice clusters: that takes no more than a moment."""


class Stream(Sender):
    """What both variants of the protocol share; `sotw` and `delta` say what differs."""

    def __init__(
        self, snapshot: Snapshot, shared: Shared, past: Past | None = None, *, empty_is_all: bool = True
    ) -> None:
        """`past`: what clients of the group may have from earlier streams. `empty_is_all`: whether an empty first
        request means everything (clients of gRPC never mean that)."""
        super().__init__(snapshot, shared, past or Past())
        self._empty_is_all = empty_is_all
        self._returned = False
        """Whether the client has said what it has from an earlier stream."""
        self._claimed = 0
        """Of how many resources it has said so."""
        self.names = 0
        """How many it asks for, or said that it had, of all types."""
        self._brought = False
        """Whether the client has said that it had anything, of any type, before this stream."""
        self._events: list[Event] = []
        self._completed: Snapshot | None = None
        self._settled: Snapshot | None = None
        self._has = ""
        """State of the world: the version of the clusters that the client has."""

    # What comes in.

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """A new snapshot: the latest one wins. Raises nothing."""
        self._next = snapshot
        return self._advance()

    def leave(self) -> None:
        """The stream has ended: its client may come back, and say that it has what it was sent last."""
        clusters = self._channels.get(CLUSTER)
        sent = [flight.version for flight in clusters.flights.values() if flight.whole is not None] if clusters else []
        for version in [self._has] * bool(self._has) + sent:
            self._past.leave(version)
        self._has = ""

    def wait_no_longer(self) -> list[Response]:
        """Go on without endpoints that the client has not asked for, although it has clusters that need them; and take
        clusters away that are gone, although it still asks for them. Or lead it on to other clusters."""
        unsent = self._unsent_endpoints()
        for name in unsent:
            del self._warming[name]
        if not unsent and self._leading:
            self._lead_on(self._channels[ROUTES])
        elif not unsent:
            self._patient = False
        return self._advance()

    # What can be seen.

    @property
    def snapshot(self) -> Snapshot:
        """What the client is being led to."""
        return self._target

    @property
    def completed(self) -> Snapshot | None:
        """The last snapshot of which the client acknowledged everything that it can use."""
        return self._completed

    @property
    def changing(self) -> bool:
        """Whether the client may have something else than what it acknowledged last."""
        return self._completed is not (self._next or self._target)

    def channels(self) -> list[tuple[Channel, Mapping[str, Resource]]]:
        """What was asked for, with what the client is to have of it in the end."""
        latest = self._next or self._target
        return [(channel, channel.wanted(latest.of_type(channel.type_url))) for channel in self._channels.values()]

    def channel(self, type_url: str) -> Channel | None:
        """One of them, if it was asked for."""
        return self._channels.get(type_url)

    def unreferenced(self, snapshot: Snapshot) -> dict[str, frozenset[str]]:
        """By type URL, the names of route tables and extensions that the client subscribes to, and that no resource of
        a snapshot refers to. Types without such names are left out."""
        found = {
            kind: self._channels[kind].unreferenced(snapshot) for kind in USED_BY_LISTENERS & self._channels.keys()
        }
        return {kind: names for kind, names in found.items() if names}

    @property
    def waits_for(self) -> Wait | None:
        """What it is for the client to ask for, or not to ask for any more. Patience begins anew with each wait."""
        if self._warming and self._unsent_endpoints():
            return Wait(self._target, ENDPOINTS)
        if self._phase is Phase.TRY:
            return Wait(self._target, EXTENSION) if self._awaits_extensions() else None
        if self._lead is not None and self._leading:
            # The time of a step begins when the client has acknowledged it, and the clusters that it asked for then.
            busy = self._warming or any(self._channels[kind].flights for kind in STAGED & self._channels.keys())
            return None if busy else Wait(self._target, ROUTES, lead=True)
        if self._phase is Phase.MAKE:
            return Wait(self._target, LISTENER) if self.idle and self._awaits_users() else None
        if self._patient and not let_go(self._channels, self._target):
            return Wait(self._target, CLUSTER)
        return None

    @property
    def fresh(self) -> bool:
        """Whether the client had nothing when the stream began: it has just been started. It has said so of listeners,
        and nothing else of any other type."""
        channel = self._channels.get(LISTENER)
        return channel is not None and channel.asked and not self._brought

    @property
    def idle(self) -> bool:
        """Whether the client owes no answer."""
        return not any(channel.flights for channel in self._channels.values())

    @property
    def refuses(self) -> bool:
        """Whether the client has refused something that it has not taken or given up since."""
        return any(channel.error for channel in self._channels.values())

    def take_events(self) -> list[Event]:
        """What has happened since the last call."""
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def status(self) -> tuple[TypeStatus, ...]:
        latest = self._next or self._target
        return tuple(
            TypeStatus(
                channel.type_url,
                latest.of_type(channel.type_url).version,
                channel.sent,
                channel.acknowledged,
                channel.error,
            )
            for channel in self._channels.values()
        )

    # Requests.

    def _channel(self, request: Request) -> Channel:
        if not request.type_url:
            raise ProtocolError("the request has no type URL")
        channel = self._channels.get(request.type_url)
        if channel is None:
            if len(self._channels) >= MAX_TYPES:
                raise TooMuchError(f"more than {MAX_TYPES} types on one stream")
            channel = Channel(request.type_url)
            self._channels = in_order({**self._channels, request.type_url: channel})
        return channel

    def _answered(self, channel: Channel, request: Request) -> None:
        """Take the request as the answer to the response that it names."""
        if request.error is None:
            taken = channel.accept(request.nonce)
            if taken is not None:
                self._events.append(Accepted(channel.type_url, taken.version))
        else:
            taken = channel.refuse(request.nonce, request.error[:MAX_ERROR])
            if taken is not None:
                self._events.append(
                    Refused(channel.type_url, taken.version, channel.error, self._target, channel.refused)
                )
        if taken is None:
            return
        if channel.type_url == CLUSTER and taken.whole is not None:
            self._replace_clusters(taken.version, refused=request.error is not None)
        if channel.type_url in STAGED and not (channel.flights or channel.refused):
            self._note_taken(channel)
        if channel.type_url == ENDPOINTS:
            self._warming = {name: nonce for name, nonce in self._warming.items() if nonce != request.nonce}
        elif channel.type_url == CLUSTER and request.error is None:
            self._forget_endpoints(taken)
        elif channel.type_url == CLUSTER:
            self._warming = {}
        elif channel.type_url == LISTENER and request.error is not None and ROUTES in self._channels:
            self._channels[ROUTES].again.clear()

    def _replace_clusters(self, version: str, *, refused: bool) -> None:
        """The client has answered a whole response of clusters."""
        if refused:
            self._past.drop(version)
            return
        if self._has:
            self._past.drop(self._has)
        self._has = version

    def _note_taken(self, channel: Channel) -> None:
        """Say so if the client has all of this type that it is to have, and is the first that is known to."""
        wanted = channel.wanted(self._target.of_type(channel.type_url))
        if self._past.taken.resources(channel.type_url) is not wanted and not (
            channel.known is not wanted and self._shared.difference(channel.known, wanted).changed
        ):
            self._events.append(Took(self._target, channel.type_url, wanted))

    def _note_settled(self) -> None:
        """Likewise of a whole snapshot, but for endpoints and secrets."""
        if self._past.taken.is_whole(self._target):
            self._settled = self._target
        elif complete(self._channels, self._target, self._shared, urgent=False):
            self._settled = self._target
            self._events.append(Settled(self._target))

    def _forget_endpoints(self, taken: Flight) -> None:
        """The client has dropped clusters, and with them their endpoints: there is nothing left to say of those."""
        endpoints = self._channels.get(ENDPOINTS)
        if endpoints is None:
            return
        gone = set()
        for name, item in taken.content.items():
            if item is None:
                before = taken.before.get(name)
                gone.add(name)
                if isinstance(before, Resource):
                    gone.update(used.name for used in before.references if used.type_url == ENDPOINTS)
        gone -= self._target.of_type(ENDPOINTS).resources.keys()
        if not gone.isdisjoint(endpoints.known):
            endpoints.known = {name: item for name, item in endpoints.known.items() if name not in gone}

    def _brought_along(self, channel: Channel, known: Mapping[str, Known]) -> None:
        """The client has this from an earlier stream. So a transition that seemed to be through is not."""
        channel.known = known
        self._returned = True
        self._phase = min(self._phase, Phase.MAKE)

    def _resubscribed(self, channel: Channel, owed: Iterable[str]) -> None:
        """After a change of names: what has to be sent, whether the client has it or not."""
        channel.owed.update(owed)
        if channel.type_url == ENDPOINTS:
            channel.again.update(filter(channel.subscription.covers, self._unsent_endpoints()))
        self.names = self._claimed + check(self._channels.values(), asked=bool(channel.owed), claimed=self._claimed)

    # Responses.

    def _advance(self) -> list[Response]:
        out: list[Response] = []
        while True:
            if self._phase is Phase.TRY and not self._trying():
                self._phase, self._patient = Phase.MAKE, True
            for channel in self._channels.values():
                self._serve(channel, out)
            if not self._turn():
                return out

    def _turn(self) -> bool:
        """Go to the next phase or snapshot, if this one is through; whether there is more to serve."""
        if self._warming:
            return False
        if self._phase is Phase.TRY:
            channel = self._channels.get(EXTENSION)
            return channel is not None and TRIAL in channel.refused and self._next_target()
        stuck = False
        for channel in self._channels.values():
            if channel.flights and channel.type_url in STAGED:
                return False
            stuck = stuck or channel.in_doubt
        if self._lead is not None and self._leading:
            if not stuck:
                return False
            self._lead_no_more()
            return True
        if not stuck and self._phase is Phase.MAKE and not self._awaits_users():
            self._phase = Phase.BREAK
            return True
        if not stuck and self._phase is not Phase.MAKE:
            self._phase = Phase.DONE
            for channel in self._channels.values():
                channel.error = ""  # what was refused has gone, by itself or with what used it
            if self._completed is not self._target and complete(self._channels, self._target, self._shared):
                self._completed = self._settled = self._target
                self._events.append(Completed(self._target))
            elif self._settled is not self._target:
                self._note_settled()
        return self._next_target()

    def _next_target(self) -> bool:
        if self._next is None:
            return False
        self._target, self._next, self._phase, self._patient = self._next, None, Phase.TRY, True
        self._lead = None if self._empty_is_all else Lead.TO_COME
        return True

    @property
    def _leading(self) -> bool:
        return self._lead is not None and self._lead is not Lead.TO_COME

    def _trying(self) -> bool:
        """Whether nothing else may change yet."""
        channel = self._channels.get(EXTENSION)
        if self._awaits_extensions() or (
            channel is not None and any(TRIAL in flight.content for flight in channel.flights.values())
        ):
            return True
        return trial(self._channels, self._target) is not None

    def _awaits_extensions(self) -> bool:
        """Whether a client that was here before may be about to say which trial it has."""
        channel = self._channels.get(EXTENSION)
        there = TRIAL in self._target.of_type(EXTENSION).resources
        return self._returned and self._patient and there and (channel is None or not channel.asked)

    def _awaits_users(self) -> bool:
        """Whether a client that was here before may be about to say what it has that uses what is to go."""
        return self._returned and self._patient and users_unknown(self._channels, self._target)

    def _unsent_endpoints(self) -> list[str]:
        return [name for name, nonce in self._warming.items() if not nonce]
