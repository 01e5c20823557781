"""Composes the responses of one type in a transition: owed names, changed resources, and removals that may be sent.

In state of the world, a response of listeners or clusters has all resources; any other response has single resources.
While a NACK blocks changes, a client that requests a name receives the version that the client already has. If the
client has no version, it receives the resource, unless the resource refers to clusters that the client does not have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from xds_server.protocol.cluster_handover import HandoverStep, with_new_clusters, with_old_clusters
from xds_server.protocol.sequencing import STAGED, Gate, TransitionPhase, gate_of, may_remove, trial
from xds_server.protocol.type_state import NOTHING, PendingAck
from xds_server.protocol.wire import Response
from xds_server.resources.snapshot import ClientResource, Collection, Resource, no_endpoints, nothing
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET, TRIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.shared_results import SharedResults
    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Payload
    from xds_server.resources.earlier_streams import EarlierStreams
    from xds_server.resources.snapshot import Difference, Snapshot


class _Step(NamedTuple):
    """The changes of one type that a client needs, and which of them may be sent now."""

    wanted: Mapping[str, Resource]
    difference: Difference
    gate: Gate
    removing: bool
    """Whether removals may be sent."""


class Responder(ABC):
    """Composes the responses of a stream. `Transition` adds phases and events, and `Stream` requests."""

    def __init__(self, snapshot: Snapshot, shared: SharedResults, past: EarlierStreams) -> None:
        self._shared = shared
        self._past = past
        self._states: dict[str, TypeState] = {}
        """The states by type URL, in the order in which responses are sent."""
        self._target = snapshot
        self._next: Snapshot | None = None
        self._wait_since = snapshot
        """The target with which the present wait for the client began."""
        self._phase = TransitionPhase.TRY
        self._patient = True
        """Whether the stream waits for the client to begin or to end subscriptions."""
        self._warming: dict[str, str] = {}
        """Names of endpoints that sent clusters need, with the nonce of the response of endpoints; empty before it is
        sent."""
        self._set_aside: dict[str, str] = {}
        """The same for superseded targets. A later target may have these clusters again, and they are not sent
        again."""
        self._handover: HandoverStep | None = None
        """The step of a handover between clusters; None without a handover."""
        self._routes_before: Mapping[str, ClientResource] = NOTHING
        """The route tables that the client had before the handover."""
        self._handover_routes = nothing(ROUTES)
        """The route tables of the present step, in place of those of the target."""

    # The differences between the variants.

    @abstractmethod
    def _payload(
        self, state: TypeState, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        """The response, or None if the variant cannot express it."""

    @abstractmethod
    def _whole(self, type_url: str) -> bool:
        """Whether each response has all resources of the type."""

    @abstractmethod
    def _one_at_a_time(self) -> bool:
        """Whether a response of a type waits for the ACK or NACK of the last one."""

    # Output.

    def _collection(self, type_url: str) -> Collection:
        collection = self._target.of_type(type_url)
        if self._next is not None and type_url in {ENDPOINTS, SECRET}:
            # Endpoints and secrets do not wait for the next transition, unless clusters change in it.
            newer = self._next.of_type(type_url)
            if newer is not collection and self._next.of_type(CLUSTER).version == self._target.of_type(CLUSTER).version:
                return self._shared.overlaid(collection, newer)
        if self._handover is not None and type_url == ROUTES and self._handover_routes.resources:
            return self._shared.overlaid(collection, self._handover_routes)
        return collection

    def _begin_handover(self, state: TypeState) -> None:
        """If new routes lead a client of gRPC to other clusters, first send route tables that name these."""
        wanted = state.wanted(self._target.of_type(ROUTES))
        if state.nacked and not state.may_retry(wanted, wanted):
            return
        interrupted = self._handover_routes.resources.keys() & state.known.keys()
        self._routes_before = state.known
        self._handover = HandoverStep.ADD_NEW_CLUSTERS
        self._handover_routes = self._shared.handover_tables(with_new_clusters, self._routes_before, wanted)
        if interrupted:
            # The client has not yet had the time to apply the clusters of these tables.
            kept = {name: item for name in interrupted if isinstance(item := state.known[name], Resource)}
            tables = {**kept, **self._handover_routes.resources}
            self._handover_routes = Collection(ROUTES, dict(sorted(tables.items())))
        if not self._handover_routes.resources:
            self._continue_handover(state)

    def _continue_handover(self, state: TypeState) -> None:
        """The client has applied the clusters of this step."""
        if self._handover is HandoverStep.ADD_NEW_CLUSTERS:
            self._handover = HandoverStep.KEEP_OLD_CLUSTERS
            tables = self._shared.handover_tables(
                with_old_clusters, self._routes_before, state.wanted(self._target.of_type(ROUTES))
            )
            if self._shared.difference(state.known, tables.resources).changed:
                self._handover_routes = tables
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
        if state.type_url == ENDPOINTS and self._clusters_unsent():
            gate = Gate.AWAITING_ACK
        difference = self._shared.difference(state.known, wanted)
        may_change = gate is Gate.OPEN or (self._phase is TransitionPhase.TRY and state.type_url == EXTENSION)
        if state.nacked and may_change and state.may_retry(wanted, wanted if removing else difference.kept):
            state.retry(whole=self._whole(state.type_url))
        if self._phase is TransitionPhase.TRY and state.type_url == EXTENSION:
            self._serve_trial(state, out)
        serve = self._serve_whole if self._whole(state.type_url) else self._serve_each
        serve(state, _Step(wanted, difference, gate, removing), out)

    def _clusters_unsent(self) -> bool:
        """Whether clusters of the target wait for the ACK of the clusters of a superseded target. The endpoints of the
        target come after its clusters."""
        clusters = self._states.get(CLUSTER)
        if clusters is None or not clusters.pending_acks:
            return False
        return bool(self._shared.difference(clusters.known, clusters.wanted(self._target.of_type(CLUSTER))).changed)

    def _serve_trial(self, state: TypeState, out: list[Response]) -> None:
        """Send the trial extension in a response of its own: a NACK refuses the whole response."""
        extension = trial(self._states, self._target)
        if extension is None or state.pending_acks or TRIAL in state.nacked:
            return
        state.owed.discard(TRIAL)
        self._send(state, {TRIAL: extension}, None, dict(sorted({**state.known, TRIAL: extension}.items())), out)

    def _serve_whole(self, state: TypeState, step: _Step, out: list[Response]) -> None:
        """Send one response with all resources that the client is to have, changed or not."""
        wanted, difference, gate, removing = step
        after = wanted if removing else difference.kept
        named = any(name in after for name in state.owed)
        requested = named or state.answer_due
        changes = bool(difference.changed) or (removing and bool(difference.removed))
        if gate is Gate.AWAITING_ACK or (gate is Gate.BLOCKED_BY_NACK and not named):
            return  # an empty response would remove the resources that the client has
        if state.nacked and not requested:
            return
        if requested or changes:
            content: Mapping[str, ClientResource | None] = difference.changed
            if gate is Gate.BLOCKED_BY_NACK or state.nacked:
                after = _unchanged(state, after, blocked=gate is Gate.BLOCKED_BY_NACK)
                content = {name: item for name, item in after.items() if state.known.get(name) is not item}
            elif removing and difference.removed:
                content = {**content, **dict.fromkeys(difference.removed)}
            self._send(state, content, after, after, out)
        state.owed.clear()
        state.answer_due = state.answer_due and gate is Gate.BLOCKED_BY_NACK

    def _serve_each(self, state: TypeState, step: _Step, out: list[Response]) -> None:
        """Send single resources: those of owed names, and those that have changed."""
        wanted, difference, gate, removing = step
        content: Mapping[str, ClientResource | None] = self._owed(state, step)
        after: Mapping[str, ClientResource] | None = None
        if gate is Gate.OPEN and not state.pending_acks:
            if state.nacked or (removing and difference.removed):
                gone = difference.removed if removing else ()
                content = {
                    **content,
                    **{name: item for name, item in difference.changed.items() if name not in state.nacked},
                    **{name: None for name in gone if name not in state.nacked},
                }
                after = None if state.nacked else wanted
            else:
                # The usual case, in which streams in step share all mappings.
                content = {**content, **difference.changed} if content else difference.changed
                after = difference.kept
        answered = state.answer_due and gate is not Gate.AWAITING_ACK
        if not content and not answered:
            return
        if after is None:
            merged = {**state.known, **content}
            after = dict(sorted((name, item) for name, item in merged.items() if item is not None))
        self._send(state, content, None, after, out)
        state.answer_due = state.answer_due and not answered

    def _owed(self, state: TypeState, step: _Step) -> dict[str, ClientResource | None]:
        """The content for owed names. While a NACK blocks changes, these are the versions that the client has."""
        wanted, _, gate, removing = step
        content: dict[str, ClientResource | None] = {}
        if gate is Gate.AWAITING_ACK:
            return content
        waiting: set[str] = set()
        for name in sorted(state.owed | state.resend if gate is Gate.OPEN else state.owed):
            held, new = state.known.get(name), wanted.get(name)
            if gate is Gate.BLOCKED_BY_NACK and held is None and new is not None and not self._has_clusters_of(new):
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

    def _has_clusters_of(self, resource: Resource) -> bool:
        """Whether the client has all clusters that the resource refers to, or does not subscribe to clusters."""
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
        """Send one response, or several if one would be too large and the variant allows several."""
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
        sent = content if whole is None else whole
        if state.type_url == ENDPOINTS and None in sent.values():
            # The client receives an empty list, and does not have it as a resource. No list may have an empty name.
            sent = {name: no_endpoints(name) if item is None and name else item for name, item in sent.items()}
        resources = self._shared.in_order(sent)
        removed = tuple(sorted(name for name, item in sent.items() if item is None))
        payload = self._payload(state, version, resources, removed)
        if whole is not None and state.type_url == CLUSTER:
            self._past.hold(version, whole)
        if payload is None:
            state.known = after
            if not state.nacked:
                state.error = ""  # the refused resource is gone, and no ACK will come for that
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
        """Let new clusters wait for endpoints, and new listeners for routes, even if the client has these already."""
        if state.type_url == ENDPOINTS:
            for names in (self._warming, self._set_aside):
                names.update((name, nonce) for name in names if name in content)
            return
        used_type = {CLUSTER: ENDPOINTS, LISTENER: ROUTES}.get(state.type_url)
        if used_type is None:
            return
        used = self._states.get(used_type)
        for name in self._shared.used(content, before, used_type):
            if used_type == ENDPOINTS:
                self._warming[name] = ""
                self._wait_since = self._target
            if used is not None and used.subscription.covers(name):
                used.resend.add(name)


def _unchanged(state: TypeState, after: Mapping[str, ClientResource], *, blocked: bool) -> Mapping[str, ClientResource]:
    """The content of a whole response while a NACK blocks changes: the resources that the client has, and those that
    it has requested and does not have."""
    names = after if state.answer_due and not blocked else state.owed
    requested = {
        name: after[name] for name in names if name in after and (name in state.owed or name not in state.nacked)
    }
    return dict(sorted(({**requested, **state.known} if blocked else {**state.known, **requested}).items()))
