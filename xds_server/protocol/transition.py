"""The transition of one stream from the resources that a client has to a new snapshot.

A transition has three phases:

    1. The stream sends the trial extension, if the client has another version of it.
    2. The stream sends all new resources, in the order clusters, endpoints, extensions, listeners, routes. Each type
       waits until the client has acknowledged the types before it, and new clusters wait until the client has
       acknowledged their endpoints.
    3. The stream removes resources that are no longer used. Listeners are removed in phase 2 already.

The latest snapshot waits until the transition is complete. Its endpoints and secrets do not wait, unless its clusters
differ from those of the target. Two events end a transition early, and the next snapshot continues from the resources
that the client then has, old and new ones:

    - a NACK
    - a snapshot that withdraws a change which the client has not received yet, because that change may be wrong
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from xds_server.protocol.cluster_handover import HandoverStep
from xds_server.protocol.responses import Responder
from xds_server.protocol.sequencing import (
    STAGED,
    TransitionPhase,
    complete,
    removed_clusters_unsubscribed,
    trial,
    users_may_follow,
)
from xds_server.protocol.type_state import NO_NAMES
from xds_server.resources.ack_events import Event, SnapshotAcked, SnapshotAckedExceptUrgent
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, TRIAL, URGENT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.shared_results import SharedResults
    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Response
    from xds_server.resources.earlier_streams import EarlierStreams
    from xds_server.resources.snapshot import Snapshot


MAX_SUPERSEDED: Final = 4


class Wait(NamedTuple):
    """The stream waits for a request of the client, or gives it some time."""

    since: Snapshot
    """The target with which the wait began. A wait continues when the target is superseded, so that snapshots in quick
    succession do not make it longer."""
    type_url: str
    handover: bool = False
    """Whether the wait gives a client of gRPC the time to apply a step of a handover between clusters."""


class Transition(Responder):
    """A stream without its requests: which responses a new snapshot, an ACK or the end of a wait causes."""

    def __init__(self, snapshot: Snapshot, shared: SharedResults, past: EarlierStreams, *, empty_is_all: bool) -> None:
        super().__init__(snapshot, shared, past)
        self._empty_is_all = empty_is_all
        """Whether an empty first request is a wildcard. It never is for clients of gRPC, and these get handovers."""
        self._returned = False
        """Whether the client has claimed resources from an earlier stream."""
        self._events: list[Event] = []
        self._superseded: tuple[Snapshot, ...] = ()
        """The targets that were replaced in this transition, latest first. The client may still refuse their
        resources."""
        self._completed: Snapshot | None = None
        self._acked_except_urgent: Snapshot | None = None

    # Input.

    def publish(self, snapshot: Snapshot) -> list[Response]:
        """Take a new snapshot in place of a snapshot that waits."""
        self._next = snapshot
        return self._advance()

    def end_wait(self) -> list[Response]:
        """End the present wait: continue without endpoints that clusters need and to which the client does not
        subscribe, and remove clusters to which it still subscribes; or begin the next step of a handover."""
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

    @property
    def waits_for(self) -> Wait | None:
        """The present wait of the stream, besides waits for ACKs. Each wait has its own time limit."""
        if self._warming and self._unsent_endpoints():
            return Wait(self._wait_since, ENDPOINTS)
        if self._phase is TransitionPhase.TRY:
            return Wait(self._wait_since, EXTENSION) if self._awaits_extensions() else None
        if self._handover is not None and self._in_handover:
            # The time of a step begins when the client has acknowledged it and the clusters that it requested then.
            busy = self._warming or any(self._states[kind].pending_acks for kind in STAGED & self._states.keys())
            return None if busy else Wait(self._wait_since, ROUTES, handover=True)
        if self._phase is TransitionPhase.MAKE:
            return Wait(self._wait_since, LISTENER) if self.idle and self._awaits_users() else None
        if self._patient and not removed_clusters_unsubscribed(self._states, self._target):
            return Wait(self._wait_since, CLUSTER)
        return None

    @property
    def idle(self) -> bool:
        """Whether the client owes no ACK."""
        return not any(state.pending_acks for state in self._states.values())

    def take_events(self) -> list[Event]:
        """The events since the last call."""
        if not self._events:
            return []
        events, self._events = self._events, []
        return events

    def _source(self, type_url: str, versions: Mapping[str, str | None]) -> Snapshot:
        """The snapshot to which refused resources belong: the latest of those that have the most of them."""

        def matches(snapshot: Snapshot) -> int:
            there = snapshot.of_type(type_url).resources
            return sum(name in there and there[name].version == version for name, version in versions.items())

        return max((self._target, *self._superseded), key=matches) if self._superseded else self._target

    # Phases.

    def _advance(self) -> list[Response]:
        out: list[Response] = []
        while True:
            if self._withdraws():
                self._supersede()
            if self._phase is TransitionPhase.TRY and not self._in_trial():
                self._phase, self._patient = TransitionPhase.MAKE, True
            for state in self._states.values():
                self._serve(state, out)
            if not self._next_step():
                return out

    def _next_step(self) -> bool:
        """Begin the next phase or transition if the present one is complete. Return whether there is more to send."""
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
                self._completed = self._acked_except_urgent = self._target
                self._events.append(SnapshotAcked(self._target))
            elif self._acked_except_urgent is not self._target:
                self._note_acked_except_urgent()
        return self._next_target()

    def _next_target(self) -> bool:
        if self._next is None:
            return False
        self._target, self._next, self._phase, self._patient = self._next, None, TransitionPhase.TRY, True
        self._wait_since = self._target
        self._superseded = ()
        self._set_aside = {}
        self._handover = None if self._empty_is_all else HandoverStep.PENDING
        return True

    def _withdraws(self) -> bool:
        """Whether the waiting snapshot withdraws a change that the client has not received yet: a resource that has
        another version or is missing in the snapshot, or the removal of a resource that the snapshot has."""
        newer = self._next
        if newer is None or (self._phase is TransitionPhase.DONE and self.idle and not self._warming):
            return False
        return any(self._unsent(state, newer) for state in self._states.values())

    def _unsent(self, state: TypeState, newer: Snapshot) -> bool:
        """Whether the client lacks a change of the target to which it subscribes, and which a newer snapshot undoes."""
        kind = state.type_url
        there = (self._collection(kind) if kind in URGENT else self._target.of_type(kind)).resources
        later = newer.of_type(kind).resources
        if there is later:
            return False
        undone = self._shared.difference(there, later)
        for name in (*undone.changed, *undone.removed):
            held, item = state.known.get(name), there.get(name)
            if state.subscription.covers(name) and (held and held.version) != (item and item.version):
                return True
        return False

    def _supersede(self) -> None:
        """Replace the target in the middle of its transition. Resources that the client has received stay until they
        are removed at the end, as after any transition."""
        phase, patient, since, set_aside = self._phase, self._patient, self._wait_since, self._set_aside
        superseded = (self._target, *self._superseded)[:MAX_SUPERSEDED]
        self._next_target()
        self._superseded = superseded
        if phase < TransitionPhase.BREAK:
            self._wait_since = since
        if phase is TransitionPhase.MAKE and trial(self._states, self._target) is None:
            self._phase, self._patient = phase, patient
        needed = self._target.of_type(CLUSTER).referenced.get(ENDPOINTS, NO_NAMES)
        known = {**set_aside, **self._warming}
        self._warming = {name: nonce for name, nonce in known.items() if name in needed}
        self._set_aside = {name: nonce for name, nonce in known.items() if name not in needed}
        endpoints = self._states.get(ENDPOINTS)
        if endpoints is not None:
            again = self._warming.keys() & set_aside.keys()
            endpoints.resend.update(filter(endpoints.subscription.covers, again))

    def _note_acked_except_urgent(self) -> None:
        """Report the snapshot if the client has acknowledged all of it but endpoints and secrets."""
        if self._past.last_acked.is_whole(self._target):
            self._acked_except_urgent = self._target
        elif complete(self._states, self._target, self._shared, urgent=False):
            self._acked_except_urgent = self._target
            self._events.append(SnapshotAckedExceptUrgent(self._target))

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
        """Whether a returning client has not yet told which trial extension it has."""
        state = self._states.get(EXTENSION)
        there = TRIAL in self._target.of_type(EXTENSION).resources
        return self._returned and self._patient and there and (state is None or not state.requested)

    def _awaits_users(self) -> bool:
        """Whether a returning client may still name listeners or routes that use resources to be removed."""
        return self._returned and self._patient and users_may_follow(self._states, self._target)

    def _unsent_endpoints(self) -> list[str]:
        return [name for name, nonce in self._warming.items() if not nonce]
