"""The marker: nobody who is not an ADM can use it, and nobody else ever sees its value."""

from __future__ import annotations

import json
import logging
import re
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import grpc
import pytest
from envoy.config.route.v3 import route_pb2
from envoy.service.status.v3 import csds_pb2, csds_pb2_grpc

from admc.__main__ import main
from admc.serve.observe.events import JsonLines
from admc.testbed.envoys import envoy_binary
from admc.transition.marker import MARKER, concealed, concealed_text
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from emitters.addresses.dialing import sender
from solver.place import place
from tests.serve.server_process import served
from tests.serve.test_server import write
from tests.testbed.ports import free_port
from tests.transition.bed import Bed
from tests.transition.callers import Keeper, more
from tests.transition.move import KEY, PORT, SIDES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.serve.server_process import Served

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

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
MOVING = (Phase.ANNOUNCE, Phase.PREPARE, Phase.SENDERS, Phase.RECEIVERS, Phase.RELEASE)


def text(side: str) -> str:
    return PROGRAM.replace("SIDE", side).replace("PORT", str(PORT))


def placed(side: str) -> Placed:
    program = load_text(text(side))
    return Placed(program, place(program))


def forged(secret: str) -> list[dict[str, str]]:
    """Header lines that somebody may send. Names that differ in their letters are lines of their own."""
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


@SIDES
def test_whoever_sends_the_marker_gains_nothing(sides: tuple[str, str], tmp_path: Path) -> None:
    """Even who knows its value: an application behind its ADM, or somebody outside who has none."""
    old, new = placed(sides[0]), placed(sides[1])
    (secret,) = steps(old, new, KEY)[0].secrets
    assert ENVOY is not None
    with ExitStack() as stack:
        bed = stack.enter_context(Bed(old, tmp_path, ENVOY))
        shop, till = bed.egress("shop", "cart"), bed.egress("till", "cart")
        address, own = bed.addresses.service_addresses("cart")[0], sender(bed.addresses, "internet")
        passed = [Keeper(till, headers, 0.05) for headers in forged(secret)]
        refused = [Keeper(shop, {**headers, "x-out": "1"}, 0.05) for headers in forged(secret)]
        outside = [
            Keeper(lambda: socket.create_connection((address, PORT), 10, (own, 0)), {**headers, "x-outside": "1"}, 0.05)
            for headers in forged(secret)
        ]
        for keeper in (*passed, *refused, *outside):
            stack.enter_context(keeper)
        begun: list[int] = []
        for step in steps(old, new, KEY):
            if step.phase is Phase.FINAL:
                begun.append(len(bed.services.record.all()))
            bed.publish(step)
            if step.phase is Phase.ANNOUNCE:
                more([*passed, *refused, *outside], 5)
                begun.append(len(bed.services.record.all()))
            more([*passed, *refused, *outside], 5)
        for keepers, status in ((passed, 200), (refused, 403), (outside, 200)):
            answers = [answer for keeper in keepers for answer in keeper.answers]
            assert {answer[1] for answer in answers} == {status}, [a for a in answers if a[1] != status][:5]
        arrived = bed.services.record.all()
        assert {seen.header("x-once") for seen in arrived if not seen.header("x-outside")} == {("1",)}
        assert {seen.header("x-once") for seen in arrived if seen.header("x-outside")} == {()}
        # Where nothing moves it is a header as any other; in between it is taken away, whoever sends it.
        first, last = begun
        assert not any(seen.header(MARKER) for seen in arrived[first:last])


def all_that_is_said(server: Served, capsys: pytest.CaptureFixture[str]) -> str:
    """All that a server tells people while a transition is under way."""
    capsys.readouterr()
    for form in ("text", "json"):
        main(["status", "--server", f"http://{server.ops}", "--format", form])
    said = [*capsys.readouterr(), server.get("/status.json")[1], server.get("/metrics")[1], server.log.read_text()]
    with grpc.insecure_channel(server.xds) as channel:
        answer = csds_pb2_grpc.ClientStatusDiscoveryServiceStub(channel).FetchClientStatus(
            csds_pb2.ClientStatusRequest(), timeout=20
        )
    for config in answer.config:
        for item in config.generic_xds_configs:
            said.append(item.xds_config.value.decode("latin-1"))
            said.append(item.error_state.details)
            if item.xds_config.Is(route_pb2.RouteConfiguration.DESCRIPTOR):
                item.xds_config.Unpack(route_pb2.RouteConfiguration())  # it can still be read
    return "\n".join(said)


def test_nobody_is_told_the_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(text("ingress"))
    port = free_port()
    options = ("policies.adm", "--mode", "explicit", "--state", "kept")
    assert ENVOY is not None
    with (
        served(tmp_path, *options, xds=f"127.0.0.1:{port}") as server,
        Bed(placed("ingress"), tmp_path, ENVOY, port) as bed,
        Keeper(bed.egress("shop", "cart"), {}),
    ):
        write(program, text("egress"))
        secrets: set[str] = set()
        names = 0
        while not server.events("transition_over"):
            for service in ("cart", "shop"):
                dump = bed.envoys.running[service].admin_get("/config_dump")[1].decode()
                secrets.update(re.findall(r"\b[0-9a-f]{64}\b", dump) if MARKER in dump else ())
            said = all_that_is_said(server, capsys)
            names += MARKER in said
            assert not any(secret in said for secret in secrets)
            assert not re.search(r"x-admc-met.{0,40}[0-9a-f]{64}", said, re.DOTALL)
        assert len(secrets) == 1, "the proxies had it"
        assert names, "the route tables were shown"
    logs = [path.read_text(errors="replace") for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    (secret,) = secrets
    assert logs
    assert not any(secret in log for log in logs)


def test_no_field_of_the_log_tells_it() -> None:
    secret = "0123456789abcdef" * 4
    said = f'route {{ key: "{MARKER}" value: "{secret}" }}:\nno \x1b[2J'
    record = logging.makeLogRecord({"msg": "refused", "said": said, "for": [said], "version": secret[:16]})
    line = JsonLines().format(record)
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert secret[:16] not in found["said"] + found["for"][0]
    assert MARKER in found["said"]
    assert "\x1b" not in found["said"]
    assert (found["event"], found["version"]) == ("refused", secret[:16])


def test_what_is_shown_of_a_resource_and_of_what_a_proxy_said_of_it() -> None:
    secret = "0123456789abcdef" * 4
    table = route_pb2.RouteConfiguration(name="egress/cart:80")
    added = table.request_headers_to_add.add()
    added.header.key, added.header.value = MARKER, secret
    added.append_action = added.OVERWRITE_IF_EXISTS_OR_ADD
    shown = route_pb2.RouteConfiguration.FromString(concealed(table.SerializeToString()))
    assert shown.request_headers_to_add[0].header.value == "*" * 64
    shown.request_headers_to_add[0].header.value = secret
    assert shown == table
    assert secret[:16] not in concealed_text(f'header {{ key: "{MARKER}" value: "{secret}" }}')
    assert secret[:16] not in concealed_text(f'header {{ key: "{MARKER}" value: "{secret[:40]}')
    other = f"no marker, version {secret}"
    assert concealed_text(other) == other
    assert concealed(other.encode()) == other.encode()
