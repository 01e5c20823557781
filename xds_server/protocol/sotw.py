"""State of the world: every request has all names, and every response of listeners or clusters has all resources.

A request whose nonce is not the last nonce of its type was written before the client received the last response. The
server ignores this request: the client will acknowledge the last response, and then repeats all names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from xds_server.protocol.stream import Stream
from xds_server.protocol.wire import SotwRequest
from xds_server.resources.snapshot import Claimed
from xds_server.resources.types import CLUSTER, LISTENER, WHOLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.protocol.type_state import TypeState
    from xds_server.protocol.wire import Payload, Response
    from xds_server.resources.snapshot import ClientResource, Resource

UNKNOWN: Final = Claimed("")
"""A resource that the client has in an unknown version."""


class SotwStream(Stream[SotwRequest]):
    """One stream of `StreamAggregatedResources`."""

    def receive(self, request: SotwRequest) -> list[Response]:
        """Raises `ProtocolError` and `TooMuchError`."""
        state = self._state(request)
        if not state.requested and (request.version or request.nonce):
            self._had_resources = True
        if state.sequence and request.nonce != state.last_nonce and (request.nonce or state.pending_acks):
            state.subscription = state.subscription.ignoring(request.names)
            return []
        if state.pending_acks:
            self._answered(state, request)
        before = state.subscription
        after = before.replaced(request.names, empty_is_all=self._empty_is_all and state.type_url in WHOLE)
        first, state.requested = not state.requested, True
        if after != before:
            state.subscribe(after)
        if first and request.version:
            self._resume(state, self._brings(state, request.version))
        state.answer_due |= after.wildcard and not before.wildcard
        self._resubscribed(state, after.names - before.names)
        return self._advance()

    def _brings(self, state: TypeState, version: str) -> Mapping[str, ClientResource]:
        """The resources that the client has from an earlier stream.

        All resources are sent again. Resources that the snapshot does not have stay until they are no longer used:
        whole responses repeat them, and other responses leave them out. Earlier versions of clusters count too,
        because a client that refuses the new version continues to use the earlier one.
        """
        there = state.wanted(self._target.of_type(state.type_url))
        if state.type_url == LISTENER:
            # Listeners that are gone are removed at once. Otherwise a client that subscribes by name would keep them.
            return dict.fromkeys(sorted(state.subscription.names - there.keys()), UNKNOWN)
        if state.type_url != CLUSTER:
            return dict.fromkeys(sorted(state.subscription.names), UNKNOWN)
        same = self._shared.version(there) == version
        clusters = there if same else self._past.clusters(version)
        if same or self._past.has(version):
            self._past.hold(version, clusters)
            self._clusters_version = version
        return {name: item for name, item in clusters.items() if state.subscription.covers(name)}

    def _payload(
        self, state: TypeState, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]
    ) -> Payload | None:
        if not resources and not self._whole(state.type_url) and not state.answer_due:
            return None  # state of the world cannot say that names do not exist
        return self._shared.payloads.sotw(state.type_url, version, resources)

    def _whole(self, type_url: str) -> bool:
        return type_url in WHOLE

    def _one_at_a_time(self) -> bool:
        return True
