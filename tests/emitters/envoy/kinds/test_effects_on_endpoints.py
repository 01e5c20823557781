"""Which endpoint gets a request, which requests are sent again, and which an authorization service admits."""

from __future__ import annotations

import contextlib
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.config.core.v3 import base_pb2 as core_pb2
from envoy.service.auth.v3 import external_auth_pb2, external_auth_pb2_grpc
from envoy.type.v3 import http_status_pb2

from dsl.program import Place
from tests.emitters.envoy.served import BAD, OK, Served, Server, ok, served
from tests.emitters.envoy.support import ENVOY, soon

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

BASE = "service a { http 8000 }\nservice b { http 8001 }\ncall a -> b\n"


def bad(head: bytes, body: bytes) -> bytes:
    return BAD


def asked(servers: list[Server]) -> list[int]:
    return [len(server.received) for server in servers]


# ---- which endpoint ----


def _errors_until_well(live: Served, row: int) -> int:
    """How many errors there are until only good answers come, so many in a row as turns would not give."""
    errors = well = 0
    deadline = time.monotonic() + 60
    while well < row:
        assert time.monotonic() < deadline, "no endpoint is ejected"
        if live.status("a", "b") == 200:
            well += 1
        else:
            errors, well = errors + 1, 0
    return errors


def test_an_endpoint_that_fails_is_left_out(tmp_path: Path) -> None:
    policy = "policy o = outlier_detection(consecutive_errors: 2, interval: 1s, max_ejected: 50%) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [ok, bad]}) as live:
        assert 2 <= _errors_until_well(live, 10) == asked(live.servers["b"])[1]


@pytest.mark.parametrize("share", ["", ", max_ejected: 1%"])
def test_one_of_several_is_left_out_however_small_the_share(share: str, tmp_path: Path) -> None:
    policy = f"policy o = outlier_detection(interval: 1s{share}) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [ok, bad, ok]}) as live:
        assert 5 <= _errors_until_well(live, 15) == asked(live.servers["b"])[1]


def test_of_few_only_one_is_left_out(tmp_path: Path) -> None:
    policy = "policy o = outlier_detection(consecutive_errors: 2, interval: 1s, max_ejected: 10%) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [bad, bad, ok]}) as live:

        def turns() -> list[int]:
            """How often each is asked in a while."""
            before = asked(live.servers["b"])
            for _ in range(12):
                live.status("a", "b")
            return [now - then for now, then in zip(asked(live.servers["b"]), before, strict=True)]

        soon(lambda: min(turns()) == 0)
        one, other, well = turns()
        assert sorted((one, other)) == [0, 6]
        assert well == 6


def test_a_share_of_zero_ejects_no_endpoint(tmp_path: Path) -> None:
    policy = "policy o = outlier_detection(consecutive_errors: 2, interval: 1s, max_ejected: 0%) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [bad, ok, ok]}) as live:
        assert [live.status("a", "b") for _ in range(18)].count(503) == 6


def test_the_only_endpoint_stays_unless_all_may_be_left_out(tmp_path: Path) -> None:
    policy = "policy o = outlier_detection(consecutive_errors: 2, interval: 1s, max_ejected: 99%) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [bad]}) as live:
        assert {live.status("a", "b") for _ in range(8)} == {503}
        assert asked(live.servers["b"]) == [8]


