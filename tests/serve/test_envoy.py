"""Real Envoys, started from what `--emit` wrote, get everything from `admc serve` and follow the program's text."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from admc.testbed.envoys import envoy_binary
from tests.serve.envoys import XDS, Emitted
from tests.serve.server_process import served
from tests.serve.test_server import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(envoy_binary() is None, reason="no Envoy for this platform")

PROGRAM = """
app shop

service web  { http 8080 }
service cart { http 8081 }

call web -> cart

policy tier = set_request_header(name: "x-tier", value: "TIER") on web -> cart
"""


def test_the_emitted_bootstrap_works_with_this_server_and_follows_the_program(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        bed = Emitted(tmp_path, PROGRAM.replace("TIER", "silver"), stack)
        server = stack.enter_context(served(tmp_path, "policies.adm", "--mode", "explicit", xds=XDS))
        server.until_event("compiled")
        bed.envoys.start(bed.bootstraps)
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        with bed.traffic("cart") as traffic:
            traffic.becomes(server, "silver")

            write(bed.program, PROGRAM.replace("TIER", "gold"))
            traffic.becomes(server, "gold")

            # An error changes nothing and is reported; the next correct text removes it.
            write(bed.program, PROGRAM.replace("TIER", "bronze") + "polizy")
            server.until(lambda: server.metric("admc_compile_errors_total") == 1.0)
            assert server.get("/readyz")[0] == 200
            assert "polizy" in server.status()["server"]["why"]
            count = len(traffic.seen)
            server.until(lambda: len(traffic.seen) > count + 20)
            assert traffic.seen[-1] == (200, "gold")

            # A policy for which the ADM needs its own replicas, unlike in the first text.
            limit = "policy limit = rate_limit(requests: 100000, per: 1s) on web -> cart\n"
            write(bed.program, PROGRAM.replace("TIER", "bronze") + limit)
            traffic.becomes(server, "bronze")
        assert {status for status, _ in traffic.seen} == {200}
        tiers = [tier for _, tier in traffic.seen]
        assert tiers == sorted(tiers, key=["silver", "gold", "bronze"].index)
        (envoy,) = bed.envoys.running.values()
        stats = envoy.stats()
        assert {name: value for name, value in stats.items() if name.endswith("update_rejected") and value} == {}
        assert server.stop() == 0
        assert bed.traffic("cart").ask() == (200, "bronze")


BECOMES = (
    'policy p = set_request_header(name: "x-tier", value: "VALUE") on * -> cart when method == "GET"',
    "policy p = rate_limit(requests: 100000, per: 1s) on * -> cart\n"
    'policy q = set_request_header(name: "x-tier", value: "VALUE") on * -> cart',
    'policy q = set_response_header(name: "x-other", value: "yes") on * -> cart\n'
    'policy p = set_request_header(name: "x-tier", value: "VALUE") on * -> cart',
    "policy q = allow(callers: [web]) on * -> cart\n"
    'policy p = set_request_header(name: "x-tier", value: "VALUE") on web -> cart',
)
"""One name after the other stands for a policy of another kind, or for the same one with a match or other callers."""


@pytest.mark.long
def test_a_policy_may_become_another_one_of_the_same_name(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = PROGRAM.partition("policy")[0]
    with ExitStack() as stack:
        first = 'policy p = set_request_header(name: "x-tier", value: "0") on * -> cart'
        bed = Emitted(tmp_path, graph + first, stack)
        # A name that comes back waits until connections that knew it otherwise are gone.
        options = ("policies.adm", "--mode", "explicit")
        server = stack.enter_context(served(tmp_path, *options, xds=XDS))
        server.until_event("compiled")
        bed.envoys.start(bed.bootstraps)
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        with bed.traffic("cart") as traffic:
            traffic.becomes(server, "0")
            for number, text in enumerate(BECOMES, start=1):
                write(bed.program, graph + text.replace("VALUE", str(number)))
                traffic.becomes(server, str(number))
                server.until(lambda: server.status()["adms"][0]["in_sync"])
        # Each request met exactly one of the policies.
        tiers = [tier for _, tier in traffic.seen]
        assert list(dict.fromkeys(tiers)) == [str(number) for number in range(len(BECOMES) + 1)]
        assert {status for status, _ in traffic.seen} == {200}
        assert [node["error"] for node in server.status()["adms"][0]["nodes"]] == [""]


@pytest.mark.long
def test_a_killed_server_comes_back_with_what_proxies_had_whatever_happened_meanwhile(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("policies.adm", "--mode", "explicit", "--state", "state")
    with ExitStack() as stack:
        bed = Emitted(tmp_path, PROGRAM.replace("TIER", "silver"), stack)
        (host,) = bed.bootstraps
        with served(tmp_path, *options, xds=XDS) as server:
            server.until_event("compiled")
            bed.envoys.start(bed.bootstraps)
            server.until(lambda: host in _kept(tmp_path))
            server.stop(signal.SIGKILL)
        with bed.traffic("cart") as traffic:
            # While no server runs, the program gets an error.
            write(bed.program, "app shop\nnonsense\n")
            with served(tmp_path, *options, xds=XDS) as server:
                server.until_event("recalled")
                server.until_event("last_good_state_stays")
                server.until(lambda: server.status()["adms"][0]["in_sync"])
                # A proxy that starts now gets the configuration of the others.
                bed.envoys.restart(host, bed.bootstraps[host])
                seen = len(traffic.seen)
                server.until(lambda: len(traffic.seen) > seen + 5 and traffic.seen[-1] == (200, "silver"))
                write(bed.program, PROGRAM.replace("TIER", "gold"))
                traffic.becomes(server, "gold")
        # Every response was enforced: only the restarted proxy was away for a while.
        assert {tier for status, tier in traffic.seen if status == 200} == {"silver", "gold"}


def _kept(folder: Path) -> dict[str, object]:
    path = folder / "state" / "state.json"
    found: dict[str, object] = json.loads(path.read_text())["groups"] if path.exists() else {}
    return found
