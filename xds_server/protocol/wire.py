"""Parses requests into plain data, and makes responses as bytes that streams share.

A protobuf message may be written as its fields, one after another. So a response is composed from the bytes of its
resources, which are serialised once. Only the nonce differs between streams, and streams in step have the same nonce.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from xds_server.resources.encoding import bytes_field, text_field

if TYPE_CHECKING:
    from collections.abc import Mapping

    from xds_server.resources.snapshot import Resource

CACHED_BYTES: Final = 32 << 20
"""The memory for responses that are cached for the next stream."""
ENTRY_BYTES: Final = 512
"""The bytes that a cached response takes, besides its own bytes with and without the last nonce."""
ITEM_BYTES: Final = 768
"""The bytes for each resource or name in a cached response. The cache may be the last to hold them."""

SMALL: Final = 512
REMEMBERED: Final = 256
"""So many parsed requests of at most so many bytes are cached."""

MAX_NAME: Final = 1024
"""The most characters of a name in a subscription, of a type URL, and of each field of a node."""
MAX_NAMES: Final = 20_000
"""The most names in one request, and on one stream. A request with more names is not read. A response to this many
names takes a third of a second, during which the server handles no other request."""
MAX_CLAIMS: Final = 100_000
"""The most resources that a client may claim to have on one stream. With a wildcard, these may exceed its names."""

# Field numbers of the messages in envoy/service/discovery/v3/discovery.proto; both responses agree on most.
_VERSION, _RESOURCES, _TYPE_URL, _NONCE, _REMOVED = 1, 2, 4, 5, 6
_ANY_TYPE, _ANY_VALUE = 1, 2
_ITEM_VERSION, _ITEM_RESOURCE, _ITEM_NAME = 1, 2, 3


class ProtocolError(Exception):
    """A client breaks the protocol, as the message describes. Its stream ends."""


class TooMuchError(Exception):
    """A client exceeds the bounds of one stream. Its stream ends."""


class ClientNode(NamedTuple):
    """The node in a client's first request. It is a claim of the client, and no proof."""

    id: str
    cluster: str
    user_agent: str


@dataclass(frozen=True, slots=True)
class Request:
    """The fields of requests of both variants."""

    type_url: str
    nonce: str = ""
    error: str | None = None
    """The message of a NACK of the response with this nonce; None in an ACK."""
    node: ClientNode | None = None


@dataclass(frozen=True, slots=True)
class SotwRequest(Request):
    names: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class DeltaRequest(Request):
    subscribe: tuple[str, ...] = ()
    unsubscribe: tuple[str, ...] = ()
    initial: Mapping[str, str] | None = None


def parse_sotw(data: bytes) -> SotwRequest:
    """Raises `ProtocolError` and `TooMuchError`."""
    return _sotw_again(data) if len(data) <= SMALL else _sotw(data)


def parse_delta(data: bytes) -> DeltaRequest:
    """Raises `ProtocolError` and `TooMuchError`."""
    return _delta_again(data) if len(data) <= SMALL else _delta(data)


def _sotw(data: bytes) -> SotwRequest:
    message = _parsed(discovery_pb2.DiscoveryRequest, data)
    return SotwRequest(*_common(message), names=_names(message.resource_names), version=message.version_info)


def _delta(data: bytes) -> DeltaRequest:
    message = _parsed(discovery_pb2.DeltaDiscoveryRequest, data)
    return DeltaRequest(
        *_common(message),
        subscribe=_names(message.resource_names_subscribe),
        unsubscribe=_names(message.resource_names_unsubscribe),
        initial=_versions(message.initial_resource_versions),
    )


# Streams in step send ACKs with the same bytes. A look-up takes a tenth of the time of parsing.
_sotw_again = lru_cache(maxsize=REMEMBERED)(_sotw)
_delta_again = lru_cache(maxsize=REMEMBERED)(_delta)


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise ProtocolError("the request is no valid message") from None


def _names(values: Any) -> tuple[str, ...]:
    _not_too_many(values, MAX_NAMES)
    return tuple([_short(name, "a name") for name in values])


