"""The conversation with one client: a request or a snapshot comes in, responses come out. No input, output or clock.

A transition from what a client has to a new snapshot runs in phases. First the client tries what is to be tried, if
there is such a thing. Then everything new is sent in the order clusters, endpoints, extensions, listeners, routes; each
step waits until what it builds on is acknowledged, and for new clusters until their endpoints are. Last, what nothing
uses any more is removed. One snapshot, the latest, waits meanwhile; endpoints alone do not wait. A step that the client
refuses ends the transition where it is: old and new are both there, and the next snapshot goes on from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.protocol.cluster_handover import HandoverStep
from xds_server.protocol.responses import Responder
from xds_server.protocol.sequencing import (
    STAGED,
    TransitionPhase,
    complete,
    in_order,
    removed_clusters_unsubscribed,
    trial,
    users_may_follow,
)
from xds_server.protocol.stream_bounds import check
from xds_server.protocol.type_state import PendingAck, SharedResults, TypeState, TypeStatus
from xds_server.protocol.wire import ProtocolError, Request, Response, TooMuchError
from xds_server.resources.ack_events import (
    Acked,
    Event,
    Nacked,
    SnapshotAcked,
    SnapshotAckedButUrgent,
    TypeAcked,
)
from xds_server.resources.earlier_streams import EarlierStreams
from xds_server.resources.snapshot import ClientResource, Resource
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


class Stream(Responder):
    """What both variants of the protocol share; `sotw` and `delta` say what differs."""

    def __init__(
        self,
        snapshot: Snapshot,
        shared: SharedResults,
        past: EarlierStreams | None = None,
        *,
        empty_is_all: bool = True,
    ) -> None:
        """`past`: what clients of the group may have from earlier streams. `empty_is_all`: whether an empty first
        request means everything (clients of gRPC never mean that)."""
        super().__init__(snapshot, shared, past or EarlierStreams())
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
        self._acked_but_urgent: Snapshot | None = None
        self._has = ""
        """State of the world: the version of the clusters that the client has."""

    # What comes in.

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """A new snapshot: the latest one wins. Raises nothing."""
        self._next = snapshot
        return self._advance()

    def leave(self) -> None:
        """The stream has ended: its client may come back, and say that it has what it was sent last."""
        clusters = self._states.get(CLUSTER)
        sent = (
            [pending.version for pending in clusters.pending_acks.values() if pending.whole is not None]
            if clusters
            else []
        )
        for version in [self._has] * bool(self._has) + sent:
            self._past.leave(version)
        self._has = ""

    def end_wait(self) -> list[Response]:
        """Go on without endpoints that the client has not asked for, although it has clusters that need them; and take
        clusters away that are gone, although it still asks for them. Or lead it on to other clusters."""
        unsent = self._unsent_endpoints()
        for name in unsent:
            del self._warming[name]
        if not unsent and self._in_handover:
            self._continue_handover(self._states[ROUTES])
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

    def type_states(self) -> list[tuple[TypeState, Mapping[str, Resource]]]:
        """What was asked for, with what the client is to have of it in the end."""
        latest = self._next or self._target
        return [(state, state.wanted(latest.of_type(state.type_url))) for state in self._states.values()]

    def type_state(self, type_url: str) -> TypeState | None:
        """One of them, if it was asked for."""
        return self._states.get(type_url)

    def unreferenced(self, snapshot: Snapshot) -> dict[str, frozenset[str]]:
        """By type URL, the names of route tables and extensions that the client subscribes to, and that no resource of
        a snapshot refers to. Types without such names are left out."""
        found = {kind: self._states[kind].unreferenced(snapshot) for kind in USED_BY_LISTENERS & self._states.keys()}
        return {kind: names for kind, names in found.items() if names}

    @property
    def waits_for(self) -> Wait | None:
        """What it is for the client to ask for, or not to ask for any more. Patience begins anew with each wait."""
        if self._warming and self._unsent_endpoints():
            return Wait(self._target, ENDPOINTS)
        if self._phase is TransitionPhase.TRY:
            return Wait(self._target, EXTENSION) if self._awaits_extensions() else None
        if self._handover is not None and self._in_handover:
            # The time of a step begins when the client has acknowledged it, and the clusters that it asked for then.
            busy = self._warming or any(self._states[kind].pending_acks for kind in STAGED & self._states.keys())
            return None if busy else Wait(self._target, ROUTES, lead=True)
        if self._phase is TransitionPhase.MAKE:
            return Wait(self._target, LISTENER) if self.idle and self._awaits_users() else None
        if self._patient and not removed_clusters_unsubscribed(self._states, self._target):
            return Wait(self._target, CLUSTER)
        return None

    @property
    def fresh(self) -> bool:
        """Whether the client had nothing when the stream began: it has just been started. It has said so of listeners,
        and nothing else of any other type."""
        state = self._states.get(LISTENER)
        return state is not None and state.requested and not self._brought

    @property
    def idle(self) -> bool:
        """Whether the client owes no answer."""
        return not any(state.pending_acks for state in self._states.values())

    @property
    def refuses(self) -> bool:
        """Whether the client has refused something that it has not taken or given up since."""
        return any(state.error for state in self._states.values())

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
                state.type_url,
                latest.of_type(state.type_url).version,
                state.sent,
                state.acknowledged,
                state.error,
            )
            for state in self._states.values()
        )

    # Requests.

    def _state(self, request: Request) -> TypeState:
        if not request.type_url:
            raise ProtocolError("the request has no type URL")
        state = self._states.get(request.type_url)
        if state is None:
            if len(self._states) >= MAX_TYPES:
                raise TooMuchError(f"more than {MAX_TYPES} types on one stream")
            state = TypeState(request.type_url)
            self._states = in_order({**self._states, request.type_url: state})
        return state

    def _answered(self, state: TypeState, request: Request) -> None:
        """Take the request as the answer to the response that it names."""
        if request.error is None:
            taken = state.ack(request.nonce)
            if taken is not None:
                self._events.append(Acked(state.type_url, taken.version))
        else:
            taken = state.nack(request.nonce, request.error[:MAX_ERROR])
            if taken is not None:
                self._events.append(Nacked(state.type_url, taken.version, state.error, self._target, state.nacked))
        if taken is None:
            return
        if state.type_url == CLUSTER and taken.whole is not None:
            self._replace_clusters(taken.version, refused=request.error is not None)
        if state.type_url in STAGED and not (state.pending_acks or state.nacked):
            self._note_type_acked(state)
        if state.type_url == ENDPOINTS:
            self._warming = {name: nonce for name, nonce in self._warming.items() if nonce != request.nonce}
        elif state.type_url == CLUSTER and request.error is None:
            self._forget_endpoints(taken)
        elif state.type_url == CLUSTER:
            self._warming = {}
        elif state.type_url == LISTENER and request.error is not None and ROUTES in self._states:
            self._states[ROUTES].resend.clear()

    def _replace_clusters(self, version: str, *, refused: bool) -> None:
        """The client has answered a whole response of clusters."""
        if refused:
            self._past.drop(version)
            return
        if self._has:
            self._past.drop(self._has)
        self._has = version

    def _note_type_acked(self, state: TypeState) -> None:
        """Say so if the client has all of this type that it is to have, and is the first that is known to."""
        wanted = state.wanted(self._target.of_type(state.type_url))
        if self._past.last_acked.resources(state.type_url) is not wanted and not (
            state.known is not wanted and self._shared.difference(state.known, wanted).changed
        ):
            self._events.append(TypeAcked(self._target, state.type_url, wanted))

    def _note_acked_but_urgent(self) -> None:
        """Likewise of a whole snapshot, but for endpoints and secrets."""
        if self._past.last_acked.is_whole(self._target):
            self._acked_but_urgent = self._target
        elif complete(self._states, self._target, self._shared, urgent=False):
            self._acked_but_urgent = self._target
            self._events.append(SnapshotAckedButUrgent(self._target))

    def _forget_endpoints(self, taken: PendingAck) -> None:
        """The client has dropped clusters, and with them their endpoints: there is nothing left to say of those."""
        endpoints = self._states.get(ENDPOINTS)
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

    def _brought_along(self, state: TypeState, known: Mapping[str, ClientResource]) -> None:
        """The client has this from an earlier stream. So a transition that seemed to be through is not."""
        state.known = known
        self._returned = True
        self._phase = min(self._phase, TransitionPhase.MAKE)

    def _resubscribed(self, state: TypeState, owed: Iterable[str]) -> None:
        """After a change of names: what has to be sent, whether the client has it or not."""
        state.owed.update(owed)
        if state.type_url == ENDPOINTS:
            state.resend.update(filter(state.subscription.covers, self._unsent_endpoints()))
        self.names = self._claimed + check(self._states.values(), asked=bool(state.owed), claimed=self._claimed)

    # Responses.

    def _advance(self) -> list[Response]:
        out: list[Response] = []
        while True:
            if self._phase is TransitionPhase.TRY and not self._trying():
                self._phase, self._patient = TransitionPhase.MAKE, True
            for state in self._states.values():
                self._serve(state, out)
            if not self._turn():
                return out

    def _turn(self) -> bool:
        """Go to the next phase or snapshot, if this one is through; whether there is more to serve."""
        if self._warming:
            return False
        if self._phase is TransitionPhase.TRY:
            state = self._states.get(EXTENSION)
            return state is not None and TRIAL in state.nacked and self._next_target()
        stuck = False
        for state in self._states.values():
            if state.pending_acks and state.type_url in STAGED:
                return False
            stuck = stuck or state.in_doubt
        if self._handover is not None and self._in_handover:
            if not stuck:
                return False
            self._end_handover()
            return True
        if not stuck and self._phase is TransitionPhase.MAKE and not self._awaits_users():
            self._phase = TransitionPhase.BREAK
            return True
        if not stuck and self._phase is not TransitionPhase.MAKE:
            self._phase = TransitionPhase.DONE
            for state in self._states.values():
                state.error = ""  # what was refused has gone, by itself or with what used it
            if self._completed is not self._target and complete(self._states, self._target, self._shared):
                self._completed = self._acked_but_urgent = self._target
                self._events.append(SnapshotAcked(self._target))
            elif self._acked_but_urgent is not self._target:
                self._note_acked_but_urgent()
        return self._next_target()

    def _next_target(self) -> bool:
        if self._next is None:
            return False
        self._target, self._next, self._phase, self._patient = self._next, None, TransitionPhase.TRY, True
        self._handover = None if self._empty_is_all else HandoverStep.PENDING
        return True

    @property
    def _in_handover(self) -> bool:
        return self._handover is not None and self._handover is not HandoverStep.PENDING

    def _trying(self) -> bool:
        """Whether nothing else may change yet."""
        state = self._states.get(EXTENSION)
        if self._awaits_extensions() or (
            state is not None and any(TRIAL in pending.content for pending in state.pending_acks.values())
        ):
            return True
        return trial(self._states, self._target) is not None

    def _awaits_extensions(self) -> bool:
        """Whether a client that was here before may be about to say which trial it has."""
        state = self._states.get(EXTENSION)
        there = TRIAL in self._target.of_type(EXTENSION).resources
        return self._returned and self._patient and there and (state is None or not state.requested)

    def _awaits_users(self) -> bool:
        """Whether a client that was here before may be about to say what it has that uses what is to go."""
        return self._returned and self._patient and users_may_follow(self._states, self._target)

    def _unsent_endpoints(self) -> list[str]:
        return [name for name, nonce in self._warming.items() if not nonce]
