"""Messages through the layers of policies: requests inwards, answers outwards."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

Fields = tuple[tuple[str, str], ...]
"""Headers in order, names in lower case."""


class Sent(NamedTuple):
    """A request as the client sends it, and when (seconds on any clock that does not go back).

    What it met was decided at some instant from `at` until it was `answered`.
    """

    source: str
    destination: str
    port: int
    method: str = "GET"
    path: str = "/"
    headers: Fields = ()
    body: bytes = b""
    at: float = 0.0
    answered: float = 0.0
    """Not before `at` where that was observed; otherwise the policies are assumed to take no time."""
    patience: float = inf
    """Seconds that the client waits for an answer."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request somewhere on its way."""

    method: str
    path: str
    headers: Fields
    body: bytes

    def values(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.headers if key == name)

    def without(self, name: str) -> Message:
        return replace(self, headers=without(self.headers, name))

    def plus(self, name: str, value: str) -> Message:
        return replace(self, headers=(*self.headers, (name, value)))


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer on its way back. `status` is an HTTP status or a gRPC code; of tcp 200, or None: closed."""

    status: int | None
    headers: Fields = ()
    by: str | None = None
    """The service that gave it; None where a policy did."""
    gave_up: bool = False
    """An attempt that timed out."""
    committed: bool = False
    """Of gRPC: its status comes after headers of its own, when no retry is possible any more."""
    nowhere: bool = False
    """Nothing was sent on: no endpoint was left."""
    encoding: str | None = None
    size: int = 0
    """Bytes of the body that the request asks for: a service's answer has at least this many."""
    failure: str = ""
    """How the service failed, where that is no answer of its own: `connect`, `refused` or `lost`. `status` is then that
    of an ADM. Without an ADM the client's connection breaks."""
    at_sender: bool = False
    """Of a failure: a policy that works at the sender alone was met, so the client surely has an ADM."""

    def without(self, name: str) -> Answer:
        return replace(self, headers=without(self.headers, name))

    def plus(self, name: str, value: str) -> Answer:
        return replace(self, headers=(*self.headers, (name, value)))


class Sighting(NamedTuple):
    """One request (tcp: one connection) as it reaches a service."""

    service: str
    port: int
    method: str
    path: str
    headers: Fields
    body: int


def without(headers: Fields, name: str) -> Fields:
    return tuple(pair for pair in headers if pair[0] != name)


def joined(headers: Fields) -> dict[str, str]:
    """Each header once: several lines of one name mean the same as one line with commas, or of cookies with `;`."""
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name, []).extend(part.strip() for part in re.split("[;,]" if name == "cookie" else ",", value))
    return {name: ",".join(values) for name, values in found.items()}
