"""Replies that an ADM gives itself: no body where the status has none, and what a late one does to an answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import pytest

from admc.testbed.client import Request, h2c
from emitters.addresses.dialing import binds
from emitters.envoy.chains.http import BODILESS
from emitters.envoy.failure_marks import FAILED
from emitters.envoy.held_headers import CONTROL
from emitters.envoy.messages.typed import message
from tests.emitters.envoy.support import ENVOY, Running, bootstraps, exchange, load, running
from tests.emitters.envoy.wasm import module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

SIDES = ("egress", "ingress")
PORTS = {(side, status): 8100 + 1000 * SIDES.index(side) + status for side in SIDES for status in (*BODILESS, 503)}
LUA = b"""\
function envoy_on_request(handle)
  handle:respond({[":status"] = handle:headers():get("x-status")}, "a body")
end
"""
TEMPLATE = b"""\
"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault
abort: {header_abort: {}, percentage: {numerator: 100}}
"""
NAMING = f"""\
function envoy_on_request(handle)
  handle:headers():add("{CONTROL}-fault-abort-request", handle:headers():get("x-status"))
end
""".encode()
TEXT = f"""
service front {{ http 8000 }}
service back {{
{chr(10).join(f"  http p{port} {port}" for port in PORTS.values())}
  http asked 8001
  http own 8002
  http away 8003
  http again 8004
}}
service check {{ grpc 9201 }}
@ingress
@egress
kind turned_away() for http template "away.yaml"
call front -> back:asked, back:own, back:away, back:again, {", ".join(f"back:p{port}" for port in PORTS.values())}
policy asked = external_authorization(service: check) on front -> back:asked
policy again = retry(attempts: 3, on: [connect_failure], backoff: 1ms) on front -> back:again
policy asked_again = external_authorization(service: check) on front -> back:again
policy own = lua(script: "reply.lua") on front -> back:own
policy naming = lua(script: "naming.lua") on front -> back:away
policy away = turned_away() on front -> back:away
""" + "".join(
    f"@{side}\npolicy p{port} = fault_abort(status: {status}) on front -> back:p{port}\n"
    for (side, status), port in PORTS.items()
)


class Check(grpc.GenericRpcHandler):
    """An authorization service that turns requests away with the status that the request names, and a body; or it says
    what the request tells it to, byte for byte."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            asked = message("envoy.service.auth.v3.CheckRequest", {}).FromString(request)
            headers = asked.attributes.request.http.headers  # type: ignore[attr-defined]  # by its name
            if "x-verdict" in headers:
                return bytes.fromhex(headers["x-verdict"])
            status = int(headers["x-status"])
            denied = {"status": {"code": status}, "body": "a body"}
            answer = {"status": {"code": 7}, "denied_response": denied}
            return message("envoy.service.auth.v3.CheckResponse", answer).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("replies")
    with running(
        TEXT, folder, {"reply.lua": LUA, "naming.lua": NAMING, "away.yaml": TEMPLATE}, without=("check",)
    ) as live:
        (bind,) = [bind for bind in binds(live.program, live.placement, live.addresses) if bind.service == "check"]
        server = grpc.server(ThreadPoolExecutor(4), handlers=[Check()])
        server.add_insecure_port(f"{bind.address}:{bind.port}")
        server.start()
        yield live
        server.stop(None).wait()


def _naming(status: int) -> tuple[tuple[str, str], ...]:
    """A header by which a request says how it is to be answered."""
    return (("x-status", str(status)),)


def _answers(app: Running, port: int, method: str, status: int) -> list[bytes]:
    """Two requests in a row on one connection: a body that should not be there would begin the second answer."""
    names = "".join(f"{name}: {value}\r\n" for name, value in _naming(status))
    ask = f"{method} / HTTP/1.1\r\nHost: back\r\n{names}"
    both = f"{ask}\r\n{ask}Connection: close\r\n\r\n".encode()
    heads = exchange(app.target("front", "back", port), both).split(b"\r\n\r\n")
    assert heads.pop() == b""
    return heads


