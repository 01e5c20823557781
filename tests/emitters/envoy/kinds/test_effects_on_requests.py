"""What the kinds do to real requests through a real Envoy.

One application serves most tests: each policy has a port of its own, so that one Envoy for each side is enough.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from admc.testbed.client import Reply, Request, h2c
from dsl.program import Place
from tests.emitters.envoy.support import ENVOY, Running, exchange, load, running, soon
from tests.emitters.envoy.wasm import module
from tests.fidelity import tokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")


def token(audience: str) -> str:
    return tokens.token("https://issuer", audience)


FILES = {
    "keys.json": tokens.keys(),
    "filter.lua": (
        b'function envoy_on_request(h) h:headers():add("x-lua", "1") end\n'
        b'function envoy_on_response(h) h:headers():add("x-lua-answer", "1") end\n'
    ),
    "filter.wasm": module(),
    "mine.yaml": b"""\
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations:
  request_mutations:
  - append:
      header: {key: "x-${name}", value: "${value}"}
      keep_empty_value: ${keep}
""",
}
PORTS = (
    *("order", "jwt", "mirror", "cors", "zip", "delay", "abort", "lua", "wasm", "mine", "judged", "small"),
    *("rewrite", "retry", "outer", "inner", "log", "count", "tap", "narrow", "list"),
)
POLICIES = r"""
// a quota, and headers on both sides of it
policy outside = set_response_header(name: "x-outside", value: "100%") on a -> b:order
policy quota = rate_limit(requests: 2, per: 1h) on a -> b:order when path == "/q"
policy inside = set_response_header(name: "x-inside", value: "1") on a -> b:order
policy inside_get = set_response_header(name: "x-inside-get", value: "1") on a -> b:order when method == "GET"
policy inside_zip = compression(min_size: 1B) on a -> b:order
policy inside_log = access_log() on a -> b:order
policy inside_tap = tap(directory: "TAPS") on a -> b:order
policy inside_lua = lua(script: "filter.lua") on a -> b:order

policy signed = jwt(issuer: "https://issuer", jwks: "keys.json", audiences: ["x"]) on a -> b:jwt
policy copies = mirror(to: s) on a -> b:mirror
policy lists = set_request_header(name: "x-listed", value: "1") on a -> b:list when header("x-l") == "a.b"
policy begins = set_request_header(name: "x-begins", value: "1") on a -> b:list when header("x-l") starts_with "c"
policy patterned = set_request_header(name: "x-patterned", value: "1") on a -> b:list when header("x-l") matches "d[^x]"
policy not_listed = timeout(after: 100ms) on a -> b:list when header("x-l") != "z"
policy share = cors(origins: ["https://o.example"], headers: ["x-h"]) on a -> b:cors when header("x-off") != "1"
policy small_answers = compression() on a -> b:zip
policy late = fault_delay(delay: 300ms) on a -> b:delay when header("x-late") == "1"
policy broken = fault_abort(status: 418) on a -> b:abort when header("x-broken") == "1"
policy scripted = lua(script: "filter.lua") on a -> b:lua
policy machine = wasm(module: "filter.wasm") on a -> b:wasm
policy own = mine(name: "a", value: "x\"}, y: {z: [") on a -> b:mine
policy judged = external_authorization(service: judge) on a -> b:judged
policy small = buffer_limit(max: 10B) on a -> b:small

policy moved = rewrite_path(prefix: "/old", to: "/new") on a -> b:rewrite
policy seen_moved = set_request_header(name: "x-moved", value: "1") on a -> b:rewrite when path matches "/new[0-9]+"
policy quick_moved = timeout(after: 200ms) on a -> b:rewrite when path == "/newslow"

policy again = retry(attempts: 3, backoff: 1ms) on a -> b:retry
policy all_attempts = timeout(after: 300ms) on a -> b:outer
policy repeat_outer = retry(attempts: 5, on: [gateway_error], backoff: 1ms) on a -> b:outer
policy repeat_inner = retry(attempts: 3, on: [gateway_error], backoff: 1ms) on a -> b:inner
policy each_attempt = timeout(after: 200ms) on a -> b:inner
policy lines = access_log(format: text) on a -> b:log when path starts_with "/a"
policy counted = request_count() on a -> b:count when method == "POST"
policy captured = tap(directory: "TAPS") on a -> b:tap
policy narrow_a = timeout(after: 100ms) on a -> b:narrow when path matches "/a[a-z]*"
policy narrow_b = mirror(to: s) on a -> b:narrow when header("x-copy") == "1"

