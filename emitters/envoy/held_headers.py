"""Names of request headers that Envoy itself reads, and how they are kept out of its sight.

Envoy takes some request headers as orders: `x-envoy-retry-on` of any client would switch on retries, and others are
removed or overwritten on the way. To a service that talked without a proxy before, these are headers like any other.
So they travel under another name while they are inside the proxy: renamed before Envoy looks at them, and renamed back
when the request leaves. A policy that names one of them is given the name under which it travels.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from emitters.envoy.messages.typed import Json

HOLD: Final = "x-admc-hold-"
"""What a held header's name begins with, inside the proxy only."""

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
"""What the headers begin with by which filters tell a route table what it cannot see for itself."""


HOLDING: Final = f"{HOLD}on"
"""Present while headers are held: another attempt of a request that went out before has nothing left to undo."""

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


FRAMING: Final = "transfer-encoding"
"""Gone before any filter looks, and needed to know whether a request has a body."""


class Version(StrEnum):
    """A version of HTTP, as Envoy calls it. What comes in an older one goes on in HTTP/1.1."""

    ONE = "HTTP/1.1"
    TWO = "HTTP/2"


def hold() -> list[Json]:
    """Mutations that hide what Envoy would obey, before anything looks at a request. A name of ours that a client
    sends is not ours."""
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


def hold_answer() -> list[Json]:
    """Mutations that hide, from the choice whether to repeat a request, what would forbid it. A name of ours that a
    service sends is not ours."""
    held = HOLD + RATE_LIMITED
    return [{"remove": held}, _set(held, f"%RESP({RATE_LIMITED})%"), {"remove": RATE_LIMITED}]


def show_answer() -> Json:
    """A part of a route that undoes `hold_answer` once the choice is made. The held name goes away at the virtual host:
    a route removes headers before it adds any."""
    header = {"key": RATE_LIMITED, "value": f"%RESP({HOLD}{RATE_LIMITED})%"}
    return {"response_headers_to_add": [{"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}]}


def copying() -> list[Json]:
    """Mutations of a copy before Envoy adds its own address to it, as it does with whatever it sends by itself."""
    return [_set(COPIED, "1"), _copy(_FORWARDED_FOR, HOLD + _FORWARDED_FOR)]


def restore_copy() -> list[Json]:
    """Mutations that take that address out again; before `restore`."""
    return [{"remove": _FORWARDED_FOR}, _copy(HOLD + _FORWARDED_FOR, _FORWARDED_FOR)]


def tell_version() -> Json:
    """A mutation that tells the routes which version the caller speaks; after `hold`."""
    return _set(VERSION, "%PROTOCOL%")


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
