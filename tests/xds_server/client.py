"""A client that speaks plain gRPC: nothing in it knows the server's code."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import grpc
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECONDS = 60.0
"""After so long a response will not come, on any machine."""


class Client:
    """One stream of one variant."""

    def __init__(
        self,
        port: int,
        variant: str,
        node: str = "web",
        *,
        id: str = "web-1",  # noqa: A002
        agent: str = "test",
        credentials: Any = None,
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """With credentials over TLS, to a server that calls itself `localhost`."""
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
        where = f"127.0.0.1:{port}"
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(where, options=options)
        else:
            options.append(("grpc.ssl_target_name_override", "localhost"))
            self._channel = grpc.aio.secure_channel(where, credentials, options=options)
        stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(self._channel)
        self.variant = variant
        begin = stub.StreamAggregatedResources if variant == "sotw" else stub.DeltaAggregatedResources
        self.call: Any = begin(metadata=metadata)
        self._node = {"cluster": node, "id": id, "user_agent_name": agent}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()
        await self._channel.close()

    async def send(
        self,
        type_url: str,
        *names: str,
        nonce: str = "",
        error: str | None = None,
        has: Mapping[str, str] | None = None,
        ends: Sequence[str] = (),
    ) -> None:
        """A request; the first one says who this is. `has`: resources of an earlier stream, and their versions.
        `ends`: delta: names that the client does not subscribe to any more."""
        node, self._node = self._node, {}
        fields: dict[str, Any] = {"type_url": type_url, "response_nonce": nonce}
        if node:
            fields["node"] = node
        if error is not None:
            fields["error_detail"] = {"code": 3, "message": error}
        if self.variant == "sotw":
            version = " ".join((has or {}).values())
            await self.call.write(discovery_pb2.DiscoveryRequest(resource_names=names, version_info=version, **fields))
        else:
            fields["initial_resource_versions"] = has or {}
            fields["resource_names_unsubscribe"] = ends
            await self.call.write(discovery_pb2.DeltaDiscoveryRequest(resource_names_subscribe=names, **fields))

    async def read(self, seconds: float = SECONDS) -> Any:
        return await asyncio.wait_for(self.call.read(), seconds)

    async def status(self, seconds: float = SECONDS) -> tuple[grpc.StatusCode, str]:
        """How the stream ended."""
        return await asyncio.wait_for(self.call.code(), seconds), await self.call.details()

    async def nothing_comes(self, seconds: float = 0.15) -> bool:
        task = asyncio.ensure_future(self.call.read())
        done, _ = await asyncio.wait([task], timeout=seconds)
        self._late = task
        return not done

    async def late(self) -> Any:
        """What came after all."""
        return await asyncio.wait_for(self._late, SECONDS)


def names(response: Any) -> list[str]:
    """The names of a delta response's resources."""
    return [resource.name for resource in response.resources]
