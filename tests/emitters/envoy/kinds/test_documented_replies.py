"""What docs/kinds.md states of answers that an ADM gives itself, and of when it begins and ends to do something."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from admc.testbed.client import GRPC_NAMES, Reply, Request
from emitters.addresses.dialing import binds
from emitters.envoy.messages.typed import message
from tests.emitters.envoy.support import ENVOY, Running, running, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

SERVER_ERRORS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
GRPC_PORTS = "  ".join(f"grpc p{code} {9300 + code}" for code in range(1, 17))
TEXT = f"""
service a {{ http 8000 }}
service b {{ http judged 9000  http asked 9001  http shared 9002  http open 9003  http ejected 9004  http few 9005
  http longer 9006  http longest 9007  http stars 9008 }}
service g {{ grpc 9100 }}
service codes {{ {GRPC_PORTS} }}
service gone {{ tcp 9101 }}
service judge {{ http 9200 }}
service check {{ grpc 9201 }}
call a -> b:judged, b:asked, b:shared, b:open, b:ejected, b:few, b:longer, b:longest, b:stars, g, gone
{"".join(f"call a -> codes:p{code}{chr(10)}" for code in range(1, 17))}
policy judged = external_authorization(service: judge) on a -> b:judged
policy judged_grpc = external_authorization(service: judge) on a -> g
policy asked = external_authorization(service: check) on a -> b:asked
policy shared = cors(origins: ["https://o.example"], methods: ["GET", "PUT"], headers: ["x-h", "x-i"], expose: ["x-e"],
  credentials: true, max_age: 10m) on a -> b:shared
policy stars = cors(origins: ["https://*.o.example", "http://*.o.example:8080"]) on a -> b:stars
policy opened = cors(origins: ["*"]) on a -> b:open
policy ejected = outlier_detection(consecutive_errors: 2, interval: 100ms, ejection: 500ms, max_ejected: 100%)
  on a -> b:ejected
policy longer = outlier_detection(consecutive_errors: 2, interval: 100ms, ejection: 2s, max_ejected: 100%)
  on a -> b:longer
policy longest = outlier_detection(consecutive_errors: 2, interval: 100ms, ejection: 8s, max_ejected: 100%)
  on a -> b:longest
policy few = outlier_detection(consecutive_errors: 2, interval: 100ms, ejection: 60s, max_ejected: 99%) on a -> b:few
policy codes = outlier_detection(consecutive_errors: 2, ejection: 60s, max_ejected: 100%) on a -> codes
policy gone = outlier_detection(consecutive_errors: 2, ejection: 60s, max_ejected: 100%) on a -> gone
""".replace("\n  ", " ")


class Check(grpc.GenericRpcHandler):
    """An authorization service asked by gRPC, which gives the next of its answers."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {}

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            return message("envoy.service.auth.v3.CheckResponse", self.answer).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture(scope="module")
def check() -> Check:
    return Check()


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory, check: Check) -> Iterator[Running]:
    with running(TEXT, tmp_path_factory.mktemp("stated"), without=("check", "gone")) as live:
        (bind,) = [bind for bind in binds(live.program, live.placement, live.addresses) if bind.service == "check"]
        server = grpc.server(ThreadPoolExecutor(4), handlers=[check])
        server.add_insecure_port(f"{bind.address}:{bind.port}")
        server.start()
        yield live
        server.stop(None).wait()


def headers(reply: Reply, prefix: str = "") -> dict[str, str]:
    return {name.lower(): value for name, value in reply.headers if name.lower().startswith(prefix)}


def with_status(status: int, *others: tuple[str, str]) -> Request:
    return Request("GET", "/", (("x-echo-status", str(status)), *others))


# ---- requests that an authorization service refuses ----

OWN = ("x-echo-header", "x-own=1")
SLOW = ("x-echo-delay", "5")


@pytest.mark.parametrize("status", [302, 401, 403, 404, 429])
def test_who_is_turned_away_by_http_gets_the_answer_of_the_service_that_was_asked(app: Running, status: int) -> None:
    reply = app.call("a", "b", with_status(status, OWN), 9000)
    assert reply.status == status
    assert reply.seen is not None
    assert reply.seen.service == "judge"
    assert headers(reply, "x-") == {"x-own": "1"}
    assert headers(reply)["content-type"] == "application/json"


@pytest.mark.parametrize("request_", [with_status(500, OWN), with_status(503, OWN), Request(headers=(SLOW,))])
def test_who_cannot_be_judged_gets_403_and_nothing_else(app: Running, request_: Request) -> None:
    took: list[float] = []
    while len(took) < 5 and not any(each < 0.9 for each in took):  # the machine may have other things to do
        reply = app.call("a", "b", request_, 9000)
        assert (reply.status, reply.body) == (403, b"")
        assert headers(reply).keys() == {"date", "content-length"}
        took.append(reply.seconds)
    assert min(took) < 0.9


