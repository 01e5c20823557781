"""The delta variant: requests and responses contain only changes.

A request changes the subscription, whatever its nonce is. An ACK or NACK names the nonce of its response, so several
responses of one type may be pending: a response to a request does not wait for an ACK, but a push waits for the ACK of
the push before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xds_server.protocol.stream import Stream
from xds_server.protocol.subscription import WILDCARD
from xds_server.protocol.wire import DeltaRequest
from xds_server.resources.snapshot import Claimed, ClientResource
from xds_server.resources.types import WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Payload, Response
    from xds_server.resources.snapshot import Resource


class DeltaStream(Stream[DeltaRequest]):
    """One stream of `DeltaAggregatedResources`."""

    def receive(self, request: DeltaRequest) -> list[Response]:
        """Raises `ProtocolError` and `TooMuchError`."""
        state = self._state(request)
        if request.nonce:
            self._answered(state, request)
        first, state.requested = not state.requested, True
        if first and (request.initial or request.nonce):
            self._had_resources = True
        before = state.subscription
        if not (first or request.subscribe or request.unsubscribe):
            return self._advance()  # only an ACK or NACK, as most requests
        after = before.changed(
            request.subscribe,
            request.unsubscribe,
            first=first,
            empty_is_all=self._empty_is_all and state.type_url in WHOLE,
        )
        if after != before:
            state.subscribe(after)
        if first and request.initial:
            self._resume(state, self._claims(state, request.initial))
            self._claimed += len(state.known)
        named = set(request.subscribe) - {WILDCARD}
        owed = {name for name in named if not first or name not in state.known}
        if after.wildcard:
            # The client does not know whether the wildcard covers a name.
            owed |= (set(request.unsubscribe) & before.names) - named
            if not before.wildcard:
                state.answer_due = True
            elif WILDCARD in request.subscribe:
                owed |= self._target.of_type(state.type_url).resources.keys()
                state.answer_due = True
        self._resubscribed(state, owed)
        return self._advance()

    def _claims(self, state: TypeState, initial: Mapping[str, str]) -> dict[str, ClientResource]:
        """The resources that the client has from an earlier stream."""
        there = self._target.of_type(state.type_url).resources
        return {
            name: there[name] if name in there and there[name].version == version else Claimed(version)
            for name, version in sorted(initial.items())
            if state.subscription.covers(name)
        }

    def _payload(
        self, state: TypeState, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        return self._shared.payloads.delta(state.type_url, version, resources, removed)

    def _whole(self, type_url: str) -> bool:
        return False

    def _one_at_a_time(self) -> bool:
        return False
