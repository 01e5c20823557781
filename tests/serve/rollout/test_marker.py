"""The marker: only ADMs can use it, and no reader of logs, status or resources sees its value."""

from __future__ import annotations

import json
import logging
import re
import socket
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import grpc
import pytest
from envoy.config.route.v3 import route_pb2
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

from admc.__main__ import main
from admc.serve.observe.events import JsonLines
from admc.serve.rollout.marker import MARKER, concealed, concealed_text
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.steps import steps
from admc.testbed.envoys import envoy_binary
from dsl import load_text
from emitters.addresses.dialing import sender
from solver.place import place
from tests.serve.rollout import envoy_bed
from tests.serve.rollout.bed import KEY, Bed
from tests.serve.rollout.move import PORT, SIDES
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.callers import Caller, RequestSpec, caller, names_with_status, wait_for_answers
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.serve.server_process import Served
    from tests.testbed.callers import Dial

ENVOY = envoy_binary()
SECRET = "0123456789abcdef" * 4

PROGRAM = """
app move
external internet
service shop { http PORT }
service till { http PORT }
service cart { http PORT }
call shop, till, internet -> cart
policy once    = add_request_header(name: "x-once", value: "1") on {shop, till} -> cart
policy closed  = deny() on {shop, till} -> cart when header("x-out") == "1"
policy slow    = timeout(after: 20s) on {shop, till} -> cart
policy breaker = circuit_breaking(max_requests: 1000) on {shop, till, internet} -> cart
pin once at SIDE
pin closed at SIDE
"""


def text(side: str) -> str:
    return PROGRAM.replace("SIDE", side).replace("PORT", str(PORT))


def placed(side: str) -> Placed:
    program = load_text(text(side))
    return Placed(program, place(program))


def test_no_field_of_the_log_has_the_value() -> None:
    said = f'route {{ key: "{MARKER}" value: "{SECRET}" }}:\nno \x1b[2J'
    record = logging.makeLogRecord({"msg": "refused", "said": said, "for": [said], "version": SECRET[:16]})
    line = JsonLines().format(record)
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert SECRET[:16] not in found["said"] + found["for"][0]
    assert MARKER in found["said"]
    assert "\x1b" not in found["said"]
    assert (found["event"], found["version"]) == ("refused", SECRET[:16])


def test_resources_and_messages_are_shown_without_the_value() -> None:
    table = route_pb2.RouteConfiguration(name="egress/cart:80")
    added = table.request_headers_to_add.add()
    added.header.key, added.header.value = MARKER, SECRET
    added.append_action = added.OVERWRITE_IF_EXISTS_OR_ADD
    shown = route_pb2.RouteConfiguration.FromString(concealed(table.SerializeToString()))
    assert shown.request_headers_to_add[0].header.value == "*" * 64
    shown.request_headers_to_add[0].header.value = SECRET
    assert shown == table
    assert SECRET[:16] not in concealed_text(f'header {{ key: "{MARKER}" value: "{SECRET}" }}')
    assert SECRET[:16] not in concealed_text(f'header {{ key: "{MARKER}" value: "{SECRET[:40]}')
    other = f"no marker, version {SECRET}"
    assert concealed_text(other) == other
    assert concealed(other.encode()) == other.encode()


def forged(secret: str) -> list[dict[str, str]]:
    """Header lines that a caller may send. Names that differ in case are lines of their own."""
    upper = MARKER.title()
    return [
        {MARKER: secret},
        {MARKER: ""},
        {MARKER: f"{secret}{secret}"},
        {MARKER: f"{secret},{secret}"},
        {MARKER: f"guess, {secret}"},
        {MARKER.upper(): secret.upper()},
        {MARKER: secret, upper: secret},
        {MARKER: "", upper: secret},
        {MARKER: secret, upper: ""},
    ]


def _slow(dial: Dial, headers: Mapping[str, str]) -> Caller:
    """One of many callers: they leave the proxies some time."""
    return Caller(dial, (RequestSpec("shop", "cart", headers=tuple(headers.items())),), keep=True, pause=0.05)


