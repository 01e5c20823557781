"""Requests that show the effect of a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from admc.testbed.echo import STATUS
from dsl.program import Protocol

if TYPE_CHECKING:
    from tests.fidelity.message import Fields

GRPC_PATH = "/echo.Echo/Call"
CODES = {200: 0, 403: 7, 404: 5, 500: 13, 503: 14}
"""HTTP status -> the gRPC status that a gRPC service answers instead."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request, and how to send it."""

    headers: Fields = ()
    method: str = "GET"
    path: str = "/a"
    body: bytes = b""
    source: str = "a"
    destination: str = "b"
    times: int = 1
    together: bool = False
    """All `times` at once; otherwise one after another."""
    pause: float = 0.0
    """Seconds to wait before."""

    def plus(self, *headers: tuple[str, str]) -> Ask:
        names = {name for name, _ in headers}
        kept = tuple(pair for pair in self.headers if pair[0] not in names)
        return replace(self, headers=(*kept, *headers))

    def besides(self, other: Ask) -> Ask:
        """Both in one request; where both set the same thing, this one counts."""
        plain = Ask()
        merged = other.plus(*self.headers)
        return replace(
            merged,
            method=other.method if self.method == plain.method else self.method,
            path=other.path if self.path == plain.path else self.path,
            body=self.body or other.body,
            source=other.source if self.source == plain.source else self.source,
            destination=other.destination if self.destination == plain.destination else self.destination,
        )

    def spoken(self, protocol: Protocol) -> Ask:
        """The same in a protocol: gRPC has one method, and tcp has no message."""
        if protocol is Protocol.GRPC:
            path = GRPC_PATH if self.path == Ask().path else self.path
            headers = tuple((name, _codes(value) if name == STATUS else value) for name, value in self.headers)
            return replace(self, method="POST", path=path, headers=headers)
        if protocol is Protocol.TCP:
            return replace(self, headers=(), method="", path="", body=b"")
        return self


def _codes(statuses: str) -> str:
    return ",".join(str(CODES.get(int(each), int(each))) for each in statuses.split(","))


def status(*each: int) -> Ask:
    return Ask(((STATUS, ",".join(map(str, each))),))


def delay(*each: float) -> Ask:
    return Ask((("x-echo-delay", ",".join(map(str, each))),))


def fails(*each: str) -> Ask:
    """See `x-echo-fail` of the echo services. `down` stands alone."""
    return Ask((("x-echo-fail", ",".join(each)),))


def header(name: str, value: str) -> Ask:
    return Ask(((name, value),))


def answer_header(name: str, value: str) -> Ask:
    return Ask((("x-echo-header", f"{name}={value}"),))
