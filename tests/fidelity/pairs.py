"""Two kinds on one call, in both declared orders: whatever sides they stand on, the first one is met first.

Every pair that does not commute is tried on all four sides, of which the compiler has to refuse those that would turn
the order round; of pairs that commute, those that are turned round by their sides.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Protocol, Side
from tests.fidelity.cases import Case, Written, load, text
from tests.fidelity.order import commute
from tests.fidelity.requests import Ask, answer_header, delay, fails, header, status
from tests.fidelity.samples import BODY, CORS, JWT, ORIGIN, PREFLIGHT, TOKEN, ZIPPED

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dsl.program import Kind, Policy


class Half(NamedTuple):
    """One policy of a pair, and requests that it does something to: the first is put together with the other's."""

    kind: str
    arguments: str
    asks: tuple[Ask, ...] = (Ask(),)
    when: str = ""
    scope: str = "a"
    always: tuple[tuple[str, str], ...] = ()
    """Headers that every other request needs to get past it."""


SLOW: Final = delay(0.6)
FLAKY: Final = status(503, 200)
LOSSY: Final = fails("reset", "")
IN: Final = header("x-in", "client")
OUT: Final = answer_header("x-out", "server")
OLD: Final = Ask(path="/old/a")
LONG: Final = Ask(method="POST", body=BODY)
SLOWED: Final = header("x-slow", "1")
ABORTED: Final = header("x-abort", "1")

HALVES: Final = (
    Half("rate_limit", "requests: 4, per: 1h", (Ask(times=5),)),
    Half("connection_rate_limit", "connections: 3, per: 1h", (Ask(times=4),)),
    Half("circuit_breaking", "max_requests: 4, max_connections: 8"),
    Half("buffer_limit", "max: 50B", (LONG,)),
    Half("allow", "callers: [a]", (Ask(source="c"),), scope="{a, c}"),
    Half("deny", "", (header("x-deny", "1"),), when='when header("x-deny") == "1"'),
    Half("normal_paths", "", (Ask(path="/./old/a"), Ask(path="/old/%61"))),
    Half("jwt", JWT, (header("authorization", "Bearer wrong"),), always=(TOKEN,)),
    Half("external_authorization", "service: judge", (Ask(), delay(0.5))),
    Half("retry", "attempts: 3, backoff: 1ms, on: [gateway_error]", (FLAKY, LOSSY, status(503), delay(0.6, 0))),
    Half("timeout", "after: 300ms", (SLOW, delay(0.6, 0), status(503).plus(("x-echo-delay", "0.2")))),
    Half(
        "outlier_detection",
        "consecutive_errors: 2, interval: 500ms, ejection: 60s, max_ejected: 100%",
        (FLAKY, status(503), status(503), replace(Ask(), pause=0.4)),
    ),
    Half("load_balancing", 'policy: ring_hash, hash: "x-in"', (IN,)),
    Half("mirror", "to: TARGET"),
    Half("split", "to: TARGET, percent: 50%", (Ask(times=4), status(503))),
    Half("set_request_header", 'name: "x-in", value: "set"', (IN,)),
    Half("add_request_header", 'name: "x-in", value: "added"', (IN,)),
    Half("remove_request_header", 'name: "x-in"', (IN,)),
    Half("set_response_header", 'name: "x-out", value: "set"', (OUT,)),
    Half("add_response_header", 'name: "x-out", value: "added"', (OUT,)),
    Half("remove_response_header", 'name: "x-out"', (OUT,)),
    Half("rewrite_path", 'prefix: "/old", to: "/new"', (OLD,)),
    Half("cors", CORS, (header("origin", ORIGIN), PREFLIGHT)),
    Half("compression", "", (ZIPPED,)),
    Half("fault_delay", "delay: 450ms", (SLOWED,), when='when header("x-slow") == "1"'),
    Half("fault_abort", "status: 503", (ABORTED,), when='when header("x-abort") == "1"'),
    Half("access_log", ""),
    Half("request_count", ""),
    Half("tap", 'directory: "TAPS"'),
    Half("lua", 'script: "filter.lua"', (OUT,)),
    Half("wasm", 'module: "filter.wasm"', (IN,)),
    Half("mine", 'value: "1"'),
)
"""One of each kind, so that what one does the other can tell: they write the same header, wait for the same answer."""

TURNED: Final = (Side.INGRESS, Side.EGRESS)

READERS: Final = (
    Half("set_request_header", 'name: "x-found", value: "1"', when='when header("x-in") == "set"'),
    Half("request_count", "", (Ask(path="/new/a"),), when='when path starts_with "/new"'),
    Half("rate_limit", "requests: 1, per: 1h", (Ask(), Ask()), when='when header("x-in") == "set"'),
    Half("deny", "", when='when header("x-in") == "set"'),
    Half("mirror", "to: TARGET", when='when header("x-in") == "set"'),
    Half("timeout", "after: 300ms", (SLOW,), when='when header("x-in") == "set"'),
    Half("retry", "attempts: 2, backoff: 1ms", (FLAKY,), when='when header("x-in") == "set"'),
    Half("rewrite_path", 'prefix: "/new", to: "/newer"', when='when path == "/new/a"'),
    Half("deny", "", when='when path == "/new/a"'),
    Half("split", "to: TARGET, percent: 100%", when='when path == "/new/a"'),
    Half("access_log", "", when='when not (header("x-in") == "set" or method == "POST")'),
)
"""Policies whose `when` looks at what others write."""
WRITERS: Final = (
    Half("set_request_header", 'name: "x-in", value: "set"', (IN,)),
    Half("remove_request_header", 'name: "x-in"', (header("x-in", "set"),)),
    Half("rewrite_path", 'prefix: "/old", to: "/new"', (OLD, Ask(path="/new/a"))),
)


