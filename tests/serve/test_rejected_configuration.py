"""A real Envoy refuses what it is told: traffic goes on as before, it is seen who refused what, and it heals."""

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

// Whatever number is written here is one that the message can hold, and Envoy takes none below 1.
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
"""Without width it fails when it is run, which only an Envoy does."""


def program(cart: str, user: str, kbps: int | None = None) -> str:
    lane = "" if kbps is None else f"policy lane = slow_lane(kbps: {kbps}) on web -> cart\n"
    return PROGRAM.replace("CART", cart).replace("USER", user) + lane


# Each request has a connection of its own, so that the wait for older ones may be short.
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


def test_what_an_envoy_refuses_reaches_no_request_and_is_told_and_healed(
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

            # Both change, and one of them has a policy more that Envoy does not take: that one changes in nothing.
            write(bed.program, program("gold", "gold", kbps=0))
            server.until(lambda: refused(server))
            user.becomes(server, "gold")
            cart.stays(server, "silver")
            user.stays(server, "gold")
            assert in_sync(server, "user")

            # It is seen who refused what, in Envoy's words.
            capsys.readouterr()
            assert main(["status", "--server", f"http://{server.ops}", "--detailed-exitcode"]) == 2
            told = capsys.readouterr().out
            node = bed.envoys.running["cart"].node
            assert f"cart  {node}" in told
            assert "refused TypedExtensionConfig: " in told
            assert "too narrow" in told
            (event,) = server.events("refused")
            assert (event["node"], event["service"], event["type"]) == (node, "cart", "TypedExtensionConfig")
            assert "too narrow" in event["said"]
            stats = bed.envoys.running["cart"].stats()
            assert stats["extension_config_discovery.http_filter.trial.config_fail"] == 1
            assert stats["listener_manager.lds.update_rejected"] == 0

            # A proxy that starts now gets what was taken, and is asked to take nothing else.
            assert set(cart.seen[begin:]) == {(200, "silver")}
            bed.envoys.restart("cart", bed.bootstraps["cart"])
            cart.becomes(server, "silver")
            cart.stays(server, "silver")
            assert refused(server)  # once, and not by the new one
            server.stop(signal.SIGKILL)
        cart_before = len(cart.seen)

        # A server that comes back has nothing but what it kept, and the program that was refused.
        with served(bed.folder, *OPTIONS, xds=XDS) as server:
            server.until_event("recalled")
            server.until(lambda: refused(server))
            cart.stays(server, "silver")
            assert set(cart.seen[cart_before:]) == {(200, "silver")}
            bed.envoys.restart("cart", bed.bootstraps["cart"])
            cart.becomes(server, "silver")
            cart.stays(server, "silver")
            begin = len(cart.seen)

            # The next good program heals it, for all that have refused anything and for all that have not.
            write(bed.program, program("bronze", "bronze", kbps=100_000))
            cart.becomes(server, "bronze")
            user.becomes(server, "bronze")
            server.until(lambda: in_sync(server, "cart", "user"))
            capsys.readouterr()
            server.until(lambda: main(["status", "--server", f"http://{server.ops}", "--detailed-exitcode"]) == 0)
            assert {tier for _, tier in cart.seen[begin:]} == {"silver", "bronze"}
            assert {status for status, _ in cart.seen[begin:]} == {200}
    # Nothing was answered without the policy, and nobody else has noticed anything.
    assert {tier for status, tier in cart.seen if status is not None} == {"silver", "bronze"}
    assert [answer for answer in user.seen[user.seen.index((200, "silver")) :] if answer[0] != 200] == []