def _versions(values: Any) -> dict[str, str]:
    _not_too_many(values, MAX_CLAIMS)
    return {_short(name, "a name"): _short(version, "a version") for name, version in values.items()}


def _not_too_many(values: Any, limit: int) -> None:
    if len(values) > limit:
        raise TooMuchError(f"more than {limit:,} names in one request")


def _short(text: str, what: str) -> str:
    """Check a text that is kept, logged or shown."""
    if len(text) > MAX_NAME:
        raise TooMuchError(f"{what} of more than {MAX_NAME:,} characters")
    return text


def _common(message: Any) -> tuple[str, str, str | None, ClientNode | None]:
    error = None
    if message.HasField("error_detail"):
        error = message.error_detail.message or f"code {message.error_detail.code}"
    node = None
    if message.HasField("node"):
        node = ClientNode(
            _short(message.node.id, "a node's id"),
            _short(message.node.cluster, "a node's cluster"),
            _short(message.node.user_agent_name, "a user agent"),
        )
    return _short(message.type_url, "a type"), message.response_nonce, error, node


class Payload:
    """The bytes of a response without its nonce."""

    __slots__ = ("_last", "body", "cost")

    def __init__(self, body: bytes, items: int) -> None:
        self.body = body
        self.cost = 2 * len(body) + items * ITEM_BYTES + ENTRY_BYTES
        """The memory that the payload takes in the cache."""
        self._last = ("", b"")

    def with_nonce(self, nonce: str) -> bytes:
        """The whole response. Streams in step share the same bytes."""
        if self._last[0] != nonce:
            self._last = (nonce, self.body + text_field(_NONCE, nonce))
        return self._last[1]


class Response(NamedTuple):
    """One response to one client."""

    type_url: str
    nonce: str
    payload: Payload

    @property
    def data(self) -> bytes:
        return self.payload.with_nonce(self.nonce)


_Key = tuple[str, str, "tuple[Resource, ...]", tuple[str, ...] | None]
"""Type URL, version, resources and removed names of a response; None in state of the world."""


class PayloadCache:
    """Makes each payload once for all streams that need it at about the same time."""

    def __init__(self, cached_bytes: int = CACHED_BYTES) -> None:
        self._limit = cached_bytes
        self._size = 0
        self._payloads: OrderedDict[_Key, Payload] = OrderedDict()

    def sotw(self, type_url: str, version: str, resources: tuple[Resource, ...]) -> Payload:
        key = (type_url, version, resources, None)
        return self._payloads_get(key) or self._keep(
            key,
            len(resources),
            b"".join(
                [text_field(_VERSION, version), text_field(_TYPE_URL, type_url)]
                + [bytes_field(_RESOURCES, _any(resource)) for resource in resources]
            ),
        )

    def delta(self, type_url: str, version: str, resources: tuple[Resource, ...], removed: tuple[str, ...]) -> Payload:
        key = (type_url, version, resources, removed)
        return self._payloads_get(key) or self._keep(
            key,
            len(resources) + len(removed),
            b"".join(
                [text_field(_VERSION, version), text_field(_TYPE_URL, type_url)]
                + [bytes_field(_RESOURCES, _item(resource)) for resource in resources]
                + [text_field(_REMOVED, name) for name in removed]
            ),
        )

    def _payloads_get(self, key: _Key) -> Payload | None:
        payload = self._payloads.get(key)
        if payload is not None:
            self._payloads.move_to_end(key)
        return payload

    def _keep(self, key: _Key, items: int, body: bytes) -> Payload:
        payload = self._payloads[key] = Payload(body, items)
        self._size += payload.cost
        while self._size > self._limit and len(self._payloads) > 1:
            _, dropped = self._payloads.popitem(last=False)
            self._size -= dropped.cost
        return payload


def _any(resource: Resource) -> bytes:
    return text_field(_ANY_TYPE, resource.type_url) + bytes_field(_ANY_VALUE, resource.body)


def _item(resource: Resource) -> bytes:
    return (
        text_field(_ITEM_NAME, resource.name)
        + text_field(_ITEM_VERSION, resource.version)
        + bytes_field(_ITEM_RESOURCE, _any(resource))
    )
