"""A receiver that is down, resets connections, refuses streams or answers with nonsense: with and without an ADM.

What a retry repeats and what an ejection counts must not depend on the receiver's ADM. So each word of `on` is tried
alone, beside a policy at the receiver and without one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dsl.program import Protocol, Side
from tests.fidelity.cases import Case, Written
from tests.fidelity.requests import Ask, answer_header, fails, status

if TYPE_CHECKING:
    from collections.abc import Iterator

WORDS: Final = (
    *("unavailable", "connect_failure", "reset", "refused_stream", "gateway_error", "server_error"),
    *("cancelled", "deadline_exceeded", "internal", "resource_exhausted"),
)
WIRES: Final = {"http": Protocol.HTTP, "h2c": Protocol.HTTP, "grpc": Protocol.GRPC}
LOOKS_DOWN: Final = answer_header("x-admc-failed", "upstream_reset_before_response_started{remote_connection_failure}")
"""A service that claims to be an ADM whose service is down."""
RECEIVER: Final = Written("request_count", "", side=Side.INGRESS)
DOWN: Final = (fails("down"), Ask(method="POST", body=b"x" * 100).besides(fails("down")))
EJECTED: Final = "consecutive_errors: 2, interval: 500ms, ejection: 60s, max_ejected: 100%"


def failures() -> list[Case]:
    """gRPC's own server cannot fail like this, so a gRPC service is only down here."""
    return list(_cases())


def failing(word: str, wire: str, *, behind: bool = True, down: bool = False) -> Case:
    """The case of one word."""
    policies = (Written("retry", f"attempts: 3, backoff: 1ms, on: [{word}]", side=Side.EGRESS),)
    place, there = ("down", DOWN) if down else ("up", _asks(wire, behind=behind))
    name = f"f_{word}_{wire}_{'behind' if behind else 'alone'}_{place}"
    return Case(name, WIRES[wire], (*policies, RECEIVER) if behind else policies, there, wire=_wire(wire))


def _cases() -> Iterator[Case]:
    for wire in WIRES:
        for behind in (True, False):
            for word in WORDS:
                yield failing(word, wire, behind=behind, down=True)
                if wire != "grpc":
                    yield failing(word, wire, behind=behind)
            yield from _ejections(wire, behind=behind)


def _ejections(wire: str, *, behind: bool) -> Iterator[Case]:
    """Two errors in a row put the only endpoint out; an answer in between begins the count anew."""
    cut = Written("outlier_detection", EJECTED, side=Side.EGRESS)
    policies = (cut, RECEIVER) if behind else (cut,)
    for way in ("down", *(("reset", "garble") if wire != "grpc" else ()), *(("refuse",) if wire == "h2c" else ())):
        well = () if way == "down" else (Ask(), fails(way))
        last = replace(fails("down") if way == "down" else Ask(), pause=0.4)
        name = f"f_ejected_{way}_{wire}_{'behind' if behind else 'alone'}"
        yield Case(name, WIRES[wire], policies, (fails(way), *well, fails(way), last), wire=_wire(wire))


def _asks(wire: str, *, behind: bool) -> tuple[Ask, ...]:
    found = [fails(way) for way in ("reset", "garble", *(("refuse",) if wire == "h2c" else ()))]
    found += [fails("reset", ""), fails("garble", "reset", ""), status(503), status(502, 200), Ask()]
    found += [Ask(method="POST", body=b"x" * 100).besides(fails("reset"))]
    # Without an ADM at the receiver, the sender believes it.
    return (*found, *((LOOKS_DOWN, LOOKS_DOWN.besides(status(503)), LOOKS_DOWN.besides(status(500))) if behind else ()))


def _wire(wire: str) -> str:
    return wire if wire == "h2c" else ""
