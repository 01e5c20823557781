"""What a client is sent of one type, given where its transition is: what is owed, what has changed, what may go.

Listeners and clusters in state of the world are sent whole, all else resource by resource. While changes are held back,
or something was refused, who asks is told what it has, and what it asks for and has not, unless that leads to clusters
that it has not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from xds_server.protocol.cluster_handover import HandoverStep, ahead, behind
from xds_server.protocol.sequencing import STAGED, Gate, TransitionPhase, trial
from xds_server.protocol.sequencing import gate as gate_of
from xds_server.protocol.sequencing import removing as may_remove
from xds_server.protocol.type_state import NOTHING, PendingAck
from xds_server.protocol.wire import Response
from xds_server.resources.snapshot import ClientResource, Resource, no_endpoints, nothing
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import SharedResults, TypeState
    from xds_server.protocol.wire import Payload
    from xds_server.resources.earlier_streams import EarlierStreams
    from xds_server.resources.snapshot import Collection, Difference, Snapshot


class _Now(NamedTuple):
    """How it stands with a type of which there may be something to say."""

    wanted: Mapping[str, Resource]
    step: Difference
    gate: Gate
    removing: bool


class Responder(ABC):
    """A stream as far as it sends; `stream` says when, and what follows from answers."""

    def __init__(self, snapshot: Snapshot, shared: SharedResults, past: EarlierStreams) -> None:
        self._shared = shared
        self._past = past
        self._states: dict[str, TypeState] = {}
        """In the order in which they are served."""
        self._target = snapshot
        self._next: Snapshot | None = None
        self._phase = TransitionPhase.TRY
        self._patient = True
        """Whether to wait for what the client is to ask for next, or not to ask for any more."""
        self._warming: dict[str, str] = {}
        """Endpoints that sent clusters need, and the nonce with which they were sent, if they were."""
        self._handover: HandoverStep | None = None
        """How far the client is led to other clusters, if it is."""
        self._routes_before: Mapping[str, ClientResource] = NOTHING
        """The route tables of before."""
        self._handover_routes = nothing(ROUTES)
        """What some route tables are for now, instead of what they are to be in the end."""

    # What differs between the variants.

    @abstractmethod
    def _payload(
        self, state: TypeState, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        """The response, or None where there is nothing that could be said."""

    @abstractmethod
    def _whole(self, type_url: str) -> bool:
        """Whether each response has all resources of the type."""

    @abstractmethod
    def _one_at_a_time(self) -> bool:
        """Whether a response of a type waits until the client has answered the last one."""

    # What goes out.

    def _collection(self, type_url: str) -> Collection:
        collection = self._target.of_type(type_url)
        if self._next is not None and type_url in {ENDPOINTS, SECRET}:
            # Endpoints and certificates do not wait for the rest, unless they belong to clusters that change.
            newer = self._next.of_type(type_url)
            if newer is not collection and self._next.of_type(CLUSTER).version == self._target.of_type(CLUSTER).version:
                return self._shared.overlaid(collection, newer)
        if self._handover is not None and type_url == ROUTES and self._handover_routes.resources:
            return self._shared.overlaid(collection, self._handover_routes)
        return collection

    def _begin_handover(self, state: TypeState) -> None:
        """If routes are about to lead a client of gRPC to other clusters, name these first."""
        wanted = state.wanted(self._target.of_type(ROUTES))
        if state.nacked and not state.mended(wanted, wanted):
            return
        self._routes_before = state.known
        self._handover = HandoverStep.ADD_NEW_CLUSTERS
        self._handover_routes = self._shared.handover_tables(ahead, self._routes_before, wanted)
        if not self._handover_routes.resources:
            self._continue_handover(state)

    def _continue_handover(self, state: TypeState) -> None:
        """The client knows the clusters of this step."""
        if self._handover is HandoverStep.ADD_NEW_CLUSTERS:
            self._handover = HandoverStep.KEEP_OLD_CLUSTERS
            self._handover_routes = self._shared.handover_tables(
                behind, self._routes_before, state.wanted(self._target.of_type(ROUTES))
            )
            if self._handover_routes.resources:
                return
        self._end_handover()

    def _end_handover(self) -> None:
        self._handover, self._handover_routes, self._routes_before = None, nothing(ROUTES), NOTHING

    def _serve(self, state: TypeState, out: list[Response]) -> None:
        if self._one_at_a_time() and state.pending_acks:
            return
        if self._handover is not None and state.type_url == ROUTES and self._handover is HandoverStep.PENDING:
            self._begin_handover(state)
        collection = self._collection(state.type_url)
        wanted = state.wanted(collection)
        if state.known is wanted and not (state.owed or state.resend or state.answer_due or state.nacked):
            return
        removing = may_remove(state.type_url, self._states, self._target, self._phase, patient=self._patient)
        gate = gate_of(state.type_url, self._states, warming=bool(self._warming))
        if self._phase is TransitionPhase.TRY and gate is Gate.OPEN and state.type_url in STAGED:
            gate = Gate.BLOCKED_BY_NACK
        step = self._shared.difference(state.known, wanted)
        may_change = gate is Gate.OPEN or (self._phase is TransitionPhase.TRY and state.type_url == EXTENSION)
        if state.nacked and may_change and state.mended(wanted, wanted if removing else step.kept):
            state.try_again(whole=self._whole(state.type_url))
        if self._phase is TransitionPhase.TRY and state.type_url == EXTENSION:
            self._serve_trial(state, out)
        serve = self._serve_whole if self._whole(state.type_url) else self._serve_each
        serve(state, _Now(wanted, step, gate, removing), out)

    def _serve_trial(self, state: TypeState, out: list[Response]) -> None:
        """By itself, since what is refused together cannot be told apart."""
        found = trial(self._states, self._target)
        if found is None or state.pending_acks or TRIAL in state.nacked:
            return
        state.owed.discard(TRIAL)
        self._send(state, {TRIAL: found}, None, dict(sorted({**state.known, TRIAL: found}.items())), out)

    def _serve_whole(self, state: TypeState, now: _Now, out: list[Response]) -> None:
        """All or nothing: the response has everything that the client is to have, changed or not."""
        wanted, step, gate, removing = now
        after = wanted if removing else step.kept
        named = any(name in after for name in state.owed)
        asked = named or state.answer_due
        changes = bool(step.changed) or (removing and bool(step.removed))
        if gate is Gate.AWAITING_ACK or (gate is Gate.BLOCKED_BY_NACK and not named):
            return  # to say that there is nothing would take away what the client has from before
        if state.nacked and not asked:
            return
        if asked or changes:
            content: Mapping[str, ClientResource | None] = step.changed
            if gate is Gate.BLOCKED_BY_NACK or state.nacked:
                after = _as_it_is(state, after, held=gate is Gate.BLOCKED_BY_NACK)
                content = {name: item for name, item in after.items() if state.known.get(name) is not item}
            elif removing and step.removed:
                content = {**content, **dict.fromkeys(step.removed)}
            self._send(state, content, after, after, out)
        state.owed.clear()
        state.answer_due = state.answer_due and gate is Gate.BLOCKED_BY_NACK

    def _serve_each(self, state: TypeState, now: _Now, out: list[Response]) -> None:
        """Each resource for itself: what is owed, and what has changed."""
        wanted, step, gate, removing = now
        content: Mapping[str, ClientResource | None] = self._owed(state, now)
        after: Mapping[str, ClientResource] | None = None
        if gate is Gate.OPEN and not state.pending_acks:
            if state.nacked or (removing and step.removed):
                gone = step.removed if removing else ()
                content = {
                    **content,
                    **{name: item for name, item in step.changed.items() if name not in state.nacked},
                    **{name: None for name in gone if name not in state.nacked},
                }
                after = None if state.nacked else wanted
            else:
                # What most streams do most of the time, and then all with the same mappings.
                content = {**content, **step.changed} if content else step.changed
                after = step.kept
        answered = state.answer_due and gate is not Gate.AWAITING_ACK
        if not content and not answered:
            return
        if after is None:
            merged = {**state.known, **content}
            after = dict(sorted((name, item) for name, item in merged.items() if item is not None))
        self._send(state, content, None, after, out)
        state.answer_due = state.answer_due and not answered

    def _owed(self, state: TypeState, now: _Now) -> dict[str, ClientResource | None]:
        """What was asked for, or is needed again. While changes are held back, a client gets what it has."""
        wanted, _, gate, removing = now
        content: dict[str, ClientResource | None] = {}
        if gate is Gate.AWAITING_ACK:
            return content
        waiting: set[str] = set()
        for name in sorted(state.owed | state.resend if gate is Gate.OPEN else state.owed):
            held, new = state.known.get(name), wanted.get(name)
            if gate is Gate.BLOCKED_BY_NACK and held is None and new is not None and not self._leads_somewhere(new):
                waiting.add(name)
                continue
            stays = held is not None and (gate is Gate.BLOCKED_BY_NACK or (new is None and not removing))
            if not stays:
                content[name] = new
                state.unknown_names += new is None
            elif isinstance(held, Resource):
                content[name] = held
        state.owed = waiting
        if gate is Gate.OPEN:
            state.resend.clear()
        return content

    def _leads_somewhere(self, resource: Resource) -> bool:
        """Whether the client has the clusters that it uses, or does not ask for clusters."""
        clusters = self._states.get(CLUSTER)
        return clusters is None or all(
            reference.name in clusters.known for reference in resource.references if reference.type_url == CLUSTER
        )

    def _send(
        self,
        state: TypeState,
        content: Mapping[str, ClientResource | None],
        whole: Mapping[str, ClientResource] | None,
        after: Mapping[str, ClientResource],
        out: list[Response],
    ) -> None:
        """One response, or several where each resource stands for itself and one would be too large."""
        parts = (content,) if whole is not None or self._one_at_a_time() else self._shared.parts(content)
        for part in parts[:-1]:
            merged = {**state.known, **part}
            had = dict(sorted((name, item) for name, item in merged.items() if item is not None))
            self._send_part(state, part, None, had, out)
        self._send_part(state, parts[-1], whole, after, out)

    def _send_part(
        self,
        state: TypeState,
        content: Mapping[str, ClientResource | None],
        whole: Mapping[str, ClientResource] | None,
        after: Mapping[str, ClientResource],
        out: list[Response],
    ) -> None:
        version = self._collection(state.type_url).version if whole is None else self._shared.version(whole)
        said = content if whole is None else whole
        if state.type_url == ENDPOINTS and None in said.values():
            # An empty list is what a client is told, and nothing that it has. No list may have an empty name.
            said = {name: no_endpoints(name) if item is None and name else item for name, item in said.items()}
        resources = self._shared.in_order(said)
        removed = tuple(sorted(name for name, item in said.items() if item is None))
        payload = self._payload(state, version, resources, removed)
        if whole is not None and state.type_url == CLUSTER:
            self._past.hold(version, whole)
        if payload is None:
            state.known = after
            if not state.nacked:
                state.error = ""  # what was refused is gone, and no acknowledgement will come for that
            return
        before = state.known
        nonce = state.send(PendingAck(version, content, whole, before), after)
        out.append(Response(state.type_url, nonce, payload))
        self._warm(state, content, before, nonce)

    def _warm(
        self,
        state: TypeState,
        content: Mapping[str, ClientResource | None],
        before: Mapping[str, ClientResource],
        nonce: str,
    ) -> None:
        """New clusters wait for endpoints and new listeners for routes, even if the client has those already."""
        if state.type_url == ENDPOINTS:
            self._warming.update((name, nonce) for name in self._warming if name in content)
            return
        used_type = {CLUSTER: ENDPOINTS, LISTENER: ROUTES}.get(state.type_url)
        if used_type is None:
            return
        used = self._states.get(used_type)
        for name in self._shared.used(content, before, used_type):
            if used_type == ENDPOINTS:
                self._warming[name] = ""
            if used is not None and used.subscription.covers(name):
                used.resend.add(name)


def _as_it_is(state: TypeState, after: Mapping[str, ClientResource], *, held: bool) -> Mapping[str, ClientResource]:
    """What a whole response says while changes are held back or something was refused: what the client has, and what
    it asks for and has not."""
    names = after if state.answer_due and not held else state.owed
    asked = {name: after[name] for name in names if name in after and (name in state.owed or name not in state.nacked)}
    return dict(sorted(({**asked, **state.known} if held else {**state.known, **asked}).items()))
