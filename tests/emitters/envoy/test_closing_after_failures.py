"""An ADM at a receiver closes the connection of a client with the reply that the receiver's process is not there."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from emitters.envoy.failure_marks import FAILED
from tests.emitters.envoy.failing import Failing
from tests.emitters.envoy.support import ENVOY, load, private, written
from tests.testbed.callers import WIRES, Caller, RequestSpec, wait_for_answers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from emitters.addresses.dialing import Bind
    from tests.testbed.callers import Connection, Dial, Response

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
TEXT = """
service front, proxied { http 8000 }
service back { http web 8001  grpc rpc 8002 }
call front, proxied -> back:web, back:rpc
@egress
policy seen_leaving = request_count() on proxied -> back
@ingress
policy seen = request_count() on front -> back
@ingress
policy closed = deny() on front -> back when path == "/closed"
"""
PORTS = {"http": 8001, "h2c": 8001, "grpc": 8002}
DONE = {"http": 200, "h2c": 200, "grpc": 0}
LOST = {"http": 503, "h2c": 503, "grpc": 14}
ENDING = ("reset_before", "reset_after", "closed_after")
"""The process ends the connection instead of answering: without an ADM it would be the client's own."""
STAYING = {
    "http": ("429", "500", "503"),
    "h2c": ("refused", "stream_reset", "stream_cancel", "429", "503"),
    "grpc": ("refused", "stream_reset", "stream_cancel", "8", "14"),
}
"""Answers, and failures of one request alone."""


class Bed(NamedTuple):
    opens: Mapping[str, Dial]
    """By protocol: from `front`, which has no ADM."""
    proxied: Mapping[str, Dial]
    """From `proxied`, which has one."""
    binds: Mapping[int, Bind]
    envoys: Envoys

    def connect(self, protocol: str) -> Connection:
        return WIRES[protocol](self.opens[protocol])

    def connections_between(self, protocol: str) -> int:
        """How many connections the sender's ADM has opened to that of the receiver."""
        cluster = f"egress/back_{PORTS[protocol]}"
        return self.envoys.running["proxied"].stats()[f"cluster.{cluster}.upstream_cx_total"]

    @contextmanager
    def process(self) -> Iterator[None]:
        """The process of `back`."""
        with ExitStack() as stack:
            for bind in self.binds.values():
                stack.enter_context(Failing(bind.address, bind.port))
            yield


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    program, placement = load(TEXT)
    addresses = private(loopback(program))
    dialled = {(dial.source, dial.number): dial for dial in dials(program, placement, addresses)}

    def opener(source: str, number: int) -> Dial:
        dial = dialled[source, number]
        return lambda: socket.create_connection((dial.address, dial.port), 10, (dial.sender, 0))

    assert ENVOY is not None
    folder = tmp_path_factory.mktemp("closing")
    with Envoys(folder, ENVOY) as envoys:
        envoys.start(written(program, placement, addresses, folder))
        yield Bed(
            {protocol: opener("front", number) for protocol, number in PORTS.items()},
            {protocol: opener("proxied", number) for protocol, number in PORTS.items()},
            {bind.number: bind for bind in binds(program, placement, addresses) if bind.service == "back"},
            envoys,
        )


def spec(protocol: str, way: str, path: str = "/") -> RequestSpec:
    return RequestSpec("front", "back", protocol, path, (("x-fail", way),))


def send(connection: Connection, protocol: str, way: str | None = None, path: str = "/") -> Response:
    return connection.send(spec(protocol, way or str(DONE[protocol]), path), "r")


@pytest.mark.parametrize("protocol", PORTS)
def test_no_connection_gets_a_second_reply_that_the_process_is_gone(bed: Bed, protocol: str) -> None:
    with bed.process():
        kept = bed.connect(protocol)
        for _ in range(2):
            answer = send(kept, protocol)
            assert (answer.status, answer.last) == (DONE[protocol], False)
        with Caller(bed.opens[protocol], [spec(protocol, str(DONE[protocol]))], keep=True, pause=0.01) as callers:
            wait_for_answers([callers], 3)
            assert callers.connections == 1
    answer = send(kept, protocol)
    assert (answer.status, answer.last) == (LOST[protocol], True)
    assert FAILED in dict(answer.headers)
    kept.close()
    with Caller(bed.opens[protocol], [spec(protocol, str(DONE[protocol]))], keep=True, pause=0.01) as callers:
        wait_for_answers([callers], 5)
    assert {request.status for request in callers.made} == {LOST[protocol]}
    assert len(callers.made) == callers.connections, "each reply is the last one on its connection"
    with bed.process():
        again = bed.connect(protocol)
        for _ in range(2):
            answer = send(again, protocol)
            assert (answer.status, answer.last) == (DONE[protocol], False)
        again.close()


@pytest.mark.parametrize("protocol", PORTS)
def test_a_connection_that_the_process_ends_ends_for_the_client_too(bed: Bed, protocol: str) -> None:
    with bed.process():
        for way in ENDING:
            kept = bed.connect(protocol)
            assert not send(kept, protocol).last
            answer = send(kept, protocol, way)
            assert (answer.status, answer.last) == (LOST[protocol], True), way
            kept.close()


@pytest.mark.parametrize("protocol", PORTS)
def test_what_concerns_one_request_alone_keeps_the_connection(bed: Bed, protocol: str) -> None:
    with bed.process():
        kept = bed.connect(protocol)
        for way in (*STAYING[protocol], f"forged_{LOST[protocol]}"):
            assert not send(kept, protocol, way).last, way
        assert not send(kept, protocol, path="/closed").last
        answer = send(kept, protocol)
        assert (answer.status, answer.last) == (DONE[protocol], False)
        kept.close()


@pytest.mark.parametrize("protocol", PORTS)
def test_the_adm_of_a_sender_connects_anew_and_keeps_the_connection_of_its_client(bed: Bed, protocol: str) -> None:
    """By the next connection to a Service it may reach another pod."""
    kept = WIRES[protocol](bed.proxied[protocol])
    with bed.process():
        for _ in range(2):
            answer = send(kept, protocol)
            assert (answer.status, answer.last) == (DONE[protocol], False)
    times, before = 4, bed.connections_between(protocol)
    for _ in range(times):
        answer = send(kept, protocol)
        assert (answer.status, answer.last) == (LOST[protocol], False)
    # The first of these requests may use an older connection.
    assert bed.connections_between(protocol) - before in (times - 1, times)
    kept.close()
