"""Names of headers: which there are, and which of them a policy can look at or write."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Element, Verb

if TYPE_CHECKING:
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.program import Effect, Kind
    from dsl.syntax import tree

ELEMENTS: Final = (Element.HEADER, Element.RESPONSE_HEADER)
OWN: Final = "x-admc-"
"""What the names begin with that ADMs use; what a client sends under one of them is taken away."""
# Headers that speak of one connection: Envoy takes them out before any filter sees them. Of `te` it leaves `trailers`,
# and `upgrade` is there for upgrades only, where a match may ask for it; to write one would break the connection.
UNSEEN: Final = frozenset(("connection", "keep-alive", "proxy-connection", "te", "transfer-encoding"))
HOP_BY_HOP: Final = UNSEEN | {"upgrade"}
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")


class Why(NamedTuple):
    """Why a header cannot be written, and what to do instead."""

    cause: str
    hint: str
    code: str = "ADM214"


_CALL: Final = Why("gRPC puts the outcome of a call into it", "let the service say it, or use `fault_abort`")
_UNWRITABLE: Final = {
    "host": Why(
        "a proxy keeps it as the authority of the request, which no filter may change",
        "write another header, such as `x-forwarded-host`",
        "ADM208",
    ),
    "content-length": Why(
        "it says where a body ends, and what lies behind that would be read as another message",
        "leave it to the proxies, which know how long a body is",
    ),
    "trailer": Why("it announces fields behind the body, and a policy writes none", "write another header"),
    "expect": Why("it asks whether to send a body, which is on its way by then", "leave it to the client"),
    "http2-settings": Why("it is about one connection", "write another header"),
    "content-encoding": Why(
        "it says how a body is encoded, and the body stays as it is", "use `compression`, which encodes the body too"
    ),
    "grpc-status": _CALL,
    "grpc-message": _CALL,
    "grpc-status-details-bin": _CALL,
    "grpc-encoding": Why("it says how messages are encoded, and they stay as they are", "write another header"),
}
_IN_REQUESTS: Final = {
    "content-type": Why(
        "a proxy takes from it whether a call is gRPC, and so in which form to refuse it",
        "write another header, such as `accept`",
    )
}
_IN_RESPONSES: Final = {
    "date": Why("a proxy writes it wherever it is missing", "write another header, such as `last-modified`")
}
_OF_PROXIES: Final = Why(
    "names that begin with `proxy-` are for the proxy next to the client alone",
    "write another header, such as `authorization`",
)
_OF_GRPC: Final = Why("what is not `application/grpc` is no answer of gRPC", "leave it to the service")


def header_name(value: tree.String, diagnostics: Diagnostics, hidden: frozenset[str] = UNSEEN) -> str | None:
    """A header's name in lower case, or None after an error; `hidden` are those that no policy can work on."""
    name = value.value.lower()
    if name in hidden:
        diagnostics.error(
            "ADM208",
            f"the header `{name}` is about one connection, and no policy can work on it",
            value.span,
            cause="a proxy ends that connection, and takes such headers out before any filter sees them",
            hint="choose another header",
        )
        return None
    if name.startswith(OWN) and _NAME.fullmatch(name):
        diagnostics.error(
            "ADM214",
            f"the header `{name[:60]}` has a name that ADMs keep for themselves",
            value.span,
            cause=f"what begins with `{OWN}` is what ADMs tell themselves and each other",
            hint="choose another header",
        )
        return None
    if _NAME.fullmatch(value.value):
        return name
    pseudo = {":path": "path", ":method": "method", ":authority": 'header("host")'}.get(name)
    hint = f"write `{pseudo}` in a `when`" if pseudo else "letters, digits and `-`, without blanks or `:`"
    diagnostics.error("ADM208", f"`{value.value[:60]}` is not the name of a header", value.span, hint=hint)
    return None


def written(kind: Kind) -> frozenset[Element]:
    """Whether a kind writes headers of requests, of responses, or both: as one does of which nothing is known."""
    if kind.effects is None:
        return frozenset(ELEMENTS)
    return frozenset(_element(effect) for effect in kind.effects if effect.verb is Verb.WRITES) & frozenset(ELEMENTS)


def _element(effect: Effect) -> Element:
    assert effect.element is not None  # noqa: S101 - a write is of something
    return effect.element


def unwritable(name: str, where: frozenset[Element], *, grpc: bool = False) -> Why | None:
    """Why a header cannot be written there; None where it can. `grpc`: on a call of gRPC, too."""
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
