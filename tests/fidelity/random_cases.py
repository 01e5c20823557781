"""Random programs, drawn by Hypothesis: a topology, two to five policies on its calls, and requests.

What is drawn first is the plainest: it is what Hypothesis comes down to when it makes a program smaller.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from hypothesis import assume
from hypothesis import strategies as st

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.program import Protocol, Side
from tests.fidelity.cases import PARTIES, TWO_CALLERS, Case, Written, load, text
from tests.fidelity.pairs import ABORTED, HALVES, IN, OLD, READERS, SLOWED, Half, set_aside
from tests.fidelity.requests import Ask, answer_header, header
from tests.fidelity.samples import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from dsl.program import Kind

Calls = tuple[tuple[str, str], ...]

TOPOLOGIES: Final[Mapping[str, Calls]] = {
    "two callers": TWO_CALLERS,
    "a chain": (("a", "b"), ("b", "d"), ("d", "e")),
    "fan-in": (("a", "b"), ("c", "b"), ("d", "b")),
    "fan-out": (("a", "b"), ("a", "d"), ("a", "e")),
    "two callers of two": (("a", "b"), ("a", "d"), ("c", "b"), ("c", "d")),
    "a diamond": (("a", "b"), ("a", "d"), ("b", "e"), ("d", "e")),
}

MATCHES: Final = (
    'header("x-in") == "set"',
    'header("x-in") != "client"',
    'header("x-in") starts_with "cl"',
    'header("x-in") matches "(set|client)[0-9]*"',
    'path == "/new/a"',
    'path starts_with "/old"',
    'path != "/a"',
    'path == "/"',
    'path starts_with "/http"',
    'method == "POST"',
    'method != "GET"',
)
HEADERS: Final = ("x-in", "x-out", "x-other")
VALUES: Final = ("set", "client", "other")
VARIED: Final[Mapping[str, tuple[str, ...]]] = {
    "rate_limit": (*(f"requests: {n}, per: 1h" for n in (4, 1, 2)), "requests: 1, per: 1h, burst: 3"),
    "connection_rate_limit": tuple(f"connections: {n}, per: 1h" for n in (3, 1, 2)),
    "buffer_limit": ("max: 50B", "max: 100B", "max: 99B"),
    "retry": (
        "attempts: 3, backoff: 1ms, on: [gateway_error]",
        "attempts: 2, backoff: 1ms",
        "attempts: 4, backoff: 1ms, on: [server_error]",
        "attempts: 2, backoff: 1ms, on: [unavailable, resource_exhausted]",
    ),
    "timeout": ("after: 300ms", "after: 700ms"),
    "fault_abort": ("status: 503", "status: 418", "status: 429", "status: 204", "status: 304", "status: 205"),
    "fault_delay": ("delay: 450ms", "delay: 150ms"),
    "compression": ("", "algorithm: zstd", "min_size: 100KB"),
    "rewrite_path": (
        *('prefix: "/old", to: "/new"', 'prefix: "/new", to: "/newer"', 'prefix: "/", to: "/old/"'),
        *('prefix: "/old", to: ""', 'prefix: "/old", to: "/"', 'prefix: "", to: "/old"', 'prefix: "/", to: ""'),
    ),
    "split": ("to: TARGET, percent: 50%", "to: TARGET, percent: 100%"),
    **{
        f"{verb}_{what}_header": tuple(
            f'name: "{name}", value: "{value}"' if verb != "remove" else f'name: "{name}"'
            for name in HEADERS
            for value in (VALUES if verb != "remove" else VALUES[:1])
        )
        for verb in ("set", "add", "remove")
        for what in ("request", "response")
    },
}
"""Arguments that are worth trying besides those of `HALVES`; `TARGET` is the helper, or another destination."""
ODD: Final[Mapping[str, tuple[str, ...]]] = {
    "rewrite_path": (
        *('prefix: "/old", to: "/new place"', 'prefix: "/old", to: "http://x/"', 'prefix: "/old", to: "//new"'),
        *('prefix: "/old", to: "/new?a"', 'prefix: "old", to: "/new"', 'prefix: "/old", to: "/%n"'),
    ),
    **{
        f"{verb}_{what}_header": tuple(
            f'name: "{name}", value: "{value}"' if verb != "remove" else f'name: "{name}"' for name, value in names
        )
        for verb in ("set", "add", "remove")
        for what, names in (
            (
                "request",
                (
                    *(("content-length", "3"), ("transfer-encoding", "chunked"), ("connection", "x-in"), ("host", "x")),
                    *(
                        ("x-admc-hold-on", "1"),
                        ("expect", "100-continue"),
                        ("trailer", "x"),
                        ("proxy-authorization", "x"),
                    ),
                    *(("x-envoy-retry-on", "5xx"), ("x-forwarded-proto", "https"), ("x-envoy-external-address", "x")),
                ),
            ),
            (
                "response",
                (
                    *(("content-length", "3"), ("transfer-encoding", "chunked"), ("content-encoding", "gzip")),
                    *(("grpc-status", "0"), ("x-admc-hold-on", "1"), ("keep-alive", "x"), ("date", "x")),
                    *(("x-envoy-degraded", "1"), ("x-envoy-upstream-service-time", "1"), ("x-request-id", "x")),
                ),
            ),
        )
    },
    "timeout": ("after: 500us", "after: 1us"),
    "retry": ("attempts: 2, backoff: 500us", "attempts: 2, backoff: 1us"),
    "fault_delay": ("delay: 500us", "delay: 1us"),
    "external_authorization": ("service: judge, timeout: 500us",),
    "outlier_detection": ("interval: 500us", "ejection: 500us"),
    "cors": (f'origins: ["{ORIGIN}"], expose: ["x-e\\r\\nx-out: 1"]', f'origins: ["{ORIGIN}"], max_age: 500us'),
}
"""Arguments that the compiler has to refuse, or to enforce as they are written."""
ODD_ONCE: Final = 8
"""One program in so many has arguments of these."""
BLOCKING: Final = frozenset({"deny", "fault_abort", "fault_delay"})
"""Without a match of its own, nothing else would be seen."""
ONE_CALLER: Final = frozenset({"outlier_detection"})
"""Each sender has errors of its own to count; the judge knows those of one."""
PATHS: Final = tuple(
    Ask(path=path)
    for path in ("/old", "/old?q=/new", "/oldhttp://x/new/a", "/old//new/a", "//old/a", "/old/../new/a", "/old%2fnew/a")
)
"""Paths whose rewrite may be no path."""
OTHERS: Final = (
    Ask(),
    IN,
    header("x-in", "set"),
    header("x-in", "other"),
    OLD,
    Ask(path="/new/a"),
    SLOWED,
    ABORTED,
    *PATHS[:3],
)
MOST = 5
PROTOCOLS: Final = (Protocol.HTTP, Protocol.GRPC, Protocol.HTTP, Protocol.GRPC, Protocol.HTTP, Protocol.TCP)
"""As often as there is something to find out."""


class Policy(NamedTuple):
    """A drawn policy, and the requests that show it."""

    written: Written
    half: Half


@st.composite
def programs(draw: st.DrawFn) -> Case:
    """A case without a name."""
    protocol = draw(st.sampled_from(PROTOCOLS))
    calls = TOPOLOGIES[draw(st.sampled_from(tuple(TOPOLOGIES)))]
    policies: list[Policy] = []
    odd: Half | None = None
    if draw(st.integers(1, ODD_ONCE)) == ODD_ONCE and (strange := _fitting(protocol, frozenset(ODD))):
        odd = draw(st.sampled_from(strange))
    # The length is drawn right before the list: Hypothesis makes both smaller together.
    number = draw(st.integers(2, MOST))
    halves = draw(st.lists(st.sampled_from(_fitting(protocol)), min_size=number, max_size=number, unique=True))
    if odd is not None:
        halves = [half for half in halves if half != odd]
        halves.insert(draw(st.integers(0, len(halves))), odd)
    for half in halves:
        if _fits(policy := draw(_policy(half, protocol, calls, odd=half is odd)), policies):
            policies.append(policy)
    assume(len(policies) > 1)
    asked = draw(st.lists(_ask(protocol, calls, policies), min_size=3, max_size=9))
    always = {pair[0]: pair for policy in policies for pair in policy.half.always}
    kinds = {policy.written.kind for policy in policies}
    asks = tuple(_with(ask, always) for ask in asked if not set_aside(ask, kinds, protocol))
    assume(asks)
    return Case("w", protocol, tuple(policy.written for policy in policies), asks, calls, enforced=True)


@st.composite
def _policy(draw: st.DrawFn, half: Half, protocol: Protocol, calls: Calls, *, odd: bool) -> Policy:
    destinations = sorted({destination for _, destination in calls})
    to: tuple[str, ...] = (draw(st.sampled_from(destinations)),)
    if len(destinations) > 1 and half.kind not in ONE_CALLER and draw(st.integers(0, 3)) == 3:
        to = tuple(destinations)
    senders = sorted({source for source, destination in calls if destination in to})
    scopes = list(senders)
    if len(senders) > 1 and half.kind not in ONE_CALLER:
        scopes.append(f"{{{', '.join(senders)}}}")
    if half.kind not in ONE_CALLER:
        scopes.append("*")
    sides = tuple(_kinds()[half.kind].sides)
    side: Side | None = draw(st.sampled_from((None, None, None, *sides)))
    usual = (half.arguments, *VARIED.get(half.kind, ()))
    arguments = draw(st.sampled_from(ODD.get(half.kind, usual) if odd else usual))
    if "TARGET" in arguments:
        beside = [each for each in destinations if (senders[0], each) in calls and each not in to]
        elsewhere = draw(st.booleans())
        if beside and elsewhere:
            arguments = arguments.replace("TARGET", f"{beside[0]}:PORT")
    when = ""
    if protocol is not Protocol.TCP:
        drawn = _when().filter(partial(_accepted, protocol)) if _kinds()[half.kind].guard else _when()
        when = half.when if half.when else draw(drawn) if half.kind in BLOCKING or draw(st.booleans()) else ""
    scope = draw(st.sampled_from(scopes))
    # Drawn for each kind, so that Hypothesis can take a policy away: the draws of all have one shape.
    everyone = draw(st.booleans())
    if half.kind == "allow" and everyone:
        # Of all callers and requests, and no declared call is refused: it may be in the network.
        arguments, when, scope, side = f"callers: [{', '.join(PARTIES)}]", "", "*", None
    written = Written(half.kind, arguments, when, scope, side, to)
    return Policy(written, half)


def _accepted(protocol: Protocol, when: str) -> bool:
    """Whether a guard may have a condition: some request has to satisfy it."""
    head = f"app x\nservice a, b {{ {protocol} 80 }}\ncall a -> b\n"
    try:
        dsl.load_text(f"{head}policy p = deny() on a -> b {when}\n")
    except ProgramError:
        return False
    return True


def _when() -> st.SearchStrategy[str]:
    """A condition of up to three comparisons."""
    plain = st.sampled_from(MATCHES)
    return st.one_of(
        plain.map(lambda one: f"when {one}"),
        plain.map(lambda one: f"when not ({one})"),
        st.tuples(plain, st.sampled_from(("and", "or")), plain).map(lambda each: f"when {' '.join(each)}"),
        st.tuples(plain, plain, plain).map(lambda each: f"when ({each[0]} or {each[1]}) and not {each[2]}"),
    )


@st.composite
def _ask(draw: st.DrawFn, protocol: Protocol, calls: Calls, policies: Sequence[Policy]) -> Ask:
    """Requests that show one policy, often mixed with another's; on any declared call."""
    source, destination = draw(st.sampled_from(calls))
    if protocol is Protocol.TCP:
        return Ask(source=source, destination=destination, times=draw(st.integers(1, 4)))
    shown = [ask for policy in policies for ask in policy.half.asks]
    ask = draw(st.sampled_from(shown))
    if any(policy.written.kind == "rewrite_path" for policy in policies) and draw(st.booleans()):
        ask = replace(ask, path=draw(st.sampled_from(PATHS)).path)
    if draw(st.booleans()):
        ask = replace(ask.besides(draw(st.sampled_from((*OTHERS, *shown)))), pause=0.0)
    if draw(st.integers(0, 3)) == 3:
        ask = ask.besides(answer_header("x-out", "server"))
    return replace(ask, source=source, destination=destination, times=min(ask.times, 5))


def _fits(policy: Policy, others: Sequence[Policy]) -> bool:
    """Whether a policy makes sense beside those that were drawn before it."""
    kind = policy.written.kind
    for other in others:
        same = bool(set(policy.written.to) & set(other.written.to))
        if kind == other.written.kind and same and _kinds()[kind].exclusive:
            return False
        if {kind, other.written.kind} == {"mirror", "split"} and same:
            return False  # both at one service: the documents promise no order of arrival
    return True


@cache
def _kinds() -> Mapping[str, Kind]:
    return load(text([])).kinds


@cache
def _fitting(protocol: Protocol, kinds: Container[str] | None = None) -> tuple[Half, ...]:
    """The kinds that a protocol supports, among the given ones if any are given."""
    return tuple(
        half
        for half in dict.fromkeys((*HALVES, *READERS))
        if protocol in _kinds()[half.kind].protocols and (kinds is None or half.kind in kinds)
    )


def _with(ask: Ask, headers: Mapping[str, tuple[str, str]]) -> Ask:
    given = {name for name, _ in ask.headers}
    return replace(ask, headers=(*ask.headers, *(pair for name, pair in headers.items() if name not in given)))
