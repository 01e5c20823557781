"""The least server that an emitted `bootstrap-xds.yaml` can ask: one answer to each subscription, as they come."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.any_pb2 import Any as AnyMessage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from emitters.envoy import AdmResources

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"


class Ads:
    """Serves the resources of one ADM and keeps what it refuses, and who it says it is."""

    def __init__(
        self,
        resources: AdmResources,
        port: int = 0,
        credentials: grpc.ServerCredentials | None = None,
        withheld: Collection[str] = (),
    ) -> None:
        """With `credentials`, over TLS. `withheld` kinds of resources (`listeners`, ...) are not sent."""
        self.refused: list[str] = []
        self.node: tuple[str, str] | None = None
        self.tokens: list[str] = []
        self._withheld: set[str] = set()
        self._known: dict[str, dict[str, AnyMessage]] = {}
        for kind in ("listeners", "routes", "clusters", "endpoints", "extensions"):
            for name, item in getattr(resources, kind).items():
                packed = AnyMessage()
                packed.Pack(item)
                self._known.setdefault(packed.type_url, {})[name] = packed
                if kind in withheld:
                    self._withheld.add(packed.type_url)
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.stream_stream_rpc_method_handler(
            self._answer,
            request_deserializer=discovery_pb2.DeltaDiscoveryRequest.FromString,
            response_serializer=discovery_pb2.DeltaDiscoveryResponse.SerializeToString,
        )
        methods = {"DeltaAggregatedResources": handler}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, methods)])
        address = f"127.0.0.1:{port}"
        self.port = (
            self._server.add_insecure_port(address)
            if credentials is None
            else self._server.add_secure_port(address, credentials)
        )

    def __enter__(self) -> Ads:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait(5)

    def _answer(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        self.tokens += [str(value) for name, value in context.invocation_metadata() if name == "authorization"]
        for request in requests:
            if request.node.id:
                self.node = (request.node.cluster, request.node.id)
            if request.HasField("error_detail"):
                self.refused.append(request.error_detail.message)
            names = list(request.resource_names_subscribe)
            if request.response_nonce and not names:
                continue
            if request.type_url in self._withheld:
                continue
            known = self._known.get(request.type_url, {})
            if not names or names == ["*"]:
                names = list(known)
            found = [
                discovery_pb2.Resource(name=name, version="1", resource=known[name]) for name in names if name in known
            ]
            yield discovery_pb2.DeltaDiscoveryResponse(type_url=request.type_url, resources=found, nonce="1")
