"""The two variants of the protocol: the parser of requests, and the state machine that receives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from xds_server.protocol.delta import DeltaStream
from xds_server.protocol.sotw import SotwStream
from xds_server.protocol.wire import DeltaRequest, SotwRequest, parse_delta, parse_sotw

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from xds_server.protocol.stream import Stream

RequestT = TypeVar("RequestT", SotwRequest, DeltaRequest)

Metadata = tuple[tuple[str, str | bytes], ...]


class GrpcStream(Protocol):
    """The part of `grpc.aio.ServicerContext`, gRPC's context of one stream, that this server calls."""

    def read(self) -> Coroutine[asyncio.Future[None], None, bytes]: ...

    def write(self, message: bytes) -> Coroutine[asyncio.Future[None], None, None]: ...

    def peer(self) -> str: ...

    def auth_context(self) -> Mapping[str, tuple[bytes, ...]]: ...

    def invocation_metadata(self) -> Metadata | None: ...


@dataclass(frozen=True, slots=True)
class Variant(Generic[RequestT]):
    """State of the world or delta."""

    name: str
    parse: Callable[[bytes], RequestT]
    stream: type[Stream[RequestT]]


SOTW: Final = Variant("sotw", parse_sotw, SotwStream)
DELTA: Final = Variant("delta", parse_delta, DeltaStream)
