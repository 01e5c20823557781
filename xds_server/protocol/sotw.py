"""State of the world: every request has all names, and every response of listeners or clusters has all of them.

A request with a nonce that is not the last one of its type was written before the client saw the last response. It is
ignored: the client answers that response, too, and then with all names that it wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.protocol.stream import Stream
from xds_server.resources.snapshot import Claimed
from xds_server.resources.types import CLUSTER, LISTENER, WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Payload, Response, SotwRequest
    from xds_server.resources.snapshot import ClientResource, Resource

UNKNOWN: Final = Claimed("")
"""Something that the client has, and nobody knows what."""


class SotwStream(Stream):
    """One stream of `StreamAggregatedResources`."""

    def receive(self, request: SotwRequest) -> list[Response]:
        """Raises `ProtocolError` and `TooMuchError`."""
        state = self._state(request)
        if not state.requested and (request.version or request.nonce):
            self._brought = True
        if state.sequence and request.nonce != state.last_nonce and (request.nonce or state.pending_acks):
            state.subscription = state.subscription.heard(request.names)
            return []
        if state.pending_acks:
            self._answered(state, request)
        before = state.subscription
        after = before.replaced(request.names, empty_is_all=self._empty_is_all and state.type_url in WHOLE)
        first, state.requested = not state.requested, True
        if after != before:
            state.subscribed(after)
        if first and request.version:
            self._brought_along(state, self._brings(state, request.version))
        state.answer_due |= after.wildcard and not before.wildcard
        self._resubscribed(state, after.names - before.names)
        return self._advance()

    def _brings(self, state: TypeState, version: str) -> Mapping[str, ClientResource]:
        """What the client has from an earlier stream.

        All is sent again. What is gone stays until nothing uses it any more: whole responses have to have it, and the
        others to be silent about it. Earlier versions of clusters count too: a client that refuses what comes instead
        of them goes on using them.
        """
        there = state.wanted(self._target.of_type(state.type_url))
        if state.type_url == LISTENER:
            # Those that are gone go at once. Who asks by name would else hear nothing of them, and keep them.
            return dict.fromkeys(sorted(state.subscription.names - there.keys()), UNKNOWN)
        if state.type_url != CLUSTER:
            return dict.fromkeys(sorted(state.subscription.names), UNKNOWN)
        same = self._shared.version(there) == version
        clusters = there if same else self._past.clusters(version)
        if same or self._past.knows(version):
            self._past.hold(version, clusters)
            self._has = version
        return {name: item for name, item in clusters.items() if state.subscription.covers(name)}

    def _payload(
        self, state: TypeState, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        if not resources and not self._whole(state.type_url) and not state.answer_due:
            return None  # names that do not exist: there is no way to say so
        return self._shared.payloads.sotw(state.type_url, version, resources)

    def _whole(self, type_url: str) -> bool:
        return type_url in WHOLE

    def _one_at_a_time(self) -> bool:
        return True
