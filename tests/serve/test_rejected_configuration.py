"""A real Envoy rejects a configuration: traffic goes on with the previous one, `admc status` shows the NACK, and the
next good program ends that state."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.testbed.envoys import envoy_binary
from tests.serve.envoys import XDS, Emitted
from tests.serve.server_process import served
from tests.serve.test_server import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.serve.server_process import Served

pytestmark = [pytest.mark.long, pytest.mark.skipif(envoy_binary() is None, reason="no Envoy for this platform")]

PROGRAM = """
app shop

service web  { http 8080 }
service cart { http 8081 }
service user { http 8082 }

call web -> cart, user

// The message can hold every number, but the script fails in Envoy below 1.
@ingress
kind slow_lane(kbps: int) for http template "lane.yaml"

@ingress
policy tier = set_request_header(name: "x-tier", value: "CART") on web -> cart
@ingress
policy rank = set_request_header(name: "x-tier", value: "USER") on web -> user
"""
LANE = """
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "assert(${kbps} > 0, 'too narrow')"}
"""
"""With 0 it fails when it runs, and only Envoy runs it."""


def program(cart: str, user: str, kbps: int | None = None) -> str:
    lane = "" if kbps is None else f"policy lane = slow_lane(kbps: {kbps}) on web -> cart\n"
    return PROGRAM.replace("CART", cart).replace("USER", user) + lane


OPTIONS = ("policies.adm", "--mode", "explicit", "--state", "state")


@pytest.fixture
def bed(tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]) -> Iterator[Emitted]:
    (tmp_path / "lane.yaml").write_text(LANE)
    with ExitStack() as stack:
        yield Emitted(tmp_path, program("silver", "silver"), stack)


def row(server: Served, service: str) -> dict[str, object]:
    found: dict[str, object] = next(adm for adm in server.status()["adms"] if adm["service"] == service)
    return found


def in_sync(server: Served, *services: str) -> bool:
    return all(row(server, service)["in_sync"] for service in services)


def refused(server: Served) -> bool:
    return 'admc_xds_rejects_total{type="TypedExtensionConfig"} 1.0' in server.get("/metrics")[1]


def test_a_rejected_configuration_reaches_no_request_and_the_next_program_mends_it(
    bed: Emitted, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bed.bootstraps.keys() == {"cart", "user"}
    with bed.traffic("cart") as cart, bed.traffic("user") as user:
        with served(bed.folder, *OPTIONS, xds=XDS) as server:
            server.until_event("compiled")
            bed.envoys.start(bed.bootstraps)
            server.until(lambda: in_sync(server, "cart", "user"))
            cart.becomes(server, "silver")
            user.becomes(server, "silver")
            begin = len(cart.seen)

            # Both services change. One of them also has a policy that Envoy rejects: its proxy keeps its configuration.
            write(bed.program, program("gold", "gold", kbps=0))
            server.until(lambda: refused(server))
            user.becomes(server, "gold")
            cart.stays(server, "silver")
            user.stays(server, "gold")
            assert in_sync(server, "user")

            # The status has the proxy and Envoy's error message.
            capsys.readouterr()
            assert main(["status", "--server", f"http://{server.ops}", "--detailed-exitcode"]) == 2
            shown = capsys.readouterr().out
            node = bed.envoys.running["cart"].node
            assert f"cart  {node}" in shown
            assert "refused TypedExtensionConfig: " in shown
            assert "too narrow" in shown
            (event,) = server.events("refused")
            assert (event["node"], event["service"], event["type"]) == (node, "cart", "TypedExtensionConfig")
            assert "too narrow" in event["said"]
            stats = bed.envoys.running["cart"].stats()
            assert stats["extension_config_discovery.http_filter.trial.config_fail"] == 1
            assert stats["listener_manager.lds.update_rejected"] == 0

            # A proxy that starts now receives the last acknowledged configuration.
            assert set(cart.seen[begin:]) == {(200, "silver")}
            bed.envoys.restart("cart", bed.bootstraps["cart"])
            cart.becomes(server, "silver")
            cart.stays(server, "silver")
            assert refused(server)  # once: the new one sends no NACK
            server.stop(signal.SIGKILL)
        cart_before = len(cart.seen)

        # A restarted server has only its stored state, and the rejected program.
        with served(bed.folder, *OPTIONS, xds=XDS) as server:
            server.until_event("recalled")
            server.until(lambda: refused(server))
            cart.stays(server, "silver")
            assert set(cart.seen[cart_before:]) == {(200, "silver")}
            bed.envoys.restart("cart", bed.bootstraps["cart"])
            cart.becomes(server, "silver")
            cart.stays(server, "silver")
            begin = len(cart.seen)

            # The next good program reaches all proxies, with a NACK before or without.
            write(bed.program, program("bronze", "bronze", kbps=100_000))
            cart.becomes(server, "bronze")
            user.becomes(server, "bronze")
            server.until(lambda: in_sync(server, "cart", "user"))
            capsys.readouterr()
            server.until(lambda: main(["status", "--server", f"http://{server.ops}", "--detailed-exitcode"]) == 0)
            assert {tier for _, tier in cart.seen[begin:]} == {"silver", "bronze"}
            assert {status for status, _ in cart.seen[begin:]} == {200}
    # No response came without the policy, and the other service had no failure.
    assert {tier for status, tier in cart.seen if status is not None} == {"silver", "bronze"}
    assert [answer for answer in user.seen[user.seen.index((200, "silver")) :] if answer[0] != 200] == []
