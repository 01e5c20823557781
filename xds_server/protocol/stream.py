"""The state machine of one stream: it receives requests and snapshots, and returns responses. It has no I/O or clock.

`Responder` composes responses, `Transition` decides what may be sent when, and `Stream` handles requests.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from xds_server.protocol.sequencing import (
    STAGED,
    TransitionPhase,
    in_order,
)
from xds_server.protocol.shared_results import SharedResults
from xds_server.protocol.stream_bounds import check
from xds_server.protocol.transition import Transition
from xds_server.protocol.type_state import PendingAck, TypeState, TypeStatus
from xds_server.protocol.wire import ProtocolError, Request, Response, TooMuchError
from xds_server.resources.ack_events import (
    Acked,
    Nacked,
    TypeAcked,
)
from xds_server.resources.earlier_streams import EarlierStreams
from xds_server.resources.snapshot import ClientResource, Resource
from xds_server.resources.types import CLUSTER, ENDPOINTS, LISTENER, ROUTES, USED_BY_LISTENERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xds_server.resources.snapshot import Snapshot

RequestT = TypeVar("RequestT", bound=Request)
MAX_TYPES: Final = 32
MAX_ERROR: Final = 4096
"""The most characters of the message of a NACK that are kept."""


class Stream(Transition, Generic[RequestT]):
    """The parts that both variants of the protocol share. `sotw` and `delta` add the differences."""

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
        super().__init__(snapshot, shared, past or EarlierStreams(), empty_is_all=empty_is_all)
        self._claimed = 0
        """The number of resources that the client claimed to have from an earlier stream."""
        self.names = 0
        """The number of names of all types to which the client subscribes or that it claimed to have."""
        self._had_resources = False
        """Whether the client has claimed resources of any type from before this stream."""
        self._clusters_version = ""
        """State of the world: the version of the clusters that the client has."""

    # Input.

    @abstractmethod
    def receive(self, request: RequestT) -> list[Response]:
        """Handle a request. Raises `ProtocolError` and `TooMuchError`."""

    def leave(self) -> None:
        """Handle the end of the stream. Its client may return, and name the version of the clusters that it received
        last."""
        clusters = self._states.get(CLUSTER)
        sent = (
            [pending.version for pending in clusters.pending_acks.values() if pending.whole is not None]
            if clusters
            else []
        )
        for version in [self._clusters_version] * bool(self._clusters_version) + sent:
            self._past.leave(version)
        self._clusters_version = ""

    # Observations.

    def type_states(self) -> list[tuple[TypeState, Mapping[str, Resource]]]:
        """The state of each requested type, with the resources that the client is to have in the end."""
        latest = self._next or self._target
        return [(state, state.wanted(latest.of_type(state.type_url))) for state in self._states.values()]

    def type_state(self, type_url: str) -> TypeState | None:
        """The state of one type; None if it was never requested."""
        return self._states.get(type_url)

    def unreferenced(self, snapshot: Snapshot) -> dict[str, frozenset[str]]:
        """The route tables and extensions, by type URL, to which the client subscribes although no resource of the
        snapshot refers to them. Types without such names are left out."""
        unreferenced = {}
        for kind in USED_BY_LISTENERS:
            state = self._states.get(kind)
            if state is not None and (names := state.unreferenced(snapshot)):
                unreferenced[kind] = names
        return unreferenced

    def held_version(self, type_url: str, name: str) -> str | None:
        """The version of a resource that the client has; None if it has none."""
        state = self._states.get(type_url)
        held = None if state is None else state.known.get(name)
        return None if held is None else held.version

    @property
    def fresh(self) -> bool:
        """Whether the client had no resources when the stream began, so that its process has just been started.

        This is known after the first request for listeners. A claim in a request of any type makes it false.
        """
        state = self._states.get(LISTENER)
        return state is not None and state.requested and not self._had_resources

    @property
    def refuses(self) -> bool:
        """Whether the client has refused a resource, and has neither acknowledged another version of it since nor ended
        its subscription."""
        return any(state.error for state in self._states.values())

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
            response = state.ack(request.nonce)
            if response is not None:
                self._events.append(Acked(state.type_url, response.version))
        else:
            response = state.nack(request.nonce, request.error[:MAX_ERROR])
            if response is not None:
                source = self._source(state.type_url, state.nacked)
                self._events.append(Nacked(state.type_url, response.version, state.error, source, state.nacked))
        if response is None:
            return
        if state.type_url == CLUSTER and response.whole is not None:
            self._replace_clusters(response.version, refused=request.error is not None)
        if state.type_url in STAGED and not (state.pending_acks or state.nacked):
            self._note_type_acked(state)
        if state.type_url == ENDPOINTS:
            for names in (self._warming, self._set_aside):
                for name in [name for name, nonce in names.items() if nonce == request.nonce]:
                    del names[name]
        elif state.type_url == CLUSTER and request.error is None:
            self._forget_endpoints(response)
        elif state.type_url == CLUSTER:
            self._warming, self._set_aside = {}, {}
        elif state.type_url == LISTENER and request.error is not None and ROUTES in self._states:
            self._states[ROUTES].resend.clear()

    def _replace_clusters(self, version: str, *, refused: bool) -> None:
        """The client has acknowledged or refused a whole response of clusters."""
        if refused:
            self._past.drop(version)
            return
        if self._clusters_version:
            self._past.drop(self._clusters_version)
        self._clusters_version = version

    def _note_type_acked(self, state: TypeState) -> None:
        """Report the type if the client has acknowledged all of it, and this was not yet known of any client."""
        wanted = state.wanted(self._target.of_type(state.type_url))
        if self._past.last_acked.resources(state.type_url) is not wanted and not (
            state.known is not wanted and self._shared.difference(state.known, wanted).changed
        ):
            self._events.append(TypeAcked(self._target, state.type_url, wanted))

    def _forget_endpoints(self, response: PendingAck) -> None:
        """Forget the endpoints of removed clusters. The client removes them with the clusters, without a response."""
        endpoints = self._states.get(ENDPOINTS)
        if endpoints is None:
            return
        gone = set()
        for name, item in response.content.items():
            if item is None:
                before = response.before.get(name)
                gone.add(name)
                if isinstance(before, Resource):
                    gone.update(used.name for used in before.references if used.type_url == ENDPOINTS)
        gone -= self._target.of_type(ENDPOINTS).resources.keys()
        if not gone.isdisjoint(endpoints.known):
            endpoints.known = {name: item for name, item in endpoints.known.items() if name not in gone}

    def _resume(self, state: TypeState, known: Mapping[str, ClientResource]) -> None:
        """Note the resources that the client has from an earlier stream. The transition may have to continue."""
        state.known = known
        self._returned = True
        self._phase = min(self._phase, TransitionPhase.MAKE)

    def _resubscribed(self, state: TypeState, owed: Iterable[str]) -> None:
        """Handle a change of the subscription. `owed` are names to be sent, whether the client has them or not."""
        state.owed.update(owed)
        if state.type_url == ENDPOINTS:
            state.resend.update(filter(state.subscription.covers, self._unsent_endpoints()))
        self.names = self._claimed + check(self._states.values(), new_names=bool(state.owed), claimed=self._claimed)
