"""Request headers that Envoy itself obeys, and how they are held back from it.

Some request headers change what Envoy does: `x-envoy-retry-on` of any client would switch on retries, and Envoy removes
or overwrites others. To a service without a proxy they are headers like any other. So they have another name while they
are inside the proxy: they are renamed before Envoy reads them, and renamed back when the request leaves. A policy that
names one of them gets the name inside the proxy.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from emitters.envoy.messages.typed import Json

HOLD: Final = "x-admc-hold-"
"""Prefix of a held header's name, inside the proxy only."""

HELD: Final = (
    "x-envoy-expected-rq-timeout-ms",
    "x-envoy-force-trace",
    "x-envoy-hedge-on-per-try-timeout",
    "x-envoy-internal",
    "x-envoy-ip-tags",
    "x-envoy-max-retries",
    "x-envoy-original-url",
    "x-envoy-retriable-header-names",
    "x-envoy-retriable-status-codes",
    "x-envoy-retry-grpc-on",
    "x-envoy-retry-on",
    "x-envoy-upstream-alt-stat-name",
    "x-envoy-upstream-rq-per-try-timeout-ms",
    "x-envoy-upstream-rq-timeout-alt-response",
    "x-envoy-upstream-rq-timeout-ms",
    "x-envoy-upstream-stream-duration-ms",
    "x-forwarded-proto",
)
"""Request headers that Envoy 1.40 obeys, removes, sets or overwrites as it is configured here, by trial."""


ROUTE: Final = f"{HOLD}route-"
"""Prefix of the headers by which filters pass conditions to a route table that cannot evaluate them."""


HOLDING: Final = f"{HOLD}on"
"""Present while headers are held. A second attempt of a request has nothing left to undo."""

COPIED: Final = f"{HOLD}copied"
"""Present in the copies of a mirror."""

VERSION: Final = f"{HOLD}version"
"""The version of HTTP that the caller speaks, where a route depends on it."""

ANSWERS: Final = f"{HOLD}answers"
"""The filter of a cluster that hides `RATE_LIMITED`."""

RATE_LIMITED: Final = "x-envoy-ratelimited"
"""The one response header that Envoy 1.40 obeys as it is configured here, by trial: it repeats no request that was
answered with it."""

_FORWARDED_FOR: Final = "x-forwarded-for"
_PROTO: Final = "x-forwarded-proto"


FRAMING: Final = "transfer-encoding"
"""Removed before the first filter, and needed to decide whether a request has a body."""


class Version(StrEnum):
    """A version of HTTP, as Envoy calls it. What comes in an older one goes on in HTTP/1.1."""

    ONE = "HTTP/1.1"
    TWO = "HTTP/2"


def hold() -> list[Json]:
    """Mutations that hide the headers that Envoy would obey, before any filter. A header with our prefix that a client
    sends is removed."""
    mutations: list[Json] = [_forget(), _set(HOLDING, "1"), _copy(FRAMING, HOLD + FRAMING)]
    for header in HELD:
        mutations += [_copy(header, HOLD + header), {"remove": header}]
    return mutations


def restore() -> list[Json]:
    """Mutations that undo `hold`, and whatever Envoy set by itself, when a request leaves."""
    mutations: list[Json] = []
    for header in HELD:
        mutations += [{"remove": header}, _copy(HOLD + header, header)]
    return [*mutations, _forget()]


def hold_again() -> list[Json]:
    """Mutations behind a filter that may write any header: what it wrote under the names that Envoy obeys, or that
    filters tell each other by, goes. A request leaves without the former in any case, since `restore` removes them."""
    names = (*(name for name in HELD if name != _PROTO), COPIED, HOLD + _FORWARDED_FOR, VERSION)
    # Without this header Envoy finds no route; it sets the same for each request.
    set_ = [_set(_PROTO, "http"), _set(HOLDING, "1")]
    return [*({"remove": name} for name in names), {"remove_on_match": {"key_matcher": {"prefix": ROUTE}}}, *set_]


def hold_answer() -> list[Json]:
    """Mutations that hide the response header which forbids to repeat a request. A header with our prefix that a
    service sends is removed."""
    held = HOLD + RATE_LIMITED
    return [{"remove": held}, _set(held, f"%RESP({RATE_LIMITED})%"), {"remove": RATE_LIMITED}]


def show_answer() -> Json:
    """A part of a route that undoes `hold_answer`, and whatever the ADM set itself, after the router has decided. The
    virtual host removes the held name: a route removes headers before it adds any."""
    header = {"key": RATE_LIMITED, "value": f"%RESP({HOLD}{RATE_LIMITED})%"}
    added = {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {"response_headers_to_remove": [RATE_LIMITED], "response_headers_to_add": [added]}


def copying() -> list[Json]:
    """Mutations of a copy before Envoy adds its own address to it, as it does with whatever it sends by itself."""
    return [_set(COPIED, "1"), _copy(_FORWARDED_FOR, HOLD + _FORWARDED_FOR)]


def restore_copy() -> list[Json]:
    """Mutations that take that address out again; before `restore`."""
    return [{"remove": _FORWARDED_FOR}, _copy(HOLD + _FORWARDED_FOR, _FORWARDED_FOR)]


def tell_version() -> Json:
    """A mutation that tells the routes which version the caller speaks; after `hold`."""
    return _set(VERSION, "%PROTOCOL%")


def one_upgrade(protocols: Sequence[str]) -> Json:
    """A mutation by which a client that offers several of these protocols offers the first, which it prefers: Envoy
    takes a list for one protocol that it does not know, and refuses the request."""
    offered = "request.headers['upgrade']"
    first = "''"
    for name in reversed(protocols):
        listed = name.replace(".", "[.]")
        first = f"{offered}.matches('(?i)^{listed},') ? '{name}' : {first}"
    return _set("upgrade", f"%CEL({first})%")


def _forget() -> Json:
    return {"remove_on_match": {"key_matcher": {"prefix": HOLD}}}


def _copy(source: str, target: str) -> Json:
    return _set(target, f"%REQ({source})%")


def _set(name: str, value: str) -> Json:
    """Nothing where the value is empty."""
    header = {"key": name, "value": value}
    return {"append": {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD", "keep_empty_value": False}}


def inside(header: str) -> str:
    """The name under which a request header travels inside the proxy."""
    return HOLD + header if header in HELD else header
