"""The state machine of one stream: requests and snapshots in, responses out, without input, output or clock.

A transition from the resources that a client has to a new snapshot runs in phases. First the client receives the trial
extension, if there is one. Then the stream sends all new resources in the order clusters, endpoints, extensions,
listeners, routes; each type waits until the client has acknowledged the types before it, and new clusters until it has
acknowledged their endpoints. Last, the stream removes resources that are no longer used. One snapshot, the latest,
waits meanwhile; only endpoints and secrets do not wait. A NACK stops the transition where it is: the client has old and
new resources side by side, and the next snapshot continues from there.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

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
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.stream_bounds import check
from xds_server.protocol.type_state import PendingAck, TypeState, TypeStatus
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

RequestT = TypeVar("RequestT", bound=Request)
MAX_TYPES: Final = 32
MAX_ERROR: Final = 4096
"""Characters of the message of a NACK that are kept."""


class Wait(NamedTuple):
    """The stream waits for a request of the client, or gives it some time."""

    snapshot: Snapshot
    type_url: str
    handover: bool = False
    """Whether a client of gRPC gets time to apply a step of a handover between clusters: that takes a moment."""


class Stream(Responder, Generic[RequestT]):
    """The parts that both variants of the protocol share; `sotw` and `delta` have the differences."""

    def __init__(
        self,
        snapshot: Snapshot,
        shared: SharedResults,
        past: EarlierStreams | None = None,
        *,
        empty_is_all: bool = True,
    ) -> None:
        """`past`: the clusters that clients of the group may have from earlier streams. `empty_is_all`: whether an
        empty first request is a wildcard (for clients of gRPC it never is)."""
        super().__init__(snapshot, shared, past or EarlierStreams())
        self._empty_is_all = empty_is_all
        self._returned = False
        """Whether the client has said which resources it has from an earlier stream."""
        self._claimed = 0
        """Of how many resources the client has said so."""
        self.names = 0
        """To how many names of all types the client subscribes, or said that it had them."""
        self._had_resources = False
        """Whether the client has said that it had resources of any type before this stream."""
        self._events: list[Event] = []
        self._completed: Snapshot | None = None
        self._acked_but_urgent: Snapshot | None = None
        self._has = ""
        """State of the world: the version of the clusters that the client has."""

    # Input.

    @abstractmethod
    def receive(self, request: RequestT) -> list[Response]:
        """Handle a request. Raises `ProtocolError` and `TooMuchError`."""

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """Take a new snapshot in place of one that waits."""
        self._next = snapshot
        return self._advance()

    def leave(self) -> None:
        """The stream has ended. Its client may come back, and name the version of the clusters that it was sent
        last."""
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
        """Continue without endpoints to which the client has not subscribed, although its clusters need them; and
        remove clusters to which it still subscribes. Or begin the next step of a handover."""
        unsent = self._unsent_endpoints()
        for name in unsent:
            del self._warming[name]
        if not unsent and self._in_handover:
            self._continue_handover(self._states[ROUTES])
        elif not unsent:
            self._patient = False
        return self._advance()

    # Observations.

    @property
    def snapshot(self) -> Snapshot:
        """The target of the present transition."""
        return self._target

    @property
    def completed(self) -> Snapshot | None:
        """The last snapshot of which the client acknowledged all resources that it can use."""
        return self._completed

    @property
    def changing(self) -> bool:
        """Whether the client may have other resources than those of `completed`."""
        return self._completed is not (self._next or self._target)

    def type_states(self) -> list[tuple[TypeState, Mapping[str, Resource]]]:
        """The state of each requested type, with the resources that the client is to have in the end."""
        latest = self._next or self._target
        return [(state, state.wanted(latest.of_type(state.type_url))) for state in self._states.values()]

    def type_state(self, type_url: str) -> TypeState | None:
        """The state of one type; None if it was never requested."""
        return self._states.get(type_url)

    def unreferenced(self, snapshot: Snapshot) -> dict[str, frozenset[str]]:
        """By type URL, the names of route tables and extensions that the client subscribes to, and that no resource of
        a snapshot refers to. Types without such names are left out."""
        found = {kind: self._states[kind].unreferenced(snapshot) for kind in USED_BY_LISTENERS & self._states.keys()}
        return {kind: names for kind, names in found.items() if names}

    @property
    def waits_for(self) -> Wait | None:
        """What the stream waits for, besides ACKs. Each wait has its own time limit."""
        if self._warming and self._unsent_endpoints():
            return Wait(self._target, ENDPOINTS)
        if self._phase is TransitionPhase.TRY:
            return Wait(self._target, EXTENSION) if self._awaits_extensions() else None
        if self._handover is not None and self._in_handover:
            # The time of a step begins when the client has acknowledged it and the clusters that it requested then.
            busy = self._warming or any(self._states[kind].pending_acks for kind in STAGED & self._states.keys())
            return None if busy else Wait(self._target, ROUTES, handover=True)
        if self._phase is TransitionPhase.MAKE:
            return Wait(self._target, LISTENER) if self.idle and self._awaits_users() else None
        if self._patient and not removed_clusters_unsubscribed(self._states, self._target):
            return Wait(self._target, CLUSTER)
        return None

    @property
    def fresh(self) -> bool:
        """Whether the client had no resources when the stream began: the process has just been started. The first
        request for listeners says so, if no request of another type says otherwise."""
        state = self._states.get(LISTENER)
        return state is not None and state.requested and not self._had_resources

    @property
    def idle(self) -> bool:
        """Whether the client owes no ACK."""
        return not any(state.pending_acks for state in self._states.values())

    @property
    def refuses(self) -> bool:
        """Whether the client has refused a resource, and has neither acknowledged another version of it since nor ended
        its subscription."""
        return any(state.error for state in self._states.values())

    def take_events(self) -> list[Event]:
        """The events since the last call."""
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
        """Handle the ACK or NACK in a request."""
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
        """The client has acknowledged or refused a whole response of clusters."""
        if refused:
            self._past.drop(version)
            return
        if self._has:
            self._past.drop(self._has)
        self._has = version

    def _note_type_acked(self, state: TypeState) -> None:
        """Report the type if the client has acknowledged all of it, and no client was known to have done so."""
        wanted = state.wanted(self._target.of_type(state.type_url))
        if self._past.last_acked.resources(state.type_url) is not wanted and not (
            state.known is not wanted and self._shared.difference(state.known, wanted).changed
        ):
            self._events.append(TypeAcked(self._target, state.type_url, wanted))

    def _note_acked_but_urgent(self) -> None:
        """Report the snapshot if the client has acknowledged all of it but endpoints and secrets."""
        if self._past.last_acked.is_whole(self._target):
            self._acked_but_urgent = self._target
        elif complete(self._states, self._target, self._shared, urgent=False):
            self._acked_but_urgent = self._target
            self._events.append(SnapshotAckedButUrgent(self._target))

    def _forget_endpoints(self, taken: PendingAck) -> None:
        """The client has removed clusters, and with them their endpoints: these need no removal."""
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

    def _resume(self, state: TypeState, known: Mapping[str, ClientResource]) -> None:
        """The client has these resources from an earlier stream. So the transition may have to continue."""
        state.known = known
        self._returned = True
        self._phase = min(self._phase, TransitionPhase.MAKE)

    def _resubscribed(self, state: TypeState, owed: Iterable[str]) -> None:
        """After a change of the subscription. `owed`: names to be sent, whether the client has them or not."""
        state.owed.update(owed)
        if state.type_url == ENDPOINTS:
            state.resend.update(filter(state.subscription.covers, self._unsent_endpoints()))
        self.names = self._claimed + check(self._states.values(), asked=bool(state.owed), claimed=self._claimed)

    # Responses.

    def _advance(self) -> list[Response]:
        out: list[Response] = []
        while True:
            if self._phase is TransitionPhase.TRY and not self._in_trial():
                self._phase, self._patient = TransitionPhase.MAKE, True
            for state in self._states.values():
                self._serve(state, out)
            if not self._next_step():
                return out

    def _next_step(self) -> bool:
        """Begin the next phase or transition, if the present one is complete; whether there is more to send."""
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
                state.error = ""  # the refused resources are removed, by themselves or with their users
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

    def _in_trial(self) -> bool:
        """Whether nothing but the trial extension may change yet."""
        state = self._states.get(EXTENSION)
        if self._awaits_extensions() or (
            state is not None and any(TRIAL in pending.content for pending in state.pending_acks.values())
        ):
            return True
        return trial(self._states, self._target) is not None

    def _awaits_extensions(self) -> bool:
        """Whether a client that came back has not said yet which trial extension it has."""
        state = self._states.get(EXTENSION)
        there = TRIAL in self._target.of_type(EXTENSION).resources
        return self._returned and self._patient and there and (state is None or not state.requested)

    def _awaits_users(self) -> bool:
        """Whether a client that came back may still name listeners or routes that use resources to be removed."""
        return self._returned and self._patient and users_may_follow(self._states, self._target)

    def _unsent_endpoints(self) -> list[str]:
        return [name for name, nonce in self._warming.items() if not nonce]