def test_headers_of_an_admitting_answer_reach_neither_end(app: Running) -> None:
    seen = app.call("a", "b", Request(headers=(OWN,)), 9000).seen
    assert seen is not None
    assert (seen.service, seen.header("x-own")) == ("b", ())


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INTERNAL"),
        (401, "UNAUTHENTICATED"),
        (403, "PERMISSION_DENIED"),
        (404, "UNIMPLEMENTED"),
        (418, "UNKNOWN"),
        (429, "UNAVAILABLE"),
        (503, "PERMISSION_DENIED"),
    ],
)
def test_a_grpc_caller_gets_the_status_in_its_own_words(app: Running, status: int, code: str) -> None:
    reply = app.call("a", "g", Request("POST", "/s/M", (("x-echo-status", str(status)), OWN)))
    assert reply.label == code
    judged = status < 500
    assert headers(reply, "x-") == ({"x-own": "1"} if judged else {})
    assert ('"service": "judge"' in reply.error) is judged, "the answer's body is the message"


def test_a_service_that_is_asked_by_grpc_says_all_of_it(app: Running, check: Check) -> None:
    check.answer = {"status": {"code": 0}}
    assert app.call("a", "b", number=9001).status == 200
    check.answer = {"status": {"code": 7}}
    reply = app.call("a", "b", number=9001)
    assert (reply.status, reply.body) == (403, b"")
    denied = {"status": {"code": 401}, "headers": [{"header": {"key": "x-own", "value": "1"}}], "body": "go away"}
    check.answer = {"status": {"code": 7}, "denied_response": denied}
    reply = app.call("a", "b", number=9001)
    assert (reply.status, reply.body, headers(reply, "x-")) == (401, b"go away", {"x-own": "1"})


# ---- cors ----

ALLOWED = ("origin", "https://o.example")
PREFLIGHT = ("access-control-request-method", "DELETE")


def test_a_preflight_request_is_answered_by_the_adm(app: Running) -> None:
    reply = app.call("a", "b", Request("OPTIONS", "/", (ALLOWED, PREFLIGHT)), 9002)
    assert (reply.status, reply.body) == (200, b"")
    assert headers(reply) | {"date": ""} == {
        "access-control-allow-origin": "https://o.example",
        "access-control-allow-credentials": "true",
        "access-control-allow-methods": "GET, PUT",
        "access-control-allow-headers": "x-h, x-i",
        "access-control-expose-headers": "x-e",
        "access-control-max-age": "600",
        "content-length": "0",
        "date": "",
    }
    plain = app.call("a", "b", Request("OPTIONS", "/", (ALLOWED, PREFLIGHT)), 9003)
    assert headers(plain, "access-") == {
        "access-control-allow-origin": "https://o.example",
        "access-control-allow-methods": "GET, POST",
        "access-control-max-age": "86400",
    }


def test_an_answer_to_an_allowed_origin_says_so(app: Running) -> None:
    own = ("x-echo-header", "access-control-allow-origin=https://own.example")
    for request_ in (Request(headers=(ALLOWED, own)), Request("OPTIONS", "/", (ALLOWED, own))):
        reply = app.call("a", "b", request_, 9002)
        assert reply.seen is not None
        assert headers(reply, "access-") == {
            "access-control-allow-origin": "https://o.example",
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": "x-e",
        }


def test_other_origins_get_what_the_service_says(app: Running) -> None:
    for method in ("GET", "OPTIONS"):
        reply = app.call("a", "b", Request(method, "/", (("origin", "https://other.example"), PREFLIGHT)), 9002)
        assert reply.seen is not None
        assert headers(reply, "access-") == {}


@pytest.mark.parametrize(
    ("origin", "admitted"),
    [
        ("https://a.o.example", True),
        ("https://a.b.o.example", True),
        ("http://a.o.example:8080", True),
        *(
            (origin, False)
            for origin in (
                *("https://o.example", "https://evilo.example", "https://.o.example", "https://*.o.example"),
                *("https://a.o.example.evil.example", "https://a.oxexample", "https://evil.example/a.o.example"),
                *("https://a.o.example:8080", "http://a.o.example", "https://a.o.example,https://evil.example", "null"),
            )
        ),
    ],
)
def test_a_star_admits_all_subdomains_of_a_host_and_no_other_origin(app: Running, origin: str, admitted: bool) -> None:
    for method in ("GET", "OPTIONS"):
        reply = app.call("a", "b", Request(method, "/", (("origin", origin), PREFLIGHT)), 9008)
        assert reply.header("access-control-allow-origin") == ((origin,) if admitted else ())
        assert (reply.seen is None) is (admitted and method == "OPTIONS")