def asks(first: Half, second: Half, protocol: Protocol) -> tuple[Ask, ...]:
    """Both in one request, first of all: nothing has been used up then. Then each alone."""
    own = [*first.asks, *second.asks]
    mixed = [replace(one.besides(other), times=1) for one, other in product(first.asks[:2], second.asks[:2])]
    always = (*first.always, *second.always)
    found: dict[Ask, None] = {}
    for ask in [*mixed, *own, Ask()]:
        kept = tuple(pair for pair in always if not any(pair[0] == name for name, _ in ask.headers))
        found[replace(ask, headers=(*ask.headers, *kept))] = None
    if protocol is Protocol.TCP:
        return tuple(ask for ask in found if not ask.headers and not ask.body) or (Ask(),)
    return tuple(ask for ask in found if not set_aside(ask, (first.kind, second.kind), protocol)) or (Ask(),)


def set_aside(ask: Ask, kinds: Collection[str], protocol: Protocol) -> bool:
    """What is known to differ for one kind alone (`known`) would hide what pairs of it show."""
    given = {name for name, _ in ask.headers}
    if protocol is not Protocol.GRPC:
        return False
    # Its helper speaks http here, and would understand a gRPC status as one of http.
    late_check = "external_authorization" in kinds and bool(given & {"x-echo-delay", "x-echo-status"})
    late_status = "retry" in kinds and {"x-echo-header", "x-echo-status"} <= given
    # And gRPC's own server cannot lose a connection.
    return late_check or late_status or "x-echo-fail" in given


def pairs() -> list[Case]:
    """Pairs that do not commute, in both orders, on every pair of sides; and commuting ones, turned round."""
    found = []
    for drafted, commuting in _drafts():
        kinds = [_kinds()[policy.kind] for policy in drafted.policies]
        for sides in product(*map(_sides, kinds)):
            if commuting and (sides != TURNED or _sampled_out(drafted)):
                continue
            policies = tuple(policy._replace(side=side) for policy, side in zip(drafted.policies, sides, strict=True))
            name = f"{drafted.name}_{''.join(side.value[0] for side in sides)}"
            found.append(replace(drafted, name=name, policies=policies))
    return found


def shared() -> list[Case]:
    """Pairs that do not commute, on whatever sides the compiler or the textbook puts them; a third of those of gRPC."""
    return [
        drafted
        for drafted, commuting in _drafts()
        if not commuting and not (drafted.protocol is Protocol.GRPC and _sampled_out(drafted))
    ]


def _sampled_out(case: Case) -> bool:
    return zlib.crc32(" ".join(policy.kind for policy in case.policies).encode()) % 3 != 0


@cache
def _kinds() -> Mapping[str, Kind]:
    return load(text([])).kinds


@cache
def _policies(protocol: Protocol) -> Mapping[Half, Policy]:
    """Each half as the language understands it: its effects say what commutes."""
    fitting = [
        half for half in dict.fromkeys((*HALVES, *READERS, *WRITERS)) if protocol in _kinds()[half.kind].protocols
    ]
    alone = [Case(f"h{index}", protocol, (_written(half, protocol),), ()) for index, half in enumerate(fitting)]
    return dict(zip(fitting, load(text(alone)).policies, strict=True))


def _written(half: Half, protocol: Protocol) -> Written:
    return Written(half.kind, half.arguments, "" if protocol is Protocol.TCP else half.when, half.scope)


@cache
def _drafts() -> tuple[tuple[Case, bool], ...]:
    """Every pair of both orders without sides, and whether it commutes."""
    found = []
    for protocol in Protocol:
        policies = _policies(protocol)
        chosen = list(product(HALVES, HALVES))
        if protocol is not Protocol.TCP:
            chosen += [each for pair in product(WRITERS, READERS) for each in (pair, pair[::-1])]
        for index, (one, other) in enumerate(chosen):
            if (
                one not in policies
                or other not in policies
                or (one.kind == other.kind and _kinds()[one.kind].exclusive)
            ):
                continue
            written = (_written(one, protocol), _written(other, protocol))
            drafted = Case(f"q{index}_{protocol}", protocol, written, asks(one, other, protocol))
            found.append((drafted, commute(policies[one], policies[other])))
    return tuple(found)


def _sides(kind: Kind) -> tuple[Side, ...]:
    return tuple(side for side in (Side.EGRESS, Side.INGRESS) if side in kind.sides)
