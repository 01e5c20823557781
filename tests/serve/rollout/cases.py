"""Every kind that can change sides, and what shows that a request met it once, and not twice.

A case is a policy for the requests that name it in `x-case`. Its requests, and what the caller and the service must see
of each, are data: `wrong` compares.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.emitters.envoy.wasm import module
from tests.fidelity.tokens import BEARER, keys, token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from admc.testbed.echo import Seen

CASE: Final = "x-case"
ORIGIN: Final = "https://shop.example"
QUOTA: Final = 10
"""Tokens of a full bucket, which is not refilled during the test."""
DELAY_SECONDS: Final = 0.005
ISSUER: Final = "https://issuer.example"
Headers = tuple[tuple[str, str], ...]


class Reply(NamedTuple):
    """The response to one request, which has a name of its own."""

    case: Case
    ask: Ask
    name: str
    status: int
    headers: Headers
    body: bytes
    seconds: float

    def header(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.headers if key.lower() == name)


@dataclass(frozen=True)
class Ask:
    """A request, and the result that it must have."""

    status: int | None = 200
    """None: the answer depends on what was counted before."""
    arrives: bool = True
    headers: Headers = ()
    method: str = "GET"
    path: str = "/NAME"
    body: bytes = b""
    seen: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Headers of the request, as the service must see them."""
    seen_path: str = ""
    often: str = ""
    """A header of the request that the service must see once, or twice while both sides hold."""
    answer: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Headers of the answer, as the caller must see them."""
    source: str = "shop"
    asked: int = 0
    """How many questions the authorization service must have received about it."""


@dataclass(frozen=True)
class Case:
    name: str
    kind: str
    arguments: str
    asks: tuple[Ask, ...]
    destination: str = "cart"
    """`cart` moves with a marker, so requests meet policies once. At other destinations they may meet them twice, with
    the same result."""
    scope: str = "shop"


def _one(name: str, value: str = "1") -> dict[str, tuple[str, ...]]:
    return {name: (value,)}


CASES: Final = (
    Case(
        "small",
        "buffer_limit",
        "max: 100B",
        (Ask(method="POST", body=b"b" * 100), Ask(413, arrives=False, method="POST", body=b"b" * 101)),
    ),
    Case("quota", "rate_limit", f"requests: {QUOTA}, per: 1h", (Ask(None),)),
    Case("callers", "allow", "callers: [shop]", (Ask(), Ask(403, arrives=False, source="till")), scope="{shop, till}"),
    Case("closed", "deny", "", (Ask(403, arrives=False),)),
    Case("paths", "normal_paths", "", (Ask(), Ask(400, arrives=False, path="/./NAME"))),
    Case(
        "token",
        "jwt",
        f'issuer: "{ISSUER}", jwks: "keys.json"',
        (
            Ask(headers=(("authorization", BEARER + token(ISSUER, "any")),)),
            Ask(401, arrives=False),
            Ask(401, arrives=False, headers=(("authorization", BEARER + token(ISSUER, "any", b"another" * 7)),)),
        ),
    ),
    Case(
        "judged",
        "external_authorization",
        "service: judge, timeout: 10s",
        (Ask(asked=1), Ask(403, arrives=False, headers=(("x-echo-status", "403"),), asked=1)),
    ),
    Case(
        "sets",
        "set_request_header",
        'name: "x-set", value: "1"',
        (Ask(seen=_one("x-set")), Ask(headers=(("x-set", "mine"),), seen=_one("x-set"))),
    ),
    Case(
        "adds",
        "add_request_header",
        'name: "x-added", value: "1"',
        (Ask(seen=_one("x-added")), Ask(headers=(("x-added", "mine"),), seen={"x-added": ("mine", "1")})),
    ),
    Case("drops", "remove_request_header", 'name: "x-gone"', (Ask(headers=(("x-gone", "1"),), seen={"x-gone": ()}),)),
    Case("told", "set_response_header", 'name: "x-told", value: "1"', (Ask(answer=_one("x-told")),)),
    Case("besides", "add_response_header", 'name: "x-more", value: "1"', (Ask(answer=_one("x-more")),)),
    Case(
        "silent",
        "remove_response_header",
        'name: "x-gone"',
        (Ask(headers=(("x-echo-header", "x-gone=1"),), answer={"x-gone": ()}),),
    ),
    Case(
        "moved",
        "rewrite_path",
        'prefix: "/a/", to: "/a/a/"',
        (Ask(path="/a/NAME", seen_path="/a/a/NAME"),),
    ),
    Case(
        "browsers",
        "cors",
        f'origins: ["{ORIGIN}"], expose: ["x-e"]',
        (
            Ask(
                headers=(("origin", ORIGIN),),
                answer={"access-control-allow-origin": (ORIGIN,), "access-control-expose-headers": ("x-e",)},
            ),
            Ask(
                arrives=False,
                method="OPTIONS",
                headers=(("origin", ORIGIN), ("access-control-request-method", "POST")),
                answer={"access-control-allow-origin": (ORIGIN,), "access-control-allow-methods": ("GET, POST",)},
            ),
        ),
    ),
    Case(
        "packed",
        "compression",
        "",
        (Ask(headers=(("accept-encoding", "gzip"), ("x-echo-body", "500")), answer=_one("content-encoding", "gzip")),),
    ),
    Case("waits", "fault_delay", "delay: 5ms", (Ask(),)),
    Case("broken", "fault_abort", "status: 418", (Ask(418, arrives=False),)),
    Case("logged", "access_log", "", (Ask(),)),
    Case("counted", "request_count", "", (Ask(),)),
    Case("tapped", "tap", 'directory: "TAPS"', (Ask(),)),
    Case("script", "lua", 'script: "filter.lua"', (Ask(seen=_one("x-script"), answer=_one("x-script")),)),
    Case("machine", "wasm", 'module: "filter.wasm"', (Ask(seen=_one("x-wasm", "yes")),)),
    Case("mine", "mine", 'value: "1"', (Ask(seen=_one("x-mine")),)),
    Case("inner", "inner", "", (Ask(often="x-inner"),)),
    # Where nothing moves that must not act twice, both sides hold for a while.
    Case(
        "callers_too",
        "allow",
        "callers: [shop]",
        (Ask(), Ask(403, arrives=False, source="till")),
        destination="guarded",
        scope="{shop, till}",
    ),
    Case("closed_too", "deny", "", (Ask(403, arrives=False),), destination="guarded"),
    Case(
        "token_too",
        "jwt",
        f'issuer: "{ISSUER}", jwks: "keys.json"',
        (Ask(headers=(("authorization", BEARER + token(ISSUER, "any")),)), Ask(401, arrives=False)),
        destination="guarded",
    ),
    Case("sets_too", "set_request_header", 'name: "x-set", value: "1"', (Ask(seen=_one("x-set")),), "written"),
    Case(
        "drops_too",
        "remove_request_header",
        'name: "x-gone"',
        (Ask(headers=(("x-gone", "1"),), seen={"x-gone": ()}),),
        destination="dropped",
    ),
    Case("told_too", "set_response_header", 'name: "x-told", value: "1"', (Ask(answer=_one("x-told")),), "answered"),
    Case(
        "silent_too",
        "remove_response_header",
        'name: "x-gone"',
        (Ask(headers=(("x-echo-header", "x-gone=1"),), answer={"x-gone": ()}),),
        destination="silenced",
    ),
)
CONNECTIONS: Final = (
    ("few", "connection_rate_limit", f"connections: {QUOTA}, per: 1h", "shop"),
    ("known", "allow", "callers: [shop]", "{shop, till}"),
    ("shut", "deny", "", "shop"),
    ("noted", "access_log", "", "shop"),
    ("own", "own", "", "shop"),
)
"""Name, kind, arguments and callers of what decides about connections; each has a port of its own."""

FILES: Final[Mapping[str, bytes]] = {
    "keys.json": keys(),
    "filter.wasm": module(),
    "filter.lua": (
        b'function envoy_on_request(h) h:headers():add("x-script", "1") end\n'
        b'function envoy_on_response(h) h:headers():add("x-script", "1") end\n'
    ),
    "mine.yaml": (
        b'"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation\n'
        b'mutations:\n  request_mutations:\n  - append:\n      header: {key: "x-mine", value: "${value}"}\n'
    ),
    "inner.yaml": (
        b'"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation\n'
        b'mutations:\n  request_mutations:\n  - append:\n      header: {key: "x-inner", value: "1"}\n'
    ),
    "own.yaml": (
        b'"@type": type.googleapis.com/envoy.extensions.filters.network.rbac.v3.RBAC\n'
        b"stat_prefix: own\nrules: {action: DENY, policies: {all: {permissions: [{any: true}], "
        b"principals: [{any: true}]}}}\n"
    ),
}
OWN: Final = """
@ingress @egress
kind mine(value: string) for http template "mine.yaml"
@ingress @egress(upstream)
kind inner() for http template "inner.yaml"
@ingress @egress
kind own() for tcp template "own.yaml"
"""


def program(side: str, port: int, taps: str) -> str:
    """The application with everything pinned to one side."""
    others = sorted({case.destination for case in CASES} - {"cart"})
    raw = {name: port + 1 + index for index, (name, *_) in enumerate(CONNECTIONS)}
    ports = "".join(f"  tcp {name} {number}\n" for name, number in raw.items())
    scopes = {"cart": "cart:web"}
    lines = [f"app every\nservice shop, till, judge, {', '.join(others)} {{ http {port} }}"]
    lines.append(f"service cart {{\n  http web {port}\n{ports}}}")
    for source in ("shop", "till"):
        callees = ["cart:web", *(f"cart:{name}" for name in raw), *others]
        lines.append(f"call {source} -> {', '.join(callees)}")
    lines.append(OWN)
    web = ", ".join(["cart:web", *others])
    lines.append(f"policy first = request_count() on {{shop, till}} -> {{{web}}}\npin first at egress")
    raws = ", ".join(f"cart:{name}" for name in raw)
    lines.append(f"policy first_raw = access_log() on {{shop, till}} -> {{{raws}}}\npin first_raw at egress")
    for case in CASES:
        target = scopes.get(case.destination, case.destination)
        lines.append(
            f"policy {case.name} = {case.kind}({case.arguments.replace('TAPS', taps)}) on {case.scope} -> {target} "
            f'when header("{CASE}") == "{case.name}"\npin {case.name} at {side}'
        )
    for name, kind, arguments, scope in CONNECTIONS:
        lines.append(f"policy {name}_raw = {kind}({arguments}) on {scope} -> cart:{name}\npin {name}_raw at {side}")
    # Without redirection listeners have to be there before what moves to them: they are instead of the service's own.
    for number, target in enumerate([*(f"cart:{name}" for name in raw), "cart:web", *others]):
        lines.append(f"policy breaker{number} = circuit_breaking(max_connections: 1000) on {{shop, till}} -> {target}")
    return "\n".join(lines) + "\n"


def wrong(reply: Reply, arrived: Sequence[Seen], asked: int) -> Iterator[str]:
    """What is not as it must be about one request: its answer, and how it `arrived` where it was sent."""
    ask = reply.ask
    if ask.status not in (None, reply.status):
        yield f"status {reply.status}"
    for name, values in ask.answer.items():
        if reply.header(name) != values:
            yield f"answer with {name}: {reply.header(name)}"
    if asked != ask.asked:
        yield f"leave asked for {asked} times"
    expected = ask.arrives if ask.status is not None else reply.status == 200
    if len(arrived) != expected:
        yield f"arrived {len(arrived)} times"
    for seen in arrived:
        for name, values in ask.seen.items():
            if seen.header(name) != values:
                yield f"arrived with {name}: {seen.header(name)}"
        if ask.often and len(seen.header(ask.often)) not in (1, 2):
            yield f"arrived with {ask.often}: {seen.header(ask.often)}"
        if ask.seen_path and seen.path != ask.seen_path.replace("NAME", reply.name):
            yield f"arrived at {seen.path}"
        if seen.header("x-admc-met"):
            yield "arrived with the marker"
        if reply.header("content-encoding") == ("gzip",) and not json.loads(gzip.decompress(reply.body)):
            yield "packed otherwise"
