"""Delta: requests and responses have what is new and what is gone.

Changes of names count whatever the nonce says. A response is acknowledged or refused by its own nonce, so several of a
type may be on their way: answers to requests do not wait, and pushes wait for each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xds_server.protocol.stream import Stream
from xds_server.protocol.subscription import WILDCARD
from xds_server.resources.snapshot import Claimed, ClientResource
from xds_server.resources.types import WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import DeltaRequest, Payload, Response
    from xds_server.resources.snapshot import Resource


class DeltaStream(Stream):
    """One stream of `DeltaAggregatedResources`."""

    def receive(self, request: DeltaRequest) -> list[Response]:
        """Raises `ProtocolError` and `TooMuchError`."""
        state = self._state(request)
        if request.nonce:
            self._answered(state, request)
        first, state.requested = not state.requested, True
        if first and (request.initial or request.nonce):
            self._brought = True
        before = state.subscription
        if not (first or request.subscribe or request.unsubscribe):
            return self._advance()  # an answer, as most requests are
        after = before.changed(
            request.subscribe,
            request.unsubscribe,
            first=first,
            empty_is_all=self._empty_is_all and state.type_url in WHOLE,
        )
        if after != before:
            state.subscribed(after)
        if first and request.initial:
            self._brought_along(state, self._claims(state, request.initial))
            self._claimed += len(state.known)
        named = set(request.subscribe) - {WILDCARD}
        owed = {name for name in named if not first or name not in state.known}
        if after.wildcard:
            # Whether a name is part of everything, only the server can tell.
            owed |= (set(request.unsubscribe) & before.names) - named
            if not before.wildcard:
                state.answer_due = True
            elif WILDCARD in request.subscribe:
                owed |= self._target.of_type(state.type_url).resources.keys()
                state.answer_due = True
        self._resubscribed(state, owed)
        return self._advance()

    def _claims(self, state: TypeState, initial: Mapping[str, str]) -> dict[str, ClientResource]:
        """What the client has from an earlier stream."""
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
