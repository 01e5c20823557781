"""The client status service (CSDS) on the xDS port: which resources each client received, acknowledged and refused.

The service shows the configuration of all admitted clients, without the content of secrets. So the caller of `add`
decides which clients may read it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import grpc  # type: ignore[import-untyped]
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

from xds_server.protocol.wire import ClientNode
from xds_server.resources.snapshot import Resource
from xds_server.resources.types import SECRET
from xds_server.transport.client import Caller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from xds_server.protocol.type_state import TypeState
    from xds_server.transport.connection import AnyConnection
    from xds_server.transport.server import XdsServer

MAX_BYTES: Final = 64 << 20
"""The most bytes of resources in one answer."""
_PLAIN: Final = ("exact", "prefix", "suffix", "contains")


def add(
    grpc_server: Any,
    server: XdsServer,
    may_ask: Callable[[Caller], bool],
    shown: Callable[[bytes], bytes] = lambda body: body,
    shown_error: Callable[[str], str] = lambda error: error,
) -> None:
    """Offer the service on a gRPC server: `server.start(..., services=[lambda it: csds.add(it, server, may_ask)])`.

    `shown` returns the bytes of a resource, and `shown_error` the message of a NACK, without secrets.
    """
    servicer = _Servicer(server, may_ask, shown, shown_error)
    csds_pb2_grpc.add_ClientStatusDiscoveryServiceServicer_to_server(servicer, grpc_server)


class _Servicer:
    def __init__(
        self,
        server: XdsServer,
        may_ask: Callable[[Caller], bool],
        shown: Callable[[bytes], bytes],
        shown_error: Callable[[str], str],
    ) -> None:
        self._server = server
        self._may_ask = may_ask
        self._shown = shown
        self._shown_error = shown_error

    async def FetchClientStatus(self, request: Any, context: Any) -> Any:  # noqa: N802 - the name in the service
        return await self._answer(request, context)

    async def StreamClientStatus(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:  # noqa: N802
        # Checked before the first request, too: a client without the right could keep its connection open for ever.
        await self._admit(context)
        async for request in requests:
            yield await self._answer(request, context)

    async def _admit(self, context: Any) -> None:
        auth = {key: tuple(values) for key, values in context.auth_context().items()}
        metadata = tuple((key, value) for key, value in context.invocation_metadata() or ())
        if not self._may_ask(Caller(ClientNode("", "", ""), context.peer(), auth, metadata)):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "this client may not see the status of others")

    async def _answer(self, request: Any, context: Any) -> Any:
        await self._admit(context)  # for each request: the right may end during a long stream
        for matcher in request.node_matchers:
            pattern = matcher.node_id.WhichOneof("match_pattern")
            if matcher.node_metadatas or (matcher.HasField("node_id") and pattern not in _PLAIN):
                await context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    "nodes are matched by id alone: `exact`, `prefix`, `suffix` or `contains`",
                )
        response = csds_pb2.ClientStatusResponse()
        size = 0
        for connection in sorted(self._server.connections, key=lambda item: (item.group, item.node.id, item.peer)):
            if _matches(connection.node.id, request.node_matchers):
                config = response.config.add()
                size += self._fill(config, connection, bare=request.exclude_resource_contents)
                await asyncio.sleep(0)  # pushes go first
            if size > MAX_BYTES:
                await context.abort(
                    grpc.StatusCode.RESOURCE_EXHAUSTED,
                    f"more than {MAX_BYTES >> 20} MB: ask with `node_matchers`, or with `exclude_resource_contents`",
                )
        return response

    def _fill(self, config: Any, connection: AnyConnection, *, bare: bool) -> int:
        """Add the resources of one client; returns their size in bytes."""
        config.node.id, config.node.cluster = connection.node.id, connection.node.cluster
        config.node.user_agent_name = connection.node.user_agent
        machine = connection.machine
        size = 0
        for state, wanted in machine.type_states() if machine is not None else ():
            for name in sorted({*wanted, *state.known, *(name for name, version in state.nacked.items() if version)}):
                shown = config.generic_xds_configs.add(type_url=state.type_url, name=name)
                size += len(name) + len(state.type_url) + 64
                held = state.known.get(name)
                shown.config_status = _status(state, name, wanted)
                if held is not None:
                    shown.version_info = held.version
                # The status of a secret does not need its key.
                if isinstance(held, Resource) and not bare and state.type_url != SECRET:
                    shown.xds_config.type_url = held.type_url
                    shown.xds_config.value = self._shown(held.body)
                    size += len(held.body)
                if shown.config_status == csds_pb2.ConfigStatus.ERROR:
                    shown.error_state.details = self._shown_error(state.error)
                    shown.error_state.version_info = state.nacked[name] or ""
                    size += len(state.error)
        return size


def _matches(node: str, matchers: Iterable[Any]) -> bool:
    """Whether one of the matchers matches the node; without matchers all nodes match."""
    return all(False for _ in matchers) or any(_matches_one(node, matcher) for matcher in matchers)


def _matches_one(node: str, matcher: Any) -> bool:
    if not matcher.HasField("node_id"):
        return True
    wanted = matcher.node_id
    pattern = wanted.WhichOneof("match_pattern")
    text = getattr(wanted, pattern)
    if wanted.ignore_case:
        node, text = node.lower(), text.lower()
    if pattern == "exact":
        return bool(node == text)
    if pattern == "prefix":
        return node.startswith(text)
    return node.endswith(text) if pattern == "suffix" else text in node


def _status(state: TypeState, name: str, wanted: Mapping[str, Resource]) -> int:
    """The status of a resource: the client has the wanted version, another version or none, or has refused the
    resource."""
    status: Any = csds_pb2.ConfigStatus
    held, new = state.known.get(name), wanted.get(name)
    if state.nacked.get(name) is not None:
        return int(status.ERROR)
    if held is None:
        return int(status.NOT_SENT)
    if any(name in pending.content for pending in state.pending_acks.values()):
        return int(status.STALE)
    return int(status.SYNCED if new is not None and new.version == held.version else status.STALE)