# ---- outlier detection ----


class LateError(Exception):
    """Something came later than it should. The machine may be to blame."""


def _eject(app: Running, number: int) -> tuple[float, float]:
    """When the last of the errors was asked for, and when it came."""
    asked = 0.0
    for _ in range(2):
        asked = time.monotonic()
        reply = app.call("a", "b", with_status(503), number)
        assert reply.seen is not None, "not ejected yet"
    return asked, time.monotonic()


def _out(app: Running, number: int) -> bool:
    return app.call("a", "b", number=number).status == 503


def _until_out(app: Running, number: int, seconds: float) -> float:
    """When it was last asked before it was out."""
    began = asked = latest = time.monotonic()
    while not _out(app, number):
        latest, asked = asked, time.monotonic()
        if asked - began > seconds:
            raise LateError("it may have been out and in again between two looks")
    return latest


def _back(app: Running, number: int) -> tuple[float, float]:
    """When it was last seen out, and when it was first seen in again."""
    began = seen_out = asked = time.monotonic()
    while _out(app, number):
        assert asked - began < 60
        seen_out = asked
        time.sleep(0.02)
        asked = time.monotonic()
    return seen_out, time.monotonic()


def _ejections(app: Running, number: int, ejection: float) -> None:
    """Three in a row, each longer than the one before. How short they may be holds on any machine."""
    least, seen_out = 0, time.monotonic()
    for times in (1, 2, 3):
        asked, since = _eject(app, number)
        # Each look (ten a second) that finds the endpoint in takes one time from the next ejection.
        least = least + 1 if since - seen_out < 0.09 else 1
        if _until_out(app, number, ejection + 5) - since >= 0.8:
            raise LateError("it was not out at once: Envoy may wait for more changes")
        reply = app.call("a", "b", number=number)
        if reply.status == 200:
            raise LateError("it was in again when it was asked once more")
        assert (reply.status, reply.body) == (503, b"no healthy upstream")
        seen_out, back = _back(app, number)
        assert ejection * least < back - asked, times
        # By when it was asked: an answer may come late on a slow machine.
        if seen_out - since >= ejection * times + 0.1 + 1.0:
            raise LateError("it was out for longer than it may be")


def test_an_ejection_begins_at_once_and_ends_at_a_look_after_its_time(app: Running) -> None:
    for number, ejection in ((9004, 0.5), (9006, 2.0), (9007, 8.0)):
        try:
            return _ejections(app, number, ejection)
        except LateError as error:
            late = error
    raise late


def test_no_more_than_the_share_of_the_endpoints_is_ejected(app: Running) -> None:
    _eject(app, 9005)
    name = "outlier_detection.ejections_overflow"
    soon(lambda: any(name in key and "9005" in key and value for key, value in app.envoys.running["a"].stats().items()))
    assert not _out(app, 9005)


@pytest.mark.parametrize("code", range(1, 17), ids=GRPC_NAMES.__getitem__)
def test_which_grpc_statuses_are_errors(app: Running, code: int) -> None:
    """Those that come by themselves; after headers of the answer none is."""
    number = 9300 + code
    ask = Request("POST", "/s/M")
    alone = ask.with_headers(("x-echo-status", str(code)))
    late = alone.with_headers(OWN)
    # Never two in a row, if those after headers are none.
    for request in (late, late, late, alone, late, alone, late):
        assert app.call("a", "codes", request, number).label == GRPC_NAMES[code]
    assert _detected(app, number) == 0
    for _ in range(2):
        assert app.call("a", "codes", alone, number).label == GRPC_NAMES[code]
    if GRPC_NAMES[code] in SERVER_ERRORS:
        soon(lambda: app.call("a", "codes", ask, number).label == "UNAVAILABLE")
    else:
        assert app.call("a", "codes", ask, number).label == "OK"
        assert _detected(app, number) == 0


def _detected(app: Running, number: int) -> int:
    name = "outlier_detection.ejections_detected_consecutive_5xx"
    found = app.envoys.running["a"].stats()
    return sum(value for key, value in found.items() if name in key and f"_{number}/" in key)


def test_a_connection_that_cannot_be_made_is_an_error(app: Running) -> None:
    for _ in range(2):
        assert app.call("a", "gone").status is None
    name = "outlier_detection.ejections_active"
    soon(lambda: any(name in key and "gone" in key and value for key, value in app.envoys.running["a"].stats().items()))
