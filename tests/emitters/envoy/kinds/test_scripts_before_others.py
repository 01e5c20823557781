"""What a script writes changes no policy behind it but by what the policy itself reads.

Envoy's router obeys headers of a request, and filters of an ADM tell each other by headers. A script that runs before
them could write both. Here one script writes what each request asks for.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from admc.testbed.client import Reply, Request, send
from dsl.kinds.prelude import kinds as prelude
from emitters.envoy.failure_marks import FAILED
from emitters.envoy.held_headers import CONTROL, COPIED, HELD, HOLD, ROUTE, VERSION
from tests.emitters.envoy.support import ENVOY, Running, bootstraps, load, running, soon
from tests.emitters.envoy.wasm import module

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

SCRIPT: Final = b"""
local function write(headers, wanted)
  for name, value in string.gmatch(wanted or "", "([^=;]+)=([^;]*)") do headers:replace(name, value) end
end
function envoy_on_request(handle)
  local headers = handle:headers()
  write(headers, headers:get("x-write"))
  for name in string.gmatch(headers:get("x-drop") or "", "[^;]+") do headers:remove(name) end
  handle:streamInfo():dynamicMetadata():set("test", "answer", headers:get("x-answer") or "")
end
function envoy_on_response(handle)
  write(handle:headers(), handle:streamInfo():dynamicMetadata():get("test")["answer"])
end
"""
MINE: Final = b"""\
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "function envoy_on_request(handle) end"}
"""
PORTS: Final = ("timed", "again", "each", "copied", "split", "plain")
TEXT: Final = (
    "service a, c { http 8000 }\nservice s { http 8003 }\n"
    + f"service b {{ {'  '.join(f'http {name} {9000 + at}' for at, name in enumerate(PORTS))} }}\n"
    + "".join(f"call a -> b:{name}\n" for name in PORTS)
    + """