class Forging:
    """Callers that send the marker, though they know its value: applications behind ADMs, and a caller outside."""

    def __init__(self, bed: Bed, secret: str, stack: ExitStack) -> None:
        self._bed = bed
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        address, own = bed.addresses.service_addresses("cart")[0], sender(bed.addresses, "internet")
        outside = partial(socket.create_connection, (address, PORT), 10, (own, 0))
        self.passed = [_slow(till, headers) for headers in forged(secret)]
        self.refused = [_slow(shop, {**headers, "x-out": "1"}) for headers in forged(secret)]
        self.outside = [_slow(outside, {**headers, "x-outside": "1"}) for headers in forged(secret)]
        self.all = [*self.passed, *self.refused, *self.outside]
        for each in self.all:
            stack.enter_context(each)

    def more(self) -> int:
        """Five more requests of each; how many have arrived so far."""
        wait_for_answers(self.all, 5)
        return len(self._bed.services.record.all())

    def check(self, first: int, last: int) -> None:
        """In the steps, which the requests between these two are in, no request arrives with the marker."""
        for callers, status in ((self.passed, 200), (self.refused, 403), (self.outside, 200)):
            names_with_status(callers, status)
        arrived = self._bed.services.record.all()
        assert {seen.header("x-once") for seen in arrived if not seen.header("x-outside")} == {("1",)}
        assert {seen.header("x-once") for seen in arrived if seen.header("x-outside")} == {()}
        assert last > first
        assert not any(seen.header(MARKER) for seen in arrived[first:last])


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="needs Envoy")
@SIDES
def test_a_caller_that_sends_the_marker_gains_nothing(sides: tuple[str, str], tmp_path: Path, alone: None) -> None:
    old, new = placed(sides[0]), placed(sides[1])
    (secret,) = steps(old, new, KEY)[StepName.SENDERS].secrets
    assert ENVOY is not None
    with ExitStack() as stack:
        bed = stack.enter_context(Bed(old, tmp_path, ENVOY))
        following = iter(bed.follow(old, new))
        assert next(following) is StepName.PREPARE
        # No request has the value before `senders`, so no caller can know it earlier (decision 17).
        callers = Forging(bed, secret, stack)
        first = last = callers.more()
        for step in following:
            found = callers.more()
            if step is not None:
                last = found
    callers.check(first, last)


def all_that_is_shown(server: Served, capsys: pytest.CaptureFixture[str]) -> str:
    """All that a server shows while a rollout is under way."""
    capsys.readouterr()
    for form in ("text", "json"):
        main(["status", "--server", f"http://{server.ops}", "--format", form])
    main(["rollout", "--server", f"http://{server.ops}"])
    shown = [*capsys.readouterr(), server.get("/status.json")[1], server.get("/metrics")[1], server.log.read_text()]
    with grpc.insecure_channel(server.xds) as channel:
        answer = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel).FetchClientStatus(
            csds_pb2.ClientStatusRequest(), timeout=20
        )
    for config in answer.config:
        for item in config.generic_xds_configs:
            shown.append(item.xds_config.value.decode("latin-1"))
            shown.append(item.error_state.details)
            if item.xds_config.Is(route_pb2.RouteConfiguration.DESCRIPTOR):
                item.xds_config.Unpack(route_pb2.RouteConfiguration())  # it can still be read
    return "\n".join(shown)


@pytest.mark.long
@pytest.mark.skipif(ENVOY is None, reason="needs Envoy")
def test_a_server_never_shows_the_value(tmp_path: Path, capsys: pytest.CaptureFixture[str], alone: None) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("ingress"))
    port = free_port()
    assert ENVOY is not None
    with (
        served(tmp_path, "policies.adm", "--mode", "explicit", "--state", "kept", xds=f"127.0.0.1:{port}") as server,
        envoy_bed.Bed(placed("ingress"), tmp_path, ENVOY, port) as bed,
        caller(bed.egress("shop", "cart"), {}),
    ):
        write(program, text("egress"))
        secrets: set[str] = set()
        names = 0
        while not server.events("rollout_over"):
            for service in ("cart", "shop"):
                dump = bed.envoys.running[service].admin_get("/config_dump")[1].decode()
                secrets.update(re.findall(r"\b[0-9a-f]{64}\b", dump) if MARKER in dump else ())
            shown = all_that_is_shown(server, capsys)
            names += MARKER in shown
            assert not any(secret in shown for secret in secrets)
            assert not re.search(r"x-admc-met.{0,40}[0-9a-f]{64}", shown, re.DOTALL)
        assert len(secrets) == 1, "the proxies had it"
        assert names, "the route tables were shown"
    logs = [path.read_text(errors="replace") for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    (secret,) = secrets
    assert logs
    assert not any(secret in log for log in logs)
