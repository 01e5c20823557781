"""Request headers that Envoy itself obeys, and how they are hidden from it.

Some request headers change the behaviour of Envoy: `x-envoy-retry-on` of any client would switch on retries, and Envoy
removes or overwrites others. To a service without a proxy they are ordinary headers. So they have another name inside
the proxy: they are renamed before Envoy reads them, and renamed back when the request leaves. A policy about such a
header uses the name inside the proxy.
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
"""Request headers that Envoy 1.40 obeys, removes, sets or overwrites in this configuration, as trials have shown."""


ROUTE: Final = f"{HOLD}route-"
"""Prefix of the headers by which filters pass conditions to a route table that cannot evaluate them."""


HOLDING: Final = f"{HOLD}on"
"""A header that is present while headers are held, and absent in a second attempt, whose headers are restored
already."""

COPIED: Final = f"{HOLD}copied"
"""A header that is present in the copies of a mirror."""

VERSION: Final = f"{HOLD}version"
"""A header with the caller's version of HTTP, if a route depends on it."""

ANSWERS: Final = f"{HOLD}answers"
"""The filter of a cluster that hides `RATE_LIMITED`."""

RATE_LIMITED: Final = "x-envoy-ratelimited"
"""The only response header that Envoy 1.40 obeys in this configuration, as trials have shown: Envoy does not repeat a
request whose answer has it."""

_FORWARDED_FOR: Final = "x-forwarded-for"
_PROTO: Final = "x-forwarded-proto"


FRAMING: Final = "transfer-encoding"
"""A header that Envoy removes before the first filter, and that is needed to decide whether a request has a body."""


class Version(StrEnum):
    """A version of HTTP, by Envoy's name for it. Envoy forwards requests in an older version in HTTP/1.1."""

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
    """Mutations of a request that leaves: they undo `hold`, and remove the headers that Envoy has set itself."""
    mutations: list[Json] = []
    for header in HELD:
        mutations += [{"remove": header}, _copy(HOLD + header, header)]
    return [*mutations, _forget()]


def hold_again() -> list[Json]:
    """Mutations behind a filter that may write any header. They remove the headers that Envoy obeys, and those by which
    filters inform each other, if that filter wrote any. A request never leaves with the former: `restore` removes them,
    too."""
    names = (*(name for name in HELD if name != _PROTO), COPIED, HOLD + _FORWARDED_FOR, VERSION)
    # Without this header Envoy finds no route. Envoy itself sets this value for each request.
    set_ = [_set(_PROTO, "http"), _set(HOLDING, "1")]
    return [*({"remove": name} for name in names), {"remove_on_match": {"key_matcher": {"prefix": ROUTE}}}, *set_]


def hold_answer() -> list[Json]:
    """Mutations that hide the response header which prevents a repetition of the request. They also remove the hidden
    header if a service sends it."""
    held = HOLD + RATE_LIMITED
    return [{"remove": held}, _set(held, f"%RESP({RATE_LIMITED})%"), {"remove": RATE_LIMITED}]


def show_answer() -> Json:
    """A part of a route that undoes `hold_answer`, and removes the header that the ADM has set, after the router has
    decided. The virtual host removes the held name: a route removes headers before it adds any."""
    header = {"key": RATE_LIMITED, "value": f"%RESP({HOLD}{RATE_LIMITED})%"}
    added = {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {"response_headers_to_remove": [RATE_LIMITED], "response_headers_to_add": [added]}


def copying() -> list[Json]:
    """Mutations of a copy before Envoy adds its own address to it, as to all requests that it makes itself."""
    return [_set(COPIED, "1"), _copy(_FORWARDED_FOR, HOLD + _FORWARDED_FOR)]


def restore_copy() -> list[Json]:
    """Mutations that remove Envoy's address from a copy; before `restore`."""
    return [{"remove": _FORWARDED_FOR}, _copy(HOLD + _FORWARDED_FOR, _FORWARDED_FOR)]


def tell_version() -> Json:
    """A mutation that passes the caller's version of HTTP on to the routes; after `hold`."""
    return _set(VERSION, "%PROTOCOL%")


def one_upgrade(protocols: Sequence[str]) -> Json:
    """A mutation of the header `Upgrade` with several protocols: it keeps the first one, which the client prefers, if
    that is one of `protocols`. Envoy would take a list for one unknown protocol, and refuse the request."""
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
    """A mutation that sets a header; none if the value is empty."""
    header = {"key": name, "value": value}
    return {"append": {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD", "keep_empty_value": False}}


def inside(header: str) -> str:
    """The name under which a request header travels inside the proxy."""
    return HOLD + header if header in HELD else header