service d { http 8005 }
service g { grpc 8006 }
service e, down, f { http 8007 }
service h { http 8008 }
call a -> s, g, e, down, f
call a, c -> d, h
policy script = lua(script: "x.lua") on a -> {b, d, g}
policy e_again = retry(attempts: 3, on: [connect_failure], backoff: 1ms) on a -> {e, down}
policy f_again = retry(attempts: 3, backoff: 1ms) on a -> f
@ingress
policy inner = lua(script: "x.lua") on * -> {e, down, f, h}
policy timed = timeout(after: 300ms) on a -> b:timed
policy again = retry(attempts: 3, backoff: 1ms) on a -> b:again
policy each_again = retry(attempts: 2, on: [gateway_error], backoff: 1ms) on a -> b:each
policy each = timeout(after: 300ms) on a -> b:each
policy copied = mirror(to: s) on a -> b:copied when header("x-copy") == "1"
policy split = split(to: s, percent: 100%) on a -> b:split when header("x-split") == "1"
policy rpc = timeout(after: 300ms) on a -> g
@ingress
policy quota = rate_limit(requests: 2, per: 1h) on * -> d when header("x-envoy-retry-on") == "counted"
policy bounded = circuit_breaking(max_requests: 1) on a -> h
"""
)
CONTROLS: Final[dict[str, str]] = {
    "expected-rq-timeout-ms": "5000",
    "force-trace": "1",
    "hedge-on-per-try-timeout": "true",
    "internal": "true",
    "ip-tags": "x",
    "max-retries": "9",
    "original-url": "http://x/",
    "retriable-header-names": "content-type",
    "retriable-status-codes": "200,404,503",
    "retry-grpc-on": "unavailable",
    "retry-on": "5xx,retriable-status-codes,retriable-headers",
    "upstream-alt-stat-name": "x",
    "upstream-rq-per-try-timeout-ms": "40",
    "upstream-rq-timeout-alt-response": "1",
    "upstream-rq-timeout-ms": "5000",
    "upstream-stream-duration-ms": "40",
    "attempt-count": "9",
    "decorator-operation": "x",
    "immediate-health-check-fail": "1",
    "original-path": "/other",
    "is-timeout-retry": "true",
    "overloaded": "true",
    "ratelimited": "true",
}
"""Headers that Envoy knows, without their prefix. It obeys the first sixteen of them on requests."""
OTHERS: Final = {"grpc-timeout": "5S", HELD: "https"}


def under(prefix: str, controls: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}-{name}": value for name, value in controls.items()}


ALL: Final = under(CONTROL, CONTROLS) | OTHERS
SETS: Final = {
    **{name: {name: value} for name, value in ALL.items()},
    "each": ALL,
    "Envoy's own names": under("x-envoy", CONTROLS),
    "a short timeout": under(CONTROL, {"upstream-rq-timeout-ms": "40"}),
    "retries": under(
        CONTROL, {"retry-on": "5xx,retriable-status-codes", "retriable-status-codes": "200", "max-retries": "9"}
    ),
    "hedging": under(
        CONTROL, {"hedge-on-per-try-timeout": "true", "upstream-rq-per-try-timeout-ms": "40", "retry-on": "5xx"}
    ),
}


CASES: Final = [
    pytest.param(name, marks=() if name not in ALL and name != "each" else pytest.mark.long) for name in SETS
]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(TEXT, tmp_path_factory.mktemp("scripts"), {"x.lua": SCRIPT}, without={"down"}) as live:
        yield live


def asked(path: str, headers: Mapping[str, str], method: str = "GET") -> Request:
    return Request(method, path, tuple((f"x-{name.replace('_', '-')}", value) for name, value in headers.items()))


def call(app: Running, port: str, path: str, **headers: str) -> Reply:
    return app.call("a", "b", asked(path, headers), 9000 + PORTS.index(port))


def written(headers: Mapping[str, str]) -> str:
    return ";".join(f"{name}={value}" for name, value in headers.items())


@pytest.mark.parametrize("name", CASES)
def test_no_header_of_a_script_changes_a_later_policy(app: Running, name: str) -> None:
    wanted = written(SETS[name])
    slow = call(app, "timed", "/", write=wanted, echo_delay="0.6")
    assert (slow.status, slow.seconds < 0.55) == (504, True)
    assert call(app, "plain", "/", write=wanted, echo_delay="0.1").status == 200
    failing = {"write": wanted, "echo_status": "503", "echo_id": f"again {name}"}
    assert call(app, "again", "/", **failing).status == 503
    assert len(app.echo.record.of(failing["echo_id"])) == 3
    once = {"write": wanted, "echo_status": "503", "echo_id": f"plain {name}"}
    assert call(app, "plain", "/", **once).status == 503
    assert len(app.echo.record.of(once["echo_id"])) == 1
    late = {"write": wanted, "echo_delay": "0.6", "echo_id": f"each {name}"}
    assert call(app, "each", "/", **late).status == 504
    assert len(app.echo.record.of(late["echo_id"])) == 2


@pytest.mark.parametrize("name", CASES)
def test_nor_a_later_policy_on_grpc(app: Running, name: str) -> None:
    late = app.call("a", "g", asked("/s/M", {"write": written(SETS[name]), "echo_delay": "0.6"}, "POST"))
    assert late.label == "DEADLINE_EXCEEDED"
    assert late.seconds < 0.55


def test_a_script_at_egress_changes_nothing_at_ingress_but_what_policies_there_read(app: Running) -> None:
    """A header arrives under the name that the script writes, but for those of the proxy."""
    wanted = under("x-envoy", CONTROLS) | {HOLD + HELD: "gopher", f"{HOLD}x-own": "1"}
    reply = app.call("a", "d", asked("/", {"write": f"{written(ALL)};{written(wanted)}", "echo_delay": "0.1"}))
    assert reply.status == 200
    assert reply.seen is not None
    assert reply.seen.header("x-envoy-upstream-rq-timeout-ms") == ("5000",)
    assert reply.seen.header(HELD) == ("gopher",)
    assert not any(name.lower().startswith("x-admc-") for name, _ in reply.seen.headers)
    counted = {"write": "x-envoy-retry-on=counted"}
    statuses = [app.call("a", "d", asked("/", counted)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


def test_a_header_of_a_client_arrives_whatever_a_script_writes_and_drops(app: Running) -> None:
    given = (
        ("x-envoy-retry-on", "5xx"),
        (HELD, "https"),
        ("x-drop", f"{HELD};{VERSION}"),
        ("x-write", f"{COPIED}=1"),
        ("x-forwarded-for", "1.2.3.4"),
    )
    reply = app.call("a", "b", Request("GET", "/", given), 9000 + PORTS.index("plain"))
    assert reply.seen is not None
    assert reply.seen.header("x-envoy-retry-on") == ("5xx",)
    assert reply.seen.header(HELD) == ("https",)
    assert reply.seen.header("x-forwarded-for") == ("1.2.3.4",)
    assert not any(name.lower().startswith("x-admc-") for name, _ in reply.seen.headers)


def test_a_script_cannot_tell_a_route_that_another_caller_sent_the_request(app: Running) -> None:
    """A breaker that holds for some callers only has routes of its own; a filter tells the route table the caller."""
    marks = set(re.findall(rf"{ROUTE}[0-9a-f]+", (app.folder / "h.yaml").read_text()))
    assert len(marks) == 1
    forged = asked("/", {"write": f"{marks.pop()}=1", "echo_delay": "0.5"})
    with ThreadPoolExecutor(2) as pool:
        for caller, wanted in (("a", {200, 503}), ("c", {200})):
            first, second = pool.map(lambda _, caller=caller: app.call(caller, "h", forged).status, range(2))
            assert {first, second} == wanted, caller


def test_a_script_cannot_tell_a_copy_another_version(app: Running) -> None:
    for number, wanted in enumerate(("", f"{VERSION}=HTTP/2")):
        name = f"copy {number}"
        assert call(app, "copied", "/", copy="1", write=wanted, echo_id=name).status == 200
        soon(lambda name=name: len(app.echo.record.of(name)) == 2)
        copy = next(seen for seen in app.echo.record.of(name) if seen.service == "s")
        assert copy.protocol == "http/1.1"


def test_a_script_cannot_mark_an_answer_as_a_failure_that_a_retry_repeats(app: Running) -> None:
    forged = {"answer": f"{FAILED}=upstream_reset_before_response_started{{connection_failure}}"}
    for number, status in enumerate(("503", "200")):
        name = f"forged {number}"
        reply = app.call("a", "e", asked("/", {**forged, "echo_status": status, "echo_id": name}))
        assert (reply.status, reply.header(FAILED)) == (int(status), ())
        assert len(app.echo.record.of(name)) == 1


def test_a_script_at_ingress_cannot_keep_a_retry_from_repeating(app: Running) -> None:
    for name, shown in (("x-envoy-ratelimited", ("true",)), (f"{CONTROL}-ratelimited", ())):
        hidden = {"answer": f"{name}=true;retry-after=9", "echo_status": "503", "echo_id": name}
        reply = app.call("a", "f", asked("/", hidden))
        assert (reply.status, reply.header(name)) == (503, shown)
        assert len(app.echo.record.of(name)) == 3


@pytest.mark.parametrize("answer", ["", f"{FAILED}=x"])
def test_nor_hide_a_failure(app: Running, answer: str) -> None:
    counter = "cluster.egress/down_8007.upstream_rq_retry"
    before = app.envoys.running["a"].stats().get(counter, 0)
    reply = app.call("a", "down", asked("/", {"answer": answer}))
    assert (reply.status, reply.header(FAILED)) == (503, ())
    assert app.envoys.running["a"].stats().get(counter, 0) - before == 2


def test_callers_without_an_adm_see_no_mark_of_an_answer(app: Running) -> None:
    """And the mark of a failure as without a script."""
    target = replace(app.target("stranger", "e"), source="127.0.0.1")
    for forged in ("", f"{FAILED}=x"):
        assert send("http", target, asked("/", {"answer": forged})).header(FAILED) == ()


def test_what_may_write_every_header_says_so(tmp_path: Path) -> None:
    """Whatever has no known effects on requests is such a policy."""
    text = (
        'service a, b { http 8000 }\ncall a -> b\n@egress\nkind mine() for http template "mine.yaml"\n'
        "policy p = USE on a -> b\n"
    )
    files = {"x.lua": SCRIPT, "mine.yaml": MINE, "m.wasm": module()}
    kinds = {name for name, declared in prelude().items() if declared.kind.effects is None}
    uses = {"lua": 'lua(script: "x.lua")', "wasm": 'wasm(module: "m.wasm")', "mine": "mine()"}
    assert kinds | {"mine"} == uses.keys()
    for use in uses.values():
        content = b"".join(bootstraps(*load(text.replace("USE", use), files)).values())
        assert b"/held-headers" in content
    assert b"/held-headers" not in b"".join(bootstraps(*load(text.replace("USE", "request_count()"), files)).values())
