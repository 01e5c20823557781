"""Names of headers: which names are valid, and which headers a policy can read or write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Element, Verb
from dsl.values.placeholders import placeholder_in_header

if TYPE_CHECKING:
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.program import Effect, Kind
    from dsl.syntax import tree

ELEMENTS: Final = (Element.HEADER, Element.RESPONSE_HEADER)
RESERVED_PREFIX: Final = "x-admc-"
"""Prefix of the headers that ADMs use. ADMs remove such headers from requests of clients."""
# Headers about one connection: Envoy removes them before any filter runs. It keeps `te: trailers`, and
# `upgrade` for upgrades only, which a match may select. A policy that writes `upgrade` would break the connection.
UNSEEN: Final = frozenset(("connection", "keep-alive", "proxy-connection", "te", "transfer-encoding"))
HOP_BY_HOP: Final = UNSEEN | {"upgrade"}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")


class Unwritable(NamedTuple):
    """The reason why a policy cannot write a header, with advice."""

    cause: str
    hint: str
    code: str = "ADM214"


_CALL: Final = Unwritable("gRPC sends the status of a call in it", "let the service set it, or use `fault_abort`")
_UNWRITABLE: Final = {
    "host": Unwritable(
        "a proxy keeps it as the authority of the request, which no filter may change",
        "write another header, such as `x-forwarded-host`",
        "ADM208",
    ),
    "content-length": Unwritable(
        "it defines where a body ends, and a receiver would read the remainder as another message",
        "leave it to the proxies, which know the length of the body",
    ),
    "trailer": Unwritable(
        "it announces fields after the body, and a policy writes no such fields", "write another header"
    ),
    "expect": Unwritable(
        "it asks the server whether to send a body, which the client has then already sent", "leave it to the client"
    ),
    "http2-settings": Unwritable("it is about one connection", "write another header"),
    "content-encoding": Unwritable(
        "it names the encoding of the body, and the policy does not encode the body",
        "use `compression`, which encodes the body too",
    ),
    "grpc-status": _CALL,
    "grpc-message": _CALL,
    "grpc-status-details-bin": _CALL,
    "grpc-encoding": Unwritable(
        "it names the encoding of the messages, and the policy does not encode them", "write another header"
    ),
}
_IN_REQUESTS: Final = {
    "content-type": Unwritable(
        "a proxy decides by it whether a call is gRPC, and so how to reject it",
        "write another header, such as `accept`",
    )
}
_IN_RESPONSES: Final = {
    "date": Unwritable("proxies write it if it is missing", "write another header, such as `last-modified`")
}
_OF_PROXIES: Final = Unwritable(
    "headers that begin with `proxy-` are for the client's first proxy alone",
    "write another header, such as `authorization`",
)
_OF_GRPC: Final = Unwritable("a response of gRPC has the content type `application/grpc`", "leave it to the service")


def header_name(value: tree.String, diagnostics: Diagnostics, hidden: frozenset[str] = UNSEEN) -> str | None:
    """A header's name in lower case, or None after an error. `hidden` are the headers that a policy cannot use."""
    name = value.value.lower()
    if name in hidden:
        diagnostics.error(
            "ADM208",
            f"the header `{name}` is about one connection, and no policy can use it",
            value.span,
            cause="a proxy ends that connection, and removes such headers before any filter runs",
            hint="choose another header",
        )
        return None
    if name.startswith(RESERVED_PREFIX) and _NAME.fullmatch(name):
        diagnostics.error(
            "ADM214",
            f"the header `{name[:60]}` is reserved for ADMs",
            value.span,
            cause=f"headers that begin with `{RESERVED_PREFIX}` carry data between ADMs",
            hint="choose another header",
        )
        return None
    if _NAME.fullmatch(value.value):
        wrong = placeholder_in_header(name)
        if wrong is None:
            return name
        diagnostics.error("ADM222", wrong.message, value.span, cause=wrong.cause, hint=wrong.hint)
        return None
    pseudo = {":path": "path", ":method": "method", ":authority": "host"}.get(name)
    hint = f"write `{pseudo}` in a `when`" if pseudo else "letters, digits and `-`, without blanks or `:`"
    diagnostics.error("ADM208", f"`{value.value[:60]}` is not the name of a header", value.span, hint=hint)
    return None


def written(kind: Kind) -> frozenset[Element]:
    """The headers that a kind writes: of requests, of responses, or both (also if it declares no effects)."""
    if kind.effects is None:
        return frozenset(ELEMENTS)
    return frozenset(_element(effect) for effect in kind.effects if effect.verb is Verb.WRITES) & frozenset(ELEMENTS)


def _element(effect: Effect) -> Element:
    assert effect.element is not None  # noqa: S101 - a write has an element
    return effect.element


def unwritable(name: str, where: frozenset[Element], *, grpc: bool = False) -> Unwritable | None:
    """Why a policy cannot write a header of the messages `where`; None if it can. `grpc`: the scope includes gRPC."""
    if not where:
        return None
    if name in _UNWRITABLE:
        return _UNWRITABLE[name]
    if name.startswith("proxy-"):
        return _OF_PROXIES
    if Element.HEADER in where and name in _IN_REQUESTS:
        return _IN_REQUESTS[name]
    if Element.RESPONSE_HEADER in where and name in _IN_RESPONSES:
        return _IN_RESPONSES[name]
    return _OF_GRPC if grpc and name == "content-type" else None