def test_no_endpoint_gets_a_request_where_all_are_ejected(tmp_path: Path) -> None:
    policy = "policy o = outlier_detection(consecutive_errors: 3, interval: 1s, max_ejected: 100%) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [bad]}) as live:
        soon(lambda: b"no healthy upstream" in live.ask("a", "b", b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"))
        before = asked(live.servers["b"])
        assert before >= [3]
        assert {live.status("a", "b") for _ in range(8)} == {503}
        assert asked(live.servers["b"]) == before


@pytest.mark.parametrize("how", ["maglev", "ring_hash"])
def test_one_key_is_one_endpoint(how: str, tmp_path: Path) -> None:
    policy = f'policy l = load_balancing(policy: {how}, hash: "x-user") on a -> b'
    with served(BASE + policy, tmp_path, {"b": [ok, ok, ok]}) as live:
        reached = set()
        for user in range(8):
            before = asked(live.servers["b"])
            for _ in range(3):
                assert live.status("a", "b", headers=f"x-user: {user}\r\n") == 200
            more = [after - old for after, old in zip(asked(live.servers["b"]), before, strict=True)]
            assert sorted(more) == [0, 0, 3], "all of one user at one endpoint"
            reached.add(more.index(3))
        assert len(reached) > 1


@pytest.mark.parametrize("how", ["round_robin", "least_request", "random"])
def test_endpoints_share_the_work(how: str, tmp_path: Path) -> None:
    policy = f"policy l = load_balancing(policy: {how}) on a -> b"
    with served(BASE + policy, tmp_path, {"b": [ok, ok, ok]}) as live:
        assert {live.status("a", "b") for _ in range(30)} == {200}
        found = asked(live.servers["b"])
        assert sum(found) == 30
        assert found == [10, 10, 10] if how == "round_robin" else min(found) > 0


# ---- bodies ----


@pytest.mark.parametrize(("size", "attempts"), [(5_000_000, 3), ((64 << 20) + 1_000_000, 1)], ids=["kept", "too long"])
def test_a_body_is_sent_again_up_to_what_is_kept(size: int, attempts: int, tmp_path: Path) -> None:
    with served(BASE + "policy r = retry(attempts: 3, backoff: 1ms) on a -> b", tmp_path, {"b": [bad]}) as live:
        raw = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size
        assert live.ask("a", "b", raw + b"z" * size, 2).startswith(b"HTTP/1.1 503")
        (server,) = live.servers["b"]
        assert [len(body) for _, body in server.received] == [size] * attempts


def test_a_copy_has_the_whole_body(tmp_path: Path) -> None:
    text = BASE + "service c { http 8002 }\ncall a -> c\npolicy m = mirror(to: c) on a -> b\n"
    size = 5_000_000
    with served(text, tmp_path) as live:
        raw = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % size
        assert live.ask("a", "b", raw + b"z" * size, 1).startswith(b"HTTP/1.1 200")
        soon(lambda: all(live.servers[name][0].received for name in ("b", "c")))  # a copy comes behind the answer
        for name in ("b", "c"):
            assert [len(body) for _, body in live.servers[name][0].received] == [size]


def test_a_timeout_runs_from_the_end_of_the_request(tmp_path: Path) -> None:
    def late(head: bytes, body: bytes) -> bytes:
        if b"/now" in head:
            return b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        time.sleep(5)
        return OK

    with served(BASE + "policy t = timeout(after: 300ms) on a -> b", tmp_path, {"b": [late]}) as live:
        target = live.targets["a", "b"]
        took: list[float] = []
        while len(took) < 5 and not any(each < 0.55 for each in took):  # the machine may have other things to do
            with socket.create_connection((target.address, target.port), 5, (target.source, 0)) as client:
                client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\na")
                time.sleep(0.5)
                ended = time.monotonic()
                client.sendall(b"b")
                assert client.recv(1000).startswith(b"HTTP/1.1 504")
                took.append(time.monotonic() - ended)
        assert 0.25 < min(took) < 0.55
        upgrade = f"HTTP/1.1\r\nhost: x\r\n{UPGRADE}\r\n"
        late_tunnel = live.ask("a", "b", f"GET / {upgrade}".encode(), 1)
        assert late_tunnel.startswith(b"HTTP/1.1 504"), "a request for a tunnel ends with its headers"
        with socket.create_connection((target.address, target.port), 5, (target.source, 0)) as client:
            client.sendall(f"GET /now {upgrade}".encode())
            assert client.recv(1000).startswith(b"HTTP/1.1 101")
            client.settimeout(0.8)
            with pytest.raises(TimeoutError):  # nothing comes, and neither end closes it
                client.recv(1000)


UPGRADE = "connection: upgrade\r\nupgrade: websocket\r\n"


@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_what_waits_for_a_body_waits_for_no_tunnel(side: str, tmp_path: Path) -> None:
    def answer(head: bytes, body: bytes) -> bytes:
        if b"upgrade: websocket" in head:
            return b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello"
        return OK

    with served(f"{BASE}@{side}\npolicy p = buffer_limit(max: 1KB) on a -> b", tmp_path, {"b": [answer]}) as live:
        post = "POST / HTTP/1.1\r\nhost: x\r\n"
        with socket.create_connection(
            (live.targets["a", "b"].address, live.targets["a", "b"].port), 5, (live.targets["a", "b"].source, 0)
        ) as client:
            client.sendall(f"{post}content-length: 2\r\nexpect: 100-continue\r\n\r\n".encode())
            assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n", "the ADM answers by itself"
            client.sendall(b"ab")
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        tunnel = live.ask("a", "b", f"GET / HTTP/1.1\r\nhost: x\r\n{UPGRADE}\r\n".encode(), ends=b"hello")
        assert tunnel.startswith(b"HTTP/1.1 101")
        assert tunnel.endswith(b"hello")
        before = asked(live.servers["b"])
        for more, body in (
            ("content-length: 2000\r\n", b"x" * 2000),
            ("transfer-encoding: chunked\r\n", b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n"),
            (f"content-length: 2000\r\n{UPGRADE}", b"x" * 2000),
            (f"transfer-encoding: chunked\r\n{UPGRADE}", b"7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n"),
        ):
            assert live.ask("a", "b", f"{post}{more}\r\n".encode() + body).startswith(b"HTTP/1.1 413"), more
        assert asked(live.servers["b"]) == before


# ---- who decides ----


class Judge(external_auth_pb2_grpc.AuthorizationServicer):
    """Lets pass whatever does not begin with `/no`."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802 - gRPC's name
        asked_for = request.attributes.request.http
        self.paths.append(asked_for.path)
        answer = external_auth_pb2.CheckResponse()
        if asked_for.path.startswith("/no"):
            answer.status.code = grpc.StatusCode.PERMISSION_DENIED.value[0]
            answer.denied_response.status.code = http_status_pb2.StatusCode.Unauthorized
            answer.denied_response.body = "no"
        else:
            yes = answer.ok_response
            for headers, name, value in (
                (yes.headers, "x-added", "1"),
                (yes.response_headers_to_add, "x-added", "1"),
                (yes.response_headers_to_add, "content-length", "1"),
                (yes.response_headers_to_add, ":status", "418"),
            ):
                added = headers.add(append_action=core_pb2.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD)
                added.header.key, added.header.value = name, value
            yes.headers_to_remove.append("x-kept")
            yes.query_parameters_to_set.add(key="role", value="admin")
            yes.query_parameters_to_remove.append("q")
        return answer


@contextlib.contextmanager
def judging(judge: Judge, address: str, port: int) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    external_auth_pb2_grpc.add_AuthorizationServicer_to_server(judge, server)
    server.add_insecure_port(f"{address}:{port}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait(2)


@pytest.mark.parametrize("named", ["judge", "judge:decide"])
def test_external_authorization_by_grpc(named: str, tmp_path: Path) -> None:
    port = "grpc decide 7000" if ":" in named else "grpc 7000"
    more = "\n  http web 7001\n" if ":" in named else ""
    text = f"{BASE}service judge {{\n  {port}{more}\n}}\npolicy e = external_authorization(service: {named}) on a -> b"
    judge = Judge()

    @contextlib.contextmanager
    def start(address: str, number: int) -> Iterator[None]:
        with judging(judge, address, number) if number == 7000 else contextlib.nullcontext():
            yield

    with served(text, tmp_path, apart={"judge": start}) as live:
        answer = live.ask("a", "b", b"GET /yes?q=1 HTTP/1.1\r\nhost: x\r\nx-kept: 1\r\n\r\n")
        assert live.status("a", "b", "/no") == 401, "the status that the judge chose"
        assert judge.paths == ["/yes?q=1", "/no"]
        ((head, _),) = live.servers["b"][0].received
        assert head.startswith(b"GET /yes?q=1 HTTP/1.1\r\n"), "it decides; it does not rewrite"
        assert b"x-kept: 1" in head
        assert b"x-added" not in head
        head, _, body = answer.partition(b"\r\n\r\n")
        sent, _, whole = OK.partition(b"\r\n\r\n")
        assert (head.split(b"\r\n")[0], body) == (sent.split(b"\r\n")[0], whole)
        assert b"x-added" not in head


def test_a_match_leaves_out_questions_by_grpc(tmp_path: Path) -> None:
    """So the policy may stand in front of the service that it asks: what is asked there has no end otherwise."""
    scope = 'on * -> {b, judge} when path != "/envoy.service.auth.v3.Authorization/Check"'
    text = f"{BASE}service judge {{ grpc 7000 }}\npolicy e = external_authorization(service: judge) {scope}"
    judge = Judge()
    with served(text, tmp_path, apart={"judge": partial(judging, judge)}) as live:
        assert live.status("a", "b", "/yes") == 200
        assert judge.paths == ["/yes"]
        assert [decision.place for decision in live.placement.decisions if decision.destination == "judge"] == [
            Place.INGRESS
        ]


@pytest.mark.parametrize(("fail_open", "status"), [("false", 403), ("true", 200)])
def test_a_judge_that_is_not_there(fail_open: str, status: int, tmp_path: Path) -> None:
    text = (
        f"{BASE}service judge {{ grpc 7000 }}\n"
        f"policy e = external_authorization(service: judge, fail_open: {fail_open}) on a -> b"
    )
    with served(text, tmp_path, apart={"judge": lambda *_: contextlib.nullcontext()}) as live:
        assert live.status("a", "b") == status


def silent(head: bytes, body: bytes) -> bytes:
    time.sleep(5)
    return OK


@pytest.mark.parametrize("there", [False, True], ids=["away", "slow"])
def test_a_failing_authorization_service_admits_no_request_that_looks_like_grpc(there: bool, tmp_path: Path) -> None:
    text = f"{BASE}service judge {{ http 7000 }}\npolicy e = external_authorization(service: judge) on a -> b"
    apart = {} if there else {"judge": lambda *_: contextlib.nullcontext()}
    with served(text, tmp_path, {"judge": [silent]}, apart) as live:
        raw = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\n\r\n"
        refused = live.ask("a", "b", raw, 0.8).lower()
        assert b"grpc-status: 7" in refused, "permission denied, as gRPC says it"
        assert asked(live.servers["b"]) == [0]


# ---- arguments that name a port ----


def test_targets_that_name_a_port(tmp_path: Path) -> None:
    text = """
service a { http 8000 }
service b { http 8001 }
service c {
  http one 8002
  http two 8003
}
call a -> b, c:one, c:two
policy s = split(to: c:two, percent: 100%) on a -> b when path == "/split"
policy m = mirror(to: c:one) on a -> b when path == "/copy"
"""
    with served(text, tmp_path) as live:
        assert live.status("a", "b", "/split") == 200
        assert asked(live.servers["b"] + live.servers["c"]) == [0, 0, 1]
        assert live.status("a", "b", "/copy") == 200
        assert live.status("a", "b") == 200
        soon(lambda: asked(live.servers["b"] + live.servers["c"]) == [2, 1, 1])  # a copy is sent beside the original
