"""For each kind: arguments that are worth trying, and requests that show what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from dsl.program import Protocol
from tests.emitters.envoy.wasm import module
from tests.fidelity.requests import Ask, answer_header, delay, header, status
from tests.fidelity.tokens import BEARER, keys, token

ISSUER, AUDIENCE = "https://issuer.example", "shop"
ORIGIN = "https://shop.example"
BODY = b"b" * 100


class Sample(NamedTuple):
    """One policy of a kind, with requests. `scope` is who it is about: `a`, or `{a, c}`."""

    kind: str
    arguments: str
    asks: tuple[Ask, ...] = (Ask(), Ask())
    when: str = ""
    scope: str = "a"
    protocols: frozenset[Protocol] = frozenset(Protocol)


HTTP: Final = frozenset({Protocol.HTTP})
GRPC: Final = frozenset({Protocol.GRPC})
TCP: Final = frozenset({Protocol.TCP})

FILES: Final = {
    "keys.json": keys(),
    "filter.lua": (
        b'function envoy_on_request(h) h:headers():add("x-lua", "asked") end\n'
        b'function envoy_on_response(h) h:headers():add("x-lua", "answered") end\n'
    ),
    "filter.wasm": module(),
    "mine.yaml": (
        b'"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation\n'
        b'mutations:\n  request_mutations:\n  - append:\n      header: {key: "x-mine", value: "${value}"}\n'
    ),
}
KINDS: Final = """
@ingress @egress
@effect(writes(header))
kind mine(value: string) for http, grpc template "mine.yaml"
"""

TOKEN: Final = ("authorization", BEARER + token(ISSUER, AUDIENCE))
PREFLIGHT: Final = Ask((("origin", ORIGIN), ("access-control-request-method", "POST")), method="OPTIONS")
ZIPPED: Final = header("accept-encoding", "gzip")
JWT: Final = f'issuer: "{ISSUER}", jwks: "keys.json", audiences: ["{AUDIENCE}"]'
CORS: Final = f'origins: ["{ORIGIN}"], headers: ["x-h"], expose: ["x-e"], credentials: true'
REQUEST_ASKS: Final = (Ask(), header("x-in", "client"), Ask((("x-in", "client"), ("x-in", "twice"))))
RESPONSE_ASKS: Final = (Ask(), answer_header("x-out", "server"))
FAILING: Final = (status(503), status(503, 200), status(503, 503, 200), status(500), status(404), Ask())
FAILING_GRPC: Final = (status(14), status(14, 0), status(13), status(8, 0), status(1, 0), Ask())
OTHERS: Final = "cancelled, deadline_exceeded, internal, resource_exhausted"

TUNNEL: Final = Ask(method="CONNECT")
LONG_WAIT: Final = delay(15.4)
"""Longer than a proxy would wait by itself."""
COMMANDS: Final = (
    Ask((("x-forwarded-for", "192.0.2.1"), ("x-request-id", "mine"), ("x-forwarded-proto", "https"))),
    Ask((("x-envoy-retry-on", "5xx"), ("x-envoy-retry-grpc-on", "unavailable"), ("x-envoy-max-retries", "3"))).besides(
        status(503, 200)
    ),
    Ask((("x-envoy-upstream-rq-timeout-ms", "100"),)).besides(delay(0.4)),
)
"""Headers that a proxy would obey, or write itself."""
PECULIAR: Final = tuple(Ask(path=path) for path in ("/a//b", "/a/../b", "/%61", "/a%2Fb", "/a;b?c=%20"))
"""Paths that a proxy might tidy up."""

NORMAL: Final = (
    "/",
    "/a/b/",
    "/a?b=//x/../%61",
    "/a%2Fb%C3%A9",
    "/.well-known/x",
    "/...",
    "/a;b/..;/c",
    "/a%zz",
    "/~a.b",
)
UNUSUAL: Final = (
    *("//", "/a//b", "/./a", "/a/.", "/a/..", "/a/../b?c", "/..", "/a/.?x", "/%61dmin", "/%2e%2e/a", "/%7Ea", "/a%2fb"),
)
HOSTS: Final = tuple(
    header("host", host)
    for host in (
        "api.example.com",
        "API.Example.com.:8080",
        "xapi.example.com",
        "api.example.com.org",
        "api.:80",
        "[::1]",
    )
)

SAMPLES: Final = (
    Sample("rate_limit", "requests: 3, per: 1h", (Ask(times=5), Ask(times=2, pause=0.4))),
    Sample("rate_limit", "requests: 1, per: 1h, burst: 2", (Ask(times=4),)),
    Sample("rate_limit", "requests: 2, per: 1s", (Ask(times=4), Ask(times=4, pause=1.3))),
    Sample("rate_limit", "requests: 3, per: 1h", (Ask(times=2), Ask(times=2, source="c"), Ask()), scope="{a, c}"),
    Sample(
        "rate_limit",
        "requests: 1, per: 1h",
        (Ask(times=2), header("x-gold", "1"), replace(header("x-gold", "1"), times=2)),
        when='when header("x-gold") == "1"',
    ),
    Sample("rate_limit", "requests: 2, per: 2h", (TUNNEL, Ask(), TUNNEL, Ask()), protocols=HTTP),
    Sample("deny", "", (TUNNEL, Ask()), when='when method == "CONNECT"', protocols=HTTP),
    Sample("connection_rate_limit", "connections: 3, per: 1h", (Ask(times=5),)),
    Sample("connection_rate_limit", "connections: 2, per: 1s", (Ask(times=4), Ask(times=4, pause=1.3))),
    Sample("circuit_breaking", "max_requests: 2", (Ask(times=3), replace(delay(0.6), times=5, together=True))),
    Sample("circuit_breaking", "max_connections: 2", protocols=TCP),
    Sample("buffer_limit", "max: 50B", (Ask(), Ask(method="POST", body=b"b" * 50), Ask(method="POST", body=BODY))),
    Sample("allow", "callers: [a]", (Ask(), Ask(source="c")), scope="{a, c}"),
    Sample("allow", "callers: [c]", (Ask(), Ask(source="c")), scope="{a, c}"),
    Sample("allow", "callers: [a]", (Ask(), Ask(source="c")), scope="*"),
    Sample("deny", "", (Ask(), Ask(source="c"))),
    Sample(
        "deny",
        "",
        (Ask(), header("x-deny", "1"), header("x-deny", "0, 1"), Ask((("x-deny", "0"), ("x-deny", "1")))),
        when='when header("x-deny") == "1"',
    ),
    Sample(
        "deny",
        "",
        (
            header("cookie", "b=2"),
            header("cookie", "a=1; b=2"),
            Ask((("cookie", "b=2"), ("cookie", "c=3"))),
            header("cookie", "a=1; ab=2"),
        ),
        when='when header("cookie") == "b=2"',
    ),
    Sample(
        "deny", "", (Ask(), Ask(path="/admin?a=b"), Ask(path="/admins")), when='when path == "/admin"', protocols=HTTP
    ),
    Sample("deny", "", (Ask(), Ask(path="/a/B"), Ask(path="/a/Bc")), when='when path == "/a/B"', protocols=GRPC),
    Sample("normal_paths", "", tuple(Ask(path=path) for path in (*NORMAL, *UNUSUAL))),
    Sample("deny", "", HOSTS, when='when host == "api.example.com"'),
    Sample("deny", "", HOSTS, when='when host matches "[^.]+[.]EXAMPLE[.]com|a.*"'),
    Sample(
        "timeout", "after: 200ms", tuple(ask.besides(delay(0.5)) for ask in HOSTS), when='when host starts_with "api."'
    ),
    Sample(
        "jwt",
        JWT,
        (
            Ask(),
            Ask((TOKEN,)),
            header("authorization", BEARER + token(ISSUER, "elsewhere")),
            header("authorization", BEARER + token("https://other.example", AUDIENCE)),
            header("authorization", BEARER + token(ISSUER, AUDIENCE, b"another-key" * 4)),
        ),
    ),
    Sample("external_authorization", "service: judge", (Ask(), delay(0.6))),
    Sample("external_authorization", "service: judge", (status(403), status(401), status(500)), protocols=HTTP),
    Sample("external_authorization", "service: judge, timeout: 100ms, fail_open: true", (Ask(), delay(0.4))),
    Sample(
        "retry",
        "attempts: 3, backoff: 1ms",
        (*FAILING, answer_header("x-envoy-ratelimited", "1").besides(status(503, 200))),
        protocols=HTTP,
    ),
    Sample("retry", "attempts: 3, backoff: 1ms", FAILING_GRPC, protocols=GRPC),
    Sample("retry", "attempts: 4, backoff: 1ms", (answer_header("x-out", "1").besides(status(14, 0)),), protocols=GRPC),
    Sample("retry", "attempts: 2, backoff: 1ms, on: [server_error]", (*FAILING, status(502, 200)), protocols=HTTP),
    Sample("retry", "attempts: 2, backoff: 1ms, on: [server_error]", FAILING_GRPC, protocols=GRPC),
    Sample("retry", "attempts: 2, backoff: 1ms, on: [gateway_error]", (*FAILING, status(502, 200)), protocols=HTTP),
    Sample("retry", "attempts: 2, backoff: 1ms, on: [gateway_error]", FAILING_GRPC, protocols=GRPC),
    Sample(
        "retry",
        f"attempts: 2, backoff: 1ms, on: [{OTHERS}]",
        (status(499, 200), status(504, 200), status(500, 200), status(429, 200), status(503, 200)),
        protocols=HTTP,
    ),
    Sample(
        "retry",
        f"attempts: 2, backoff: 1ms, on: [{OTHERS}]",
        (status(1, 0), status(4, 0), status(13, 0), status(8, 0), status(14, 0)),
        protocols=GRPC,
    ),
    Sample("timeout", "after: 200ms", (Ask(), delay(0.5), delay(0.05))),
    Sample(
        "outlier_detection",
        "consecutive_errors: 2, interval: 500ms, ejection: 60s, max_ejected: 100%",
        (status(503), Ask(), status(503), status(503), replace(Ask(), pause=0.4), Ask()),
        protocols=HTTP,
    ),
    Sample(
        "outlier_detection",
        "consecutive_errors: 2, interval: 500ms, ejection: 60s, max_ejected: 100%",
        (status(14), Ask(), status(14), status(14), replace(Ask(), pause=0.4), Ask()),
        protocols=GRPC,
    ),
    Sample("outlier_detection", "", protocols=TCP),
    Sample("load_balancing", "policy: round_robin"),
    Sample("load_balancing", 'policy: ring_hash, hash: "x-in"', REQUEST_ASKS, protocols=HTTP | GRPC),
    Sample("mirror", "to: TARGET", (Ask(), status(503), Ask(body=BODY, method="POST"), delay(0.3))),
    Sample("mirror", "to: TARGET, percent: 50%", (Ask(times=150),)),
    Sample("split", "to: TARGET, percent: 50%", (Ask(times=150),)),
    Sample("split", "to: TARGET, percent: 100%"),
    *(Sample(f"{verb}_request_header", 'name: "x-in", value: "100% policy"', REQUEST_ASKS) for verb in ("set", "add")),
    Sample("remove_request_header", 'name: "x-in"', REQUEST_ASKS),
    *(Sample(f"{verb}_response_header", 'name: "x-out", value: "policy"', RESPONSE_ASKS) for verb in ("set", "add")),
    Sample("remove_response_header", 'name: "x-out"', RESPONSE_ASKS),
    Sample(
        "rewrite_path",
        'prefix: "/old", to: "/new"',
        (Ask(), Ask(path="/old/x?q=/old"), Ask(path="/older"), Ask(path="/old"), Ask(path="/an/old")),
    ),
    Sample(
        "rewrite_path",
        'prefix: "/old", to: ""',
        tuple(
            Ask(path=path) for path in ("/old", "/old?a=b", "/oldhttp://x/new", "/old//x", "/old/../x", "//old", "/")
        ),
    ),
    Sample("cors", CORS, (Ask(), header("origin", ORIGIN), header("origin", "https://evil.example"), PREFLIGHT)),
    Sample(
        "cors",
        'origins: ["https://*.shop.example", "http://*.shop.example:8080"]',
        tuple(
            header("origin", origin)
            for origin in (
                *("https://a.shop.example", "https://a.b.shop.example", "http://a.shop.example:8080"),
                *("https://shop.example", "https://evilshop.example", "https://a.shop.example.evil.example"),
                *(
                    "https://a.shop-example",
                    "https://a.shop.example:444",
                    "http://a.shop.example",
                    "https://*.shop.example",
                ),
                *("https://.shop.example", "https://evil.example/a.shop.example", "https://evil.example#.shop.example"),
                *("xhttps://a.shop.example", "https://a.shop.example,https://evil.example", "null"),
            )
        ),
    ),
    Sample(
        "compression",
        "",
        (
            Ask(),
            ZIPPED,
            header("accept-encoding", "br"),
            *(ZIPPED.plus(("x-echo-status", code)) for code in ("404", "206")),
        ),
    ),
    Sample("compression", "algorithm: brotli", (Ask(), header("accept-encoding", "gzip, br"))),
    Sample("compression", "algorithm: zstd", (Ask(), header("accept-encoding", "zstd"))),
    Sample("fault_delay", "delay: 450ms", (Ask(), header("x-slow", "1")), when='when header("x-slow") == "1"'),
    Sample("fault_delay", "delay: 600ms, percent: 50%", (Ask(times=8, together=True),) * 5),
    Sample("fault_abort", "status: 418", (Ask(), header("x-abort", "1")), when='when header("x-abort") == "1"'),
    *(
        Sample("fault_abort", f"status: {code}", (Ask(times=2), Ask(method="POST", body=BODY)))
        for code in (204, 205, 304)
    ),
    Sample("fault_abort", "status: 503, percent: 50%", (Ask(times=150),)),
    Sample("access_log", "", (Ask(times=3), status(404))),
    Sample("access_log", "format: text", (Ask(times=3),)),
    Sample("request_count", "", (LONG_WAIT, Ask(times=3), *COMMANDS)),
    Sample("request_count", "", PECULIAR, protocols=HTTP),
    Sample("request_count", "", (Ask(), Ask(method="POST")), when='when method == "POST"', protocols=HTTP),
    Sample("request_count", "", (TUNNEL, Ask(), TUNNEL), when='when method != "PUT"', protocols=HTTP),
    Sample("tap", 'directory: "TAPS"', (Ask(times=3),)),
    Sample("lua", 'script: "filter.lua"', RESPONSE_ASKS),
    Sample("wasm", 'module: "filter.wasm"', REQUEST_ASKS),
    Sample("mine", 'value: "1"', REQUEST_ASKS),
)