def _asked(app: Running, port: int, status: int) -> None:
    for method in ("GET", "HEAD"):
        heads = _answers(app, port, method, status)
        assert [head.split()[1] for head in heads] == [str(status).encode()] * 2, heads
        assert all(b"content-length: 18" not in head for head in heads), heads
    reply = h2c(app.target("front", "back", port), Request(headers=_naming(status)))
    assert (reply.status, reply.body, reply.header("content-type")) == (status, b"", ())


@pytest.mark.parametrize("status", BODILESS)
@pytest.mark.parametrize("side", SIDES)
def test_an_abort_with_a_status_that_has_no_body_has_none(app: Running, side: str, status: int) -> None:
    _asked(app, PORTS[side, status], status)


@pytest.mark.parametrize("status", BODILESS)
@pytest.mark.parametrize("port", [8001, 8002, 8003], ids=["external_authorization", "lua", "template"])
def test_whatever_else_chooses_such_a_status_sends_no_body_either(app: Running, port: int, status: int) -> None:
    _asked(app, port, status)


@pytest.mark.parametrize("status", [100, 101, 103])
def test_an_interim_status_that_an_authorization_service_chooses_is_a_plain_no(app: Running, status: int) -> None:
    heads = _answers(app, 8001, "GET", status)
    assert [head.split()[1] for head in heads] == [b"403"] * 2, heads
    reply = h2c(app.target("front", "back", 8001), Request(headers=(("x-status", str(status)),)))
    assert (reply.status, reply.body) == (403, b"")


