"""The protocol of a port, by its `appProtocol` or by the beginning of its name."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Protocol(StrEnum):
    HTTP = "http"
    HTTP2 = "http2"
    TCP = "tcp"
    TLS = "tls"
    UDP = "udp"
    DETECTED = "detected"
    """The proxy looks at the first bytes of a connection."""

    @property
    def may_be_http(self) -> bool:
        return self in (Protocol.HTTP, Protocol.HTTP2, Protocol.DETECTED)

    @property
    def may_be_tcp(self) -> bool:
        return self in (Protocol.TCP, Protocol.DETECTED)


_NAMES: Final = {
    "tcp": Protocol.TCP,
    "udp": Protocol.UDP,
    "grpc": Protocol.HTTP2,
    "grpc-web": Protocol.HTTP2,
    "http": Protocol.HTTP,
    "http_proxy": Protocol.HTTP,
    "http2": Protocol.HTTP2,
    "https": Protocol.TLS,
    "tls": Protocol.TLS,
    "mongo": Protocol.TCP,
    "redis": Protocol.TCP,
    "mysql": Protocol.TCP,
}
_OF_KUBERNETES: Final = {
    "kubernetes.io/h2c": Protocol.HTTP2,
    "kubernetes.io/ws": Protocol.HTTP,
    "kubernetes.io/wss": Protocol.TLS,
}
_WELL_KNOWN: Final = frozenset((25, 53, 3306, 27017))
"""Ports of protocols in which the server speaks first."""
_GRPC_WEB: Final = "grpc-web"


def named_protocol(name: str) -> Protocol:
    """The protocol that a ServiceEntry names."""
    return _NAMES.get(name.lower(), Protocol.DETECTED)


def protocol_of(number: int, name: str, transport: str = "TCP", application: str | None = None) -> Protocol:
    """The protocol of a Service's port."""
    if transport == "UDP":
        return Protocol.UDP
    if application in _OF_KUBERNETES:
        return _OF_KUBERNETES[application]
    text = (name if application is None else application).lower()
    if text.startswith(_GRPC_WEB):
        return Protocol.HTTP2
    named = _NAMES.get(text.partition("-")[0], Protocol.DETECTED)
    return Protocol.TCP if named is Protocol.DETECTED and number in _WELL_KNOWN else named
