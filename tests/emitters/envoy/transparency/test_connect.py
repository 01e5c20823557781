"""No request passes an ADM in a tunnel that another request has opened, unless the service has agreed with 101.

The service answers 200 to any method and reads on, as many do: what a client sends after a CONNECT are its next
requests, and no policy would meet them.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from admc.testbed.client import Target
from admc.testbed.envoys import Envoys
from emitters.addresses import loopback
from emitters.addresses.dialing import binds, dials
from tests.emitters.envoy.both_ends import TEXT, ways
from tests.emitters.envoy.obliging import INSIDE, Answer, Obliging, ask_http_1, ask_http_2, extended
from tests.emitters.envoy.support import ENVOY, load, private, serving, soon, written
from tests.fidelity.samples import FILES, JWT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.emitters.envoy.both_ends import Ways

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

PLAIN = b"CONNECT back:8001 HTTP/1.1\r\nHost: back:8001\r\n\r\n"
PLAIN_2 = ((":method", "CONNECT"), (":authority", "back:8001"))


class Tried(NamedTuple):
    """A policy, and what three times a CONNECT is answered under it: none of them reaches the service."""

    policy: str
    answers: tuple[int, int, int] = (405, 405, 405)
    egress_only: bool = False


FILTERS = (
    Tried("request_count()"),
    Tried("access_log()"),
    Tried("rate_limit(requests: 2, per: 1h)", (405, 405, 429)),
    Tried("allow(callers: [front])"),
    Tried("allow(callers: [other])", (403, 403, 403)),
    Tried('deny() when method == "CONNECT"', (403, 403, 403)),
    Tried('deny() when header("x") == "1"'),
    Tried(f"jwt({JWT})", (401, 401, 401)),
    # Envoy takes no answer to a CONNECT for a consent, and asks with the method of the request.
    Tried("external_authorization(service: judge)", (403, 403, 403)),
    Tried("external_authorization(service: judge, fail_open: true)"),
    Tried("fault_abort(status: 418)", (418, 418, 418)),
    Tried('set_request_header(name: "x", value: "1")'),
    Tried('set_response_header(name: "x", value: "1")'),
    Tried('lua(script: "filter.lua")'),
    Tried("retry(attempts: 3)", egress_only=True),
    Tried('retry(attempts: 3) when method == "CONNECT"', egress_only=True),
    Tried('timeout(after: 1s) when path matches "/x"', egress_only=True),
    Tried("outlier_detection()", egress_only=True),
    Tried("load_balancing(policy: random)", egress_only=True),
    Tried("mirror(to: OTHER)", egress_only=True),
    Tried("split(to: OTHER, percent: 100%)", egress_only=True),
)
HTTP_ONLY = (
    Tried("buffer_limit(max: 1KB)"),
    Tried('rewrite_path(prefix: "/a", to: "/b")'),
    Tried('cors(origins: ["*"])'),
    Tried("compression()"),
    Tried("normal_paths()"),
)


class Bed(NamedTuple):
    """All of them on one side, each on a port of its own."""

    side: str
    targets: dict[int, Target]
    service: Obliging
    judge: Obliging
    envoys: Envoys


def _tried(side: str, protocol: str) -> dict[int, Tried]:
    """By the number of the port."""
    every = (*FILTERS, *(HTTP_ONLY if protocol == "http" else ()))
    here = [each for each in every if side == "egress" or not each.egress_only]
    return dict(enumerate(here, 8100 if protocol == "http" else 8200))


def _program(side: str) -> str:
    lines = []
    ports = []
    for protocol in ("http", "grpc"):
        for number, each in _tried(side, protocol).items():
            what = each.policy.replace("OTHER", "other:8001" if protocol == "http" else "other:rpc")
            what, _, when = what.partition(" when ")
            if protocol == "grpc" and "method" in when:
                when = 'host == "back"'  # a call of gRPC has one method
            on = f"on front -> back:{number} {f'when {when}' if when else ''}"
            ports.append(f"{protocol} p{number} {number}")
            lines += [f"call front -> back:{number}", f"@{side}", f"policy tried_{number} = {what} {on}"]
    services = [
        "service front { http 8000 }",
        "service other { http 8001  grpc rpc 8002 }",
        "service judge { http 8003 }",
        f"service back {{ {'  '.join(ports)} }}",
        "call front -> other:8001, other:rpc",
        f"call {'front' if side == 'egress' else 'back'} -> judge",
    ]
    return "\n".join([*services, *lines])


@pytest.fixture(scope="module", params=["egress", "ingress"])
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    side = str(request.param)
    folder = tmp_path_factory.mktemp(side)
    program, placement = load(_program(side), FILES)
    addresses = private(loopback(program))
    service, judge = Obliging(), Obliging()
    assert ENVOY is not None
    with contextlib.ExitStack() as stack:
        for bind in binds(program, placement, addresses):
            handler = judge if bind.service == "judge" else service
            stack.enter_context(serving(bind.address, bind.port, handler))
        envoys = stack.enter_context(Envoys(folder, ENVOY))
        envoys.start(written(program, placement, addresses, folder))
        targets = {
            dial.number: Target(dial.sender, dial.address, dial.port, "back")
            for dial in dials(program, placement, addresses)
            if dial.destination == "back"
        }
        yield Bed(side, targets, service, judge, envoys)


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_connect_meets_the_policies_of_an_adm_and_ends_there(bed: Bed, protocol: str) -> None:
    tried = _tried(bed.side, protocol)
    found = {}
    for number, each in tried.items():
        target = bed.targets[number]
        answers = ask_http_1(target, PLAIN), ask_http_2(target, *PLAIN_2), ask_http_1(target, PLAIN)
        found[each.policy] = tuple(answer.status for answer in answers)
    assert found == {each.policy: each.answers for each in tried.values()}
    assert bed.service.seen == []
    assert not [seen for seen in bed.judge.seen if "inside" in seen]
    (envoy,) = bed.envoys.running.values()
    counted, logged = (next(number for number, each in tried.items() if each.policy == kind) for kind in SEEING)
    stats = [value for name, value in envoy.stats().items() if f"tried_{counted}" in name and name.endswith("allowed")]
    assert stats == [3]
    soon(lambda: len(_lines(envoy.output, f"tried_{logged}")) == 3)
    assert {(line["method"], line["status"]) for line in _lines(envoy.output, f"tried_{logged}")} == {("CONNECT", 405)}


SEEING = ("request_count()", "access_log()")


def _lines(output: Path, policy: str) -> list[dict[str, object]]:
    """The lines of a log."""
    lines = (line for line in output.read_text(errors="replace").splitlines() if f'"policy":"{policy}' in line)
    return [json.loads(line) for line in lines]


# ---- other ways into a tunnel ----


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ways, Obliging]]:
    service = Obliging()
    with ways(tmp_path_factory.mktemp("ways"), service, TEXT) as both:
        yield both, service


HEADS = {
    "no host": b"CONNECT back:8001 HTTP/1.1\r\n",
    "HTTP/1.0": b"CONNECT back:8001 HTTP/1.0\r\nHost: back\r\n",
    "length": b"CONNECT back:8001 HTTP/1.1\r\nHost: back\r\nContent-Length: 0\r\n",
    "body": b"CONNECT back:8001 HTTP/1.1\r\nHost: back\r\nContent-Length: 5\r\n",
    "chunks": b"CONNECT back:8001 HTTP/1.1\r\nHost: back\r\nTransfer-Encoding: chunked\r\n",
    "path": b"CONNECT /a HTTP/1.1\r\nHost: back\r\n",
    "address": b"CONNECT http://back:8001/a HTTP/1.1\r\nHost: back\r\n",
    "star": b"CONNECT * HTTP/1.1\r\nHost: back\r\n",
    "upgrade": b"CONNECT back:8001 HTTP/1.1\r\nHost: back\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    "case": b"connect back:8001 HTTP/1.1\r\nHost: back\r\n",
    "blank": b"CONNECT  back:8001 HTTP/1.1\r\nHost: back\r\n",
}


@pytest.mark.parametrize("name", list(HEADS))
def test_no_spelling_of_a_connect_opens_a_tunnel(app: tuple[Ways, Obliging], name: str) -> None:
    both, service = app
    service.seen.clear()
    answer = ask_http_1(both.through, HEADS[name] + b"\r\n")
    assert answer.status in (400, 405, 501)
    assert service.seen == []


LISTS = {
    "websocket, foo": "websocket",
    "foo,websocket,tcp": "websocket,tcp",
    "websocket,websocket": "websocket,websocket",
    "WebSocket , websocket, ": "WebSocket,websocket",
    "websocket\r\nUpgrade: websocket": "websocket,websocket",
    "tcp, websocket": "tcp,websocket",
    "spdy/3.1, tcp": "spdy/3.1,tcp",
    "h2c, TCP, spdy/3.1,\tfoo, websocket": "TCP,spdy/3.1,websocket",
}
"""What arrives of a list of protocols: those that an ADM knows."""


@pytest.mark.parametrize("protocol", ["websocket", "spdy/3.1", "tcp", "WebSocket", *LISTS])
def test_what_follows_an_upgrade_waits_until_the_service_agrees(app: tuple[Ways, Obliging], protocol: str) -> None:
    """Before that it would be the next requests of a service that does not know the protocol."""
    both, service = app
    head = f"GET /chat HTTP/1.1\r\nHost: back\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n".encode()
    for agrees in (False, True):
        service.seen.clear()
        service.upgrades = agrees
        answer = ask_http_1(both.through, head + INSIDE, b"more")
        service.upgrades = False
        assert answer.status == (101 if agrees else 200)
        assert service.seen == [f"GET /chat {LISTS.get(protocol, protocol)}"]
        assert not agrees or answer.data == INSIDE + b"more"


@pytest.mark.parametrize("protocol", ["h2c", "foo", "TLS/1.0", "CONNECT", "connect-udp", "HTTP/2.0"])
def test_an_upgrade_to_any_other_protocol_opens_no_tunnel(app: tuple[Ways, Obliging], protocol: str) -> None:
    both, service = app
    service.seen.clear()
    service.upgrades = True
    head = f"GET /chat HTTP/1.1\r\nHost: back\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    answer = ask_http_1(both.through, head.encode(), b"")
    service.upgrades = False
    assert (answer.status, service.seen) == (200, ["GET /chat"])


def test_a_list_of_more_upgrades_than_three_is_refused_as_the_page_says(app: tuple[Ways, Obliging]) -> None:
    both, service = app
    service.seen.clear()
    head = b"GET /chat HTTP/1.1\r\nHost: back\r\nConnection: Upgrade\r\nUpgrade: tcp, tcp, foo, tcp, websocket\r\n\r\n"
    assert ask_http_1(both.through, head, b"").status == 403
    assert service.seen == []


@pytest.mark.parametrize("protocol", ["websocket", "spdy/3.1", "tcp"])
def test_an_extended_connect_is_a_tunnel_for_the_same_protocols(app: tuple[Ways, Obliging], protocol: str) -> None:
    both, service = app
    service.seen.clear()
    for way in (both.direct, both.through):
        assert ask_http_2(way, *extended(protocol), then=b"hello") == Answer(200, b"hello")
    assert service.seen == [f"CONNECT /chat {protocol}"] * 2


UDP = tuple(
    (name, "/.well-known/masque/udp/192.0.2.1/1/" if name == ":path" else value)
    for name, value in extended("connect-udp")
)
OTHERS = {
    **{each: extended(each) for each in ("foo", "connect-ip", "connect-udp", "CONNECT", "connect", "h2c", "")},
    "connect-udp with its path": UDP,
    "path": (*PLAIN_2, (":scheme", "http"), (":path", "/")),
    "scheme": (*PLAIN_2, (":scheme", "http")),
    "no authority": PLAIN_2[:1],
    "no path": (PLAIN_2[0], (":protocol", "websocket"), PLAIN_2[1]),
    "protocol of a GET": ((":method", "GET"), *extended("websocket")[1:]),
    "length": (*PLAIN_2, ("content-length", "5")),
    "gRPC": (*PLAIN_2, ("content-type", "application/grpc")),
}  # fmt: skip


@pytest.mark.parametrize("name", list(OTHERS))
def test_no_other_connect_of_http_2_opens_a_tunnel(app: tuple[Ways, Obliging], name: str) -> None:
    both, service = app
    service.seen.clear()
    answer = ask_http_2(both.through, *OTHERS[name])
    assert answer.status in (None, 403, 404, 405)
    assert service.seen == []