ADDS = {"response_headers_to_add": [{"header": {"key": "x-added", "value": "1"}}]}
ADDED = message("envoy.service.auth.v3.OkHttpResponse", ADDS).SerializeToString()
FIELD = bytes([len(ADDED)]) + ADDED
DENIED = message(
    "envoy.service.auth.v3.CheckResponse",
    {"status": {"code": 7}, "denied_response": {"status": {"code": 402}, "headers": [], "body": "no"}},
).SerializeToString()
VERDICTS = {
    "nothing at all": (b"", 200),
    "a status": (b"\x0a\x00", 200),
    "a yes with more": (b"\x1a" + FIELD, 200),
    "a field number in two bytes": (b"\x9a\x00" + FIELD, 200),
    "a length in two bytes": (b"\x1a" + bytes([FIELD[0] | 0x80, 0]) + ADDED, 200),
    "twice, and others around": (b"\x1a" + FIELD + b"\xa0\x06\x96\x01\xad\x06abcd" + b"\x1a" + FIELD, 200),
    "eight bytes and a long field": (b"\xa1\x06abcdefgh\xaa\x06\xac\x02" + b"x" * 300 + b"\x1a" + FIELD, 200),
    "a no": (DENIED, 402),
    "a no behind a yes": (b"\x1a" + FIELD + DENIED, 402),
    "a no before a yes": (DENIED + b"\x1a" + FIELD, 402),
    "a field number in five bytes": (b"\x9a\x80\x80\x80\x00" + FIELD, 403),
    "a group": (b"\x1b\x1c", 403),
    "cut off": (b"\x1a\x7f" + ADDED, 403),
    "the end of a number": (b"\x1a\x80", 403),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_a_verdict_by_grpc_is_only_read_for_its_yes_or_no(app: Running, name: str) -> None:
    said, status = VERDICTS[name]
    reply = app.call("front", "back", Request(headers=(("x-verdict", said.hex()),)), 8001)
    assert (reply.status, reply.header("x-added")) == (status, ())
    assert reply.body == (b"no" if status == 402 else b"") or status == 200


@pytest.mark.parametrize("status", [403, 503])
def test_a_refusal_by_grpc_is_no_failure_that_a_retry_repeats(app: Running, status: int) -> None:
    mark = {"header": {"key": FAILED, "value": "upstream_reset_before_response_started{connection_failure}"}}
    denied = {"status": {"code": status}, "headers": [mark], "body": "no"}
    said = message("envoy.service.auth.v3.CheckResponse", {"status": {"code": 7}, "denied_response": denied})
    counter = "cluster.egress/back_8004.upstream_rq_retry"
    before = app.envoys.running["front"].stats().get(counter, 0)
    reply = app.call("front", "back", Request(headers=(("x-verdict", said.SerializeToString().hex()),)), 8004)
    assert (reply.status, reply.body, reply.header(FAILED)) == (status, b"no", ())
    assert app.envoys.running["front"].stats().get(counter, 0) == before


@pytest.mark.parametrize(
    ("policy", "any_status"),
    [('wasm(module: "own.wasm")', True), ("deny()", False), ("fault_abort(status: 503)", False)],
)
def test_replies_are_changed_only_where_a_policy_may_choose_such_a_status(policy: str, any_status: bool) -> None:
    text = f"service front, back {{ http 8000 }}\ncall front -> back\npolicy own = {policy} on front -> back\n"
    (bootstrap,) = bootstraps(*load(text, {"own.wasm": module()})).values()
    assert [f"admc.status.{status}".encode() in bootstrap for status in BODILESS] == [any_status] * len(BODILESS)


def test_a_reply_with_another_status_keeps_its_body(app: Running) -> None:
    for side in SIDES:
        assert app.call("front", "back", number=PORTS[side, 503]).body == b"fault filter abort"
    for port in (8001, 8002):
        assert app.call("front", "back", Request(headers=(("x-status", "403"),)), port).body == b"a body"


# ---- a timeout, before an answer has begun and in the middle of one ----

CUT = """
service front { grpc 8000 }
service back { grpc 8001 -> 8002 }
call front -> back
"""
CUT_AFTER = "policy cut = timeout(after: 400ms) on front -> back\n"
PIECES, STEP = 5, 0.2


class Talker(grpc.GenericRpcHandler):
    """`Silent` answers nothing in time; `Stream` begins at once and takes longer than the time."""

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        silent = details.method.endswith("/Silent")

        def answer(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            if silent:
                time.sleep(PIECES * STEP)
            for _ in range(PIECES):
                yield b"x"
                time.sleep(STEP)

        return grpc.unary_stream_rpc_method_handler(answer)


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        (CUT_AFTER, "INTERNAL"),
        (CUT_AFTER + "@ingress\npolicy seen = request_count() on front -> back", "INTERNAL"),
        (CUT_AFTER + "policy again = retry(attempts: 3, on: [server_error]) on front -> back", "INTERNAL"),
        ("policy again = retry(attempts: 2) on front -> back\n" + CUT_AFTER, "OK"),
    ],
    ids=["alone", "two ADMs", "all attempts together", "each attempt"],
)
def test_what_a_grpc_caller_gets_when_its_time_is_up(text: str, stream: str, tmp_path: Path) -> None:
    with running(CUT + text, tmp_path, without=("back",)) as live:
        (bind,) = [bind for bind in binds(live.program, live.placement, live.addresses) if bind.service == "back"]
        server = grpc.server(ThreadPoolExecutor(8), handlers=[Talker()])
        server.add_insecure_port(f"{bind.address}:{bind.port}")
        server.start()
        target = live.target("front", "back")
        with grpc.insecure_channel(f"{target.address}:{target.port}") as channel:
            assert _code(channel, "Silent") == ("DEADLINE_EXCEEDED", 0)
            # On a busy machine the time may be up before the answer begins.
            tries = (_code(channel, "Stream") for _ in range(5))
            code, pieces = next(each for each in tries if each[1])
        server.stop(None).wait()
    assert code == stream
    assert pieces == PIECES if stream == "OK" else 0 < pieces < PIECES


def _code(channel: grpc.Channel, method: str) -> tuple[str, int]:
    """The status of a call, and how many messages came."""
    pieces = 0
    try:
        for _ in channel.unary_stream(f"/s/{method}")(b"", timeout=20):
            pieces += 1
    except grpc.RpcError as error:
        return str(error.code().name), pieces  # type: ignore[attr-defined]  # a call is an error, too
    return "OK", pieces