policy g_late = timeout(after: 200ms) on a -> g
policy g_again = retry(attempts: 3, backoff: 1ms) on a -> g
@ingress
policy who = allow(callers: [a]) on * -> g
@ingress
policy calls = rate_limit(requests: 4, per: 1h) on * -> g
policy g_broken = fault_abort(status: 503) on a -> h when header("x-broken") == "1"
policy g_copies = mirror(to: sg) on a -> h

@ingress
policy readers = allow(callers: [a, office]) on * -> store
policy connections = connection_rate_limit(connections: 2, per: 1h) on a -> store
"""


def program(taps: str) -> str:
    ports = "\n".join(f"  http {name} {9000 + index}" for index, name in enumerate(PORTS))
    calls = "\n".join(f"call a -> b:{name}" for name in PORTS)
    return f"""
external internet
external office {{ cidr "127.77.0.0/16" }}
service a, other {{ http 8000 }}
service b {{
{ports}
}}
service s, judge {{ http 8003 }}
service g, h, sg {{ grpc 8002 }}
service store {{ tcp 9100 }}
call internet -> a
{calls}
call a -> g, h, s, sg, store
call other -> g, store
call office -> store
@egress
kind mine(name: string, value: string, keep: bool = true) for http template "mine.yaml"
{POLICIES.replace("TAPS", taps)}
"""


UPSTREAM = """
external internet
service a { http 8000 }
service b { http 8001 }
call a -> b
@egress(upstream)
kind each() for http template "each.yaml"
policy tagged = set_request_header(name: "x-tagged", value: "1") on a -> b when path == "/tagged"
policy again = retry(attempts: 3, backoff: 1ms) on a -> b
policy attempts = each() on a -> b when header("x-tagged") == "1"
"""
EACH = b"""\
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: x-attempt, value: "1"}}}]}
"""


def test_a_template_at_stage_upstream_sees_every_attempt(tmp_path: Path) -> None:
    with running(UPSTREAM, tmp_path, {"each.yaml": EACH}) as live:
        failing = (("x-echo-status", "503"), ("x-echo-id", "e"))
        live.call("a", "b", Request("GET", "/tagged", failing))
        assert [len(seen.header("x-attempt")) for seen in live.echo.record.of("e")] == [1, 2, 3]
        assert "x-attempt" not in seen_headers(live.call("a", "b"))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("app")
    (folder / "taps").mkdir()
    with running(program(str(folder / "taps")), folder, FILES) as live:
        yield live


def call(
    app: Running, port: str, path: str = "/", *headers: tuple[str, str], method: str = "GET", body: bytes = b""
) -> Reply:
    return app.call("a", "b", Request(method, path, headers, body), 9000 + PORTS.index(port))


def seen_headers(reply: Reply) -> dict[str, str]:
    assert reply.seen is not None, reply
    return {name.lower(): value for name, value in reply.seen.headers}


def stats(app: Running) -> Counter[str]:
    total: Counter[str] = Counter()
    for envoy in app.envoys.running.values():
        total.update(envoy.stats())
    return total


# ---- rule R6 on the way back ----


def test_a_refusal_passes_only_the_filters_outside_it(app: Running) -> None:
    places = {decision.policy: decision.place for decision in app.placement.decisions}
    inner = ["inside", "inside_get", "inside_zip", "inside_log", "inside_tap", "inside_lua"]
    assert all(places[name] is places["quota"] for name in inner), "this test is about one chain"
    folder = app.folder / "taps"
    accepted = call(app, "order", "/q", ("accept-encoding", "gzip"))
    assert accepted.status == 200
    assert accepted.header("x-outside") == ("100%",)
    assert accepted.header("x-inside") == accepted.header("x-inside-get") == accepted.header("x-lua-answer") == ("1",)
    assert accepted.header("content-encoding") == ("gzip",)
    assert call(app, "order", "/q").status == 200
    soon(lambda: len(list(folder.glob("inside_tap*"))) == 2)
    refused = call(app, "order", "/q", ("accept-encoding", "gzip"))
    assert refused.status == 429
    assert refused.header("x-outside") == ("100%",)
    for name in ("x-inside", "x-inside-get", "x-lua-answer", "content-encoding", "vary"):
        assert refused.header(name) == (), name
    assert call(app, "order", "/other").status == 200, "the quota is for another path"
    soon(lambda: len(list(folder.glob("inside_tap*"))) == 3)
    assert stats(app)["quota/b.http_local_rate_limit.rate_limited"] == 1
    soon(lambda: _output(app).count('"inside_log"') >= 3)
    lines = [json.loads(line) for line in _output(app).splitlines() if '"inside_log"' in line]
    assert [line["path"] for line in lines] == ["/q", "/q", "/other"]


def _output(app: Running) -> str:
    time.sleep(0.2)  # what is written twice shows, too
    return "".join(envoy.output.read_text() for envoy in app.envoys.running.values())


# ---- kinds ----


def test_jwt(app: Running) -> None:
    good = call(app, "jwt", "/", ("authorization", f"Bearer {token('x')}"))
    assert good.status == 200
    assert seen_headers(good)["authorization"].startswith("Bearer "), "the token goes on to the service"
    assert call(app, "jwt").status == 401
    assert call(app, "jwt", f"/?access_token={token('x')}").status == 401, "a path is logged; no place for a token"
    assert call(app, "jwt", "/", ("authorization", f"Bearer {token('y')}")).status == 403
    raw = exchange(app.target("a", "b", 9000 + PORTS.index("jwt")), b"CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 401"), "CONNECT has no path, and is checked all the same"


def test_a_copy_is_the_request_that_the_service_got(app: Running) -> None:
    headers = (("x-echo-id", "copy"), ("x-envoy-max-retries", "7"), ("x-forwarded-for", "1.2.3.4"))
    assert call(app, "mirror", "/p?q=1", *headers, method="POST", body=b"abc").status == 200
    soon(lambda: len(app.echo.record.of("copy")) == 2)
    one, other = app.echo.record.of("copy")
    assert {one.service, other.service} == {"b", "s"}
    assert {(n.lower(), v) for n, v in one.headers} == {(n.lower(), v) for n, v in other.headers}
    assert (one.method, one.path, one.body) == (other.method, other.path, other.body) == ("POST", "/p?q=1", 3)


def test_cors(app: Running) -> None:
    asked = ("access-control-request-method", "GET")
    origin = ("origin", "https://o.example")
    before = call(app, "cors", "/", origin, asked, method="OPTIONS")
    assert before.header("access-control-allow-methods") == ("GET, POST",)
    assert before.seen is None, "the ADM answers"
    assert call(app, "cors", "/", origin).header("access-control-allow-origin") == ("https://o.example",)
    assert call(app, "cors", "/", ("origin", "https://evil")).header("access-control-allow-origin") == ()
    assert call(app, "cors", "/", origin, ("x-off", "1")).header("access-control-allow-origin") == ()


def test_compression(app: Running) -> None:
    large = ("x-echo-body", "3000")
    assert call(app, "zip", "/", large, ("accept-encoding", "gzip")).header("content-encoding") == ("gzip",)
    assert call(app, "zip", "/", large).header("content-encoding") == ()


def test_faults_obey_the_policy_and_no_client(app: Running) -> None:
    assert call(app, "delay", "/", ("x-late", "1")).seconds > 0.28
    assert call(app, "delay", "/", ("x-envoy-fault-delay-request", "3000")).seconds < 2.5
    assert call(app, "abort", "/", ("x-broken", "1")).status == 418
    assert call(app, "abort", "/", ("x-envoy-fault-abort-request", "503")).status == 200
    broken = app.call("a", "h", Request("POST", "/s/M", (("x-broken", "1"),)))
    assert broken.label == "UNAVAILABLE", "503 as gRPC says it"


def test_programs_of_the_users_own(app: Running) -> None:
    scripted = call(app, "lua")
    assert seen_headers(scripted)["x-lua"] == "1"
    assert scripted.header("x-lua-answer") == ("1",)
    assert seen_headers(call(app, "wasm"))["x-wasm"] == "yes"
    assert seen_headers(call(app, "mine"))["x-a"] == 'x"}, y: {z: [', "a value never becomes structure"


def test_external_authorization_by_http(app: Running) -> None:
    allowed = call(app, "judged", "/path", ("x-echo-id", "judged"))
    assert allowed.status == 200
    assert [seen.service for seen in app.echo.record.of("judged")] == ["judge", "b"]
    denied = call(app, "judged", "/", ("x-echo-status", "403"), ("x-echo-id", "denied"))
    assert denied.status == 403
    assert [seen.service for seen in app.echo.record.of("denied")] == ["judge"]
    assert not any(name.lower().startswith(("x-envoy", "x-admc")) for name, _ in denied.headers)


def test_buffer_limit(app: Running) -> None:
    assert call(app, "small", method="POST", body=b"0123456789").status == 200
    assert call(app, "small", method="POST", body=b"0123456789a").status == 413


@pytest.mark.parametrize(("length", "status"), [(0, 200), (10, 200), (11, 413), (40_000, 413)])
def test_buffer_limit_counts_what_comes_with_the_end_of_an_http_2_request(
    app: Running, length: int, status: int
) -> None:
    """A body in one frame, which is the last one, too; and one in several."""
    identity = f"h2-{length}"
    request = Request("POST", "/", (("x-echo-id", identity),), b"b" * length)
    assert h2c(app.target("a", "b", 9000 + PORTS.index("small")), request).status == status
    assert len(app.echo.record.of(identity)) == (status == 200)


def test_matches_of_filters_and_routes_see_the_changes_of_outer_policies(app: Running) -> None:
    moved = call(app, "rewrite", "/old12?x=/old")
    assert moved.seen is not None
    assert moved.seen.path == "/new12?x=/old"
    assert seen_headers(moved)["x-moved"] == "1"
    assert "x-moved" not in seen_headers(call(app, "rewrite", "/olda?/new12"))
    assert call(app, "rewrite", "/oldslow?x", ("x-echo-delay", "1")).status == 504
    assert call(app, "rewrite", "/oldslower", ("x-echo-delay", "0.4")).status == 200


def test_attempts_include_the_first(app: Running) -> None:
    assert call(app, "retry", "/", ("x-echo-status", "503"), ("x-echo-id", "r1")).status == 503
    assert len(app.echo.record.of("r1")) == 3
    own = (("x-forwarded-proto", "gopher"), ("x-envoy-max-retries", "0"), ("x-forwarded-for", "1.2.3.4"))
    call(app, "retry", "/", ("x-echo-status", "503"), ("x-echo-id", "r3"), *own)
    first, *others = [{(n.lower(), v) for n, v in seen.headers} for seen in app.echo.record.of("r3")]
    assert set(own) <= first
    assert others == [first, first], "every attempt is the same request"
    assert call(app, "retry", "/", ("x-echo-status", "500"), ("x-echo-id", "r2")).status == 500
    assert len(app.echo.record.of("r2")) == 1


def test_a_timeout_before_a_retry_bounds_all_attempts_and_one_after_it_each(app: Running) -> None:
    failing = (("x-echo-delay", "0.2"), ("x-echo-status", "502"))
    assert any(_attempts(app, "outer", number, 0.45, *failing) == 2 for number in range(5))
    assert any(_attempts(app, "inner", number, 0.95, ("x-echo-delay", "1")) == 3 for number in range(5))


def _attempts(app: Running, service: str, number: int, most: float, *headers: tuple[str, str]) -> int:
    """How many were cut off in so many seconds; 0 if the machine had other things to do meanwhile."""
    name = f"{service}-{number}"
    reply = call(app, service, "/", *headers, ("x-echo-id", name))
    assert reply.status == 504
    if service == "inner":
        assert reply.seconds > 0.55
    attempts = len(app.echo.record.of(name))
    assert attempts <= (2 if service == "outer" else 3)
    return attempts if reply.seconds < most else 0


def test_access_log_and_count_and_tap(app: Running) -> None:
    call(app, "log", "/a?b=1")
    call(app, "log", "/b")
    soon(lambda: "policy=lines" in _output(app))
    lines = [line for line in _output(app).splitlines() if "policy=lines" in line]
    assert len(lines) == 1
    assert "method=GET path=/a?b=1 status=200" in lines[0]
    call(app, "count", method="POST")
    call(app, "count", method="GET")
    (name,) = [key for key in stats(app) if ".rbac.counted/b.allowed" in key]
    assert stats(app)[name] == 1
    call(app, "tap", "/tapped")
    soon(lambda: any("/tapped" in path.read_text() for path in (app.folder / "taps").glob("captured*")))


def test_overlapping_matches_in_routes_lose_no_policy(app: Running) -> None:
    slow = ("x-echo-delay", "0.3")
    both = call(app, "narrow", "/abc?z=1", slow, ("x-copy", "1"), ("x-echo-id", "both"))
    assert both.status == 504
    soon(lambda: {seen.service for seen in app.echo.record.of("both")} == {"b", "s"})
    only_copy = call(app, "narrow", "/b?a=/abc", slow, ("x-copy", "1"), ("x-echo-id", "copied"))
    assert only_copy.status == 200
    assert len(app.echo.record.of("copied")) == 2
    neither = call(app, "narrow", "/b", slow, ("x-echo-id", "none"))
    assert neither.status == 200
    assert len(app.echo.record.of("none")) == 1
    for seen in (*app.echo.record.of("both"), *app.echo.record.of("none")):
        assert not any("admc" in name.lower() for name, _ in seen.headers)


def test_each_element_of_a_header_is_compared(app: Running) -> None:
    for lines, found in (
        (("a.b",), {"x-listed"}),
        (("x", "a.b"), {"x-listed"}),
        (("x , a.b ,y",), {"x-listed"}),
        (("aXb", "xc"), set()),
        (("x, cd", "\xff"), {"x-begins"}),
        (("\xff", "d1"), {"x-patterned"}),
        (("d", "e"), set()),
        (("c,d1", "a.b"), {"x-listed", "x-begins", "x-patterned"}),
    ):
        seen = seen_headers(call(app, "list", "/", *(("x-l", line) for line in lines)))
        assert {"x-listed", "x-begins", "x-patterned"} & set(seen) == found, lines
    slow = ("x-echo-delay", "0.25")
    assert call(app, "list", "/", ("x-l", "y"), slow).status == 504
    assert call(app, "list", "/", ("x-l", "y"), ("x-l", "z"), slow).status == 200, "`!=` is the negation of `==`"
    assert call(app, "list", "/", slow).status == 504


# ---- gRPC ----


def test_a_grpc_quota_answers_so_that_no_retry_repeats_it(app: Running) -> None:
    ask = Request("POST", "/s/M")
    assert app.call("a", "g", ask).label == "OK"
    late = app.call("a", "g", Request("POST", "/s/M", (("x-echo-delay", "1"),)))
    assert late.label == "DEADLINE_EXCEEDED"
    assert app.call("other", "g", ask).label == "PERMISSION_DENIED"
    assert app.call("a", "g", Request("POST", "/s/M", (("x-echo-status", "14"), ("x-echo-id", "u")))).label in {
        "UNAVAILABLE",
        "RESOURCE_EXHAUSTED",
    }
    assert app.call("a", "g", ask).label == "RESOURCE_EXHAUSTED"
    counted = stats(app)
    assert counted["calls/g.http_local_rate_limit.ok"] == 4
    refused = counted["calls/g.http_local_rate_limit.rate_limited"]
    again = app.call("a", "g", ask)
    assert again.label == "RESOURCE_EXHAUSTED"
    assert stats(app)["calls/g.http_local_rate_limit.rate_limited"] == refused + 1


def test_a_grpc_copy_is_grpc(app: Running) -> None:
    assert app.call("a", "h", Request("POST", "/s/M", (("x-echo-id", "gc"),), b"abc")).label == "OK"
    soon(lambda: {seen.service for seen in app.echo.record.of("gc")} == {"h", "sg"})


# ---- tcp ----


def test_tcp(app: Running) -> None:
    greeted = app.call("other", "store")
    assert greeted.status is None
    assert greeted.body == b"", "who is turned away hears no greeting"
    assert app.call("undeclared", "store").status is None
    assert [app.call("a", "store").status for _ in range(3)] == [200, 200, None]
    office = app.target("office", "store")
    assert exchange(replace(office, source="127.77.1.2"), b""), "by its network"
    assert stats(app)["tcp.refused/readers/store.downstream_cx_no_route"] == 2


# ---- callers that addresses tell apart ----


def test_an_outside_party_without_a_network_stands_for_every_unknown_caller(tmp_path: Path) -> None:
    text = """
external internet
service a, b { http 8000 }
service c { http 8001 }
call internet, a, b -> c
@ingress
policy strangers = set_request_header(name: "x-stranger", value: "1") on internet -> c
@ingress
policy friends = set_request_header(name: "x-friend", value: "1") on * except internet -> c
@ingress
policy guests = allow(callers: [internet, b]) on * -> c when path == "/guests"
"""
    _, placement = load(text)
    assert {decision.place for decision in placement.decisions} == {Place.INGRESS}
    with running(text, tmp_path) as live:
        for source, outside in (("a", False), ("b", False), ("internet", True), ("undeclared", True)):
            headers = seen_headers(live.call(source, "c"))
            assert ("x-stranger" in headers) is outside, source
            assert ("x-friend" in headers) is not outside, source
        assert live.call("b", "c", Request(path="/guests")).status == 200
        assert live.call("a", "c", Request(path="/guests")).status == 403
        assert live.call("undeclared", "c", Request(path="/guests")).status == 200
