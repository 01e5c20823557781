"""Request headers that Envoy would obey, and the headers by which the filters of an ADM inform each other.

Some request headers change the behaviour of Envoy: `x-envoy-retry-on` of any client would switch on retries, and Envoy
removes or overwrites others. To a service without a proxy they are ordinary headers. So the bootstrap of an ADM gives
Envoy's own headers another prefix than `x-envoy` (`CONTROL`), and the ADM accepts no header with that prefix. One such
header has no prefix, `x-forwarded-proto`: it has another name inside the proxy, and its own name again when the request
leaves. A policy about it uses the name inside the proxy.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emitters.envoy.messages.typed import Json

HOLD: Final = "x-admc-hold-"
"""Prefix of all headers that exist inside the proxy only."""

CONTROL: Final = f"{HOLD}envoy"
"""The prefix of the headers that Envoy obeys and sets, in place of `x-envoy`: `x-admc-hold-envoy-retry-on`."""

HELD: Final = "x-forwarded-proto"
"""The only request header without that prefix that Envoy 1.40 obeys or sets in this configuration, as trials have
shown."""


ROUTE: Final = f"{HOLD}route-"
"""Prefix of the headers by which filters pass conditions to a route table that cannot evaluate them."""


COPIED: Final = f"{HOLD}copied"
"""A header that is present in the copies of a mirror."""

VERSION: Final = f"{HOLD}version"
"""A header with the caller's version of HTTP, if a route depends on it."""

ANSWERS: Final = f"{HOLD}answers"
"""The filter of a cluster that removes `RATE_LIMITED`."""

RATE_LIMITED: Final = f"{CONTROL}-ratelimited"
"""The only response header that Envoy 1.40 obeys in this configuration, as trials have shown: Envoy does not repeat a
request whose answer has it."""

_FORWARDED_FOR: Final = "x-forwarded-for"


FRAMING: Final = "transfer-encoding"
"""A header that Envoy removes before the first filter, and that is needed to decide whether a request has a body."""


class Version(StrEnum):
    """A version of HTTP, by Envoy's name for it. Envoy forwards requests in an older version in HTTP/1.1."""

    ONE = "HTTP/1.1"
    TWO = "HTTP/2"


def hold() -> list[Json]:
    """Mutations before any filter: no client sends a header with our prefix, and Envoy sees no `HELD`."""
    return [_forget(), _copy(FRAMING, HOLD + FRAMING), _copy(HELD, HOLD + HELD), {"remove": HELD}]


def restore() -> Json:
    """A part of a route that undoes `hold`. Envoy's router applies it before it makes the copies of a mirror."""
    header = {"key": HELD, "value": f"%REQ({HOLD}{HELD})%"}
    added = {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    return {"request_headers_to_remove": [HELD], "request_headers_to_add": [added]}


def none_leaves(routing: Iterable[str]) -> Json:
    """A part of a virtual host that removes what is left inside a request: the router applies it after the part of the
    route. `routing` are the headers by which filters pass conditions to the route table."""
    return {"request_headers_to_remove": [HOLD + HELD, HOLD + FRAMING, VERSION, *routing]}


def restore_own() -> list[Json]:
    """Mutations of a request that the ADM makes itself, which passes no route. A filter may have given it the headers
    of a client's request, but for `HELD`."""
    return [_copy(HOLD + HELD, HELD), _forget()]


def hold_again() -> list[Json]:
    """Mutations behind a filter that may write any header. They remove the headers that Envoy obeys, and those by which
    filters inform each other, if that filter wrote any."""
    # Without `HELD` Envoy finds no route. Envoy itself sets this value for each request.
    set_ = _set(HELD, "http")
    return [{"remove": HELD}, _copy(HOLD + HELD, HELD), _forget(), _copy(HELD, HOLD + HELD), set_]


def clear_answer() -> list[Json]:
    """Mutations that remove the response header which would prevent a repetition of the request."""
    return [{"remove": RATE_LIMITED}]


def copying() -> list[Json]:
    """Mutations of a copy before Envoy adds its own address to it, as to all requests that it makes itself."""
    return [_set(COPIED, "1"), _copy(_FORWARDED_FOR, HOLD + _FORWARDED_FOR)]


def restore_copy() -> list[Json]:
    """Mutations that remove Envoy's address from a copy; before `restore_own`."""
    return [{"remove": _FORWARDED_FOR}, _copy(HOLD + _FORWARDED_FOR, _FORWARDED_FOR)]


def tell_version() -> Json:
    """A mutation that passes the caller's version of HTTP on to the routes; after `hold`."""
    return _set(VERSION, "%PROTOCOL%")


def _forget() -> Json:
    """A mutation that removes all headers with our prefix."""
    return {"remove_on_match": {"key_matcher": {"prefix": HOLD}}}


def _copy(source: str, target: str) -> Json:
    return _set(target, f"%REQ({source})%")


def _set(name: str, value: str) -> Json:
    """A mutation that sets a header; none if the value is empty."""
    header = {"key": name, "value": value}
    return {"append": {"header": header, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD", "keep_empty_value": False}}


def inside(header: str) -> str:
    """The name under which a request header travels inside the proxy."""
    return HOLD + header if header == HELD else header
