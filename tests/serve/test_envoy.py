"""Real Envoys, started from what `--emit` wrote, get everything from `admc serve` and follow the program's text."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from admc.__main__ import main
from admc.pipeline import compile_program
from tests.serve.serving import served
from tests.testbed.client import Request, send
from tests.testbed.echo import EchoServices
from tests.testbed.envoys import Envoys, envoy_binary
from tests.testbed.site import Site

if TYPE_CHECKING:
    from tests.serve.serving import Served

ENVOY = envoy_binary()
pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")

PROGRAM = """
app shop

service web  { http 8080 }
service cart { http 8081 }

call web -> cart

policy tier = set_request_header(name: "x-tier", value: "TIER") on web -> cart
"""


class Traffic:
    """Requests one after the other until told to stop, and what the service saw of each."""

    def __init__(self, site: Site) -> None:
        (self.call,) = site.program.calls
        self.site = site
        self.seen: list[tuple[int | None, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def ask(self) -> tuple[int | None, str]:
        reply = send("http", self.site.target(self.call), Request(), 10.0)
        tier = next((value for name, value in reply.seen.headers if name == "x-tier"), "") if reply.seen else ""
        return reply.status, tier

    def _run(self) -> None:
        while not self._stop.is_set():
            self.seen.append(self.ask())

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def until_seen(server: Served, traffic: Traffic, tier: str) -> None:
    server.until(lambda: traffic.seen and traffic.seen[-1][1] == tier)


def test_the_emitted_bootstrap_works_with_this_server_and_follows_the_program(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(PROGRAM.replace("TIER", "silver"))
    assert main(["compile", str(program), "--emit", str(tmp_path / "out")]) == 0
    compiled = compile_program(program)
    site = Site(compiled.program, compiled.placement, tmp_path)
    (host,) = [adm.service for adm in compiled.placement.adms]
    bootstrap = tmp_path / "out" / host / "bootstrap-xds.yaml"
    assert ENVOY is not None
    with ExitStack() as stack:
        stack.enter_context(EchoServices(site.endpoints))
        server = stack.enter_context(served(tmp_path, "policies.adm", "--mode", "explicit", xds="127.0.0.1:18000"))
        server.until_event("compiled")
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        envoys.start({host: bootstrap})
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        with Traffic(site) as traffic:
            until_seen(server, traffic, "silver")

            program.write_text(PROGRAM.replace("TIER", "gold"))
            until_seen(server, traffic, "gold")

            # What is wrong changes nothing, is told, and is healed by the next good text.
            program.write_text(PROGRAM.replace("TIER", "bronze") + "polizy")
            server.until(lambda: server.metric("admc_compile_errors_total") == 1.0)
            assert server.get("/readyz")[0] == 200
            assert "polizy" in server.status()["server"]["why"]
            count = len(traffic.seen)
            server.until(lambda: len(traffic.seen) > count + 20)
            assert traffic.seen[-1] == (200, "gold")

            # A policy that needs the ADM to know its own replicas, which the first text did not.
            limit = "policy limit = rate_limit(requests: 100000, per: 1s) on web -> cart\n"
            program.write_text(PROGRAM.replace("TIER", "bronze") + limit)
            until_seen(server, traffic, "bronze")
        assert {status for status, _ in traffic.seen} == {200}
        tiers = [tier for _, tier in traffic.seen]
        assert tiers == sorted(tiers, key=["silver", "gold", "bronze"].index)
        stats = envoys.running[host].stats()
        assert {name: value for name, value in stats.items() if name.endswith("update_rejected") and value} == {}
        assert server.stop() == 0
        assert Traffic(site).ask() == (200, "bronze")


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


def test_a_policy_may_become_another_one_of_the_same_name(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = PROGRAM.partition("policy")[0]
    program = tmp_path / "policies.adm"
    program.write_text(graph + 'policy p = set_request_header(name: "x-tier", value: "0") on * -> cart')
    assert main(["compile", str(program), "--emit", str(tmp_path / "out")]) == 0
    compiled = compile_program(program)
    site = Site(compiled.program, compiled.placement, tmp_path)
    (host,) = [adm.service for adm in compiled.placement.adms]
    assert ENVOY is not None
    with ExitStack() as stack:
        stack.enter_context(EchoServices(site.endpoints))
        # A name that comes back waits until connections that knew it otherwise are gone.
        options = ("policies.adm", "--mode", "explicit", "--drain", "1")
        server = stack.enter_context(served(tmp_path, *options, xds="127.0.0.1:18000"))
        server.until_event("compiled")
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        envoys.start({host: tmp_path / "out" / host / "bootstrap-xds.yaml"})
        server.until(lambda: server.status()["adms"][0]["in_sync"])
        with Traffic(site) as traffic:
            until_seen(server, traffic, "0")
            for number, text in enumerate(BECOMES, start=1):
                program.write_text(graph + text.replace("VALUE", str(number)))
                until_seen(server, traffic, str(number))
                server.until(lambda: server.status()["adms"][0]["in_sync"])
        # Whichever it was, it was always enforced, and only once.
        tiers = [tier for _, tier in traffic.seen]
        assert list(dict.fromkeys(tiers)) == [str(number) for number in range(len(BECOMES) + 1)]
        assert {status for status, _ in traffic.seen} == {200}
        assert [node["error"] for node in server.status()["adms"][0]["nodes"]] == [""]


def test_a_killed_server_comes_back_with_what_proxies_had_whatever_happened_meanwhile(
    tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "policies.adm"
    program.write_text(PROGRAM.replace("TIER", "silver"))
    assert main(["compile", str(program), "--emit", str(tmp_path / "out")]) == 0
    compiled = compile_program(program)
    site = Site(compiled.program, compiled.placement, tmp_path)
    (host,) = [adm.service for adm in compiled.placement.adms]
    bootstrap = tmp_path / "out" / host / "bootstrap-xds.yaml"
    options = ("policies.adm", "--mode", "explicit", "--state", "state")
    assert ENVOY is not None
    with ExitStack() as stack:
        stack.enter_context(EchoServices(site.endpoints))
        envoys = stack.enter_context(Envoys(tmp_path / "logs", ENVOY))
        with served(tmp_path, *options, xds="127.0.0.1:18000") as server:
            server.until_event("compiled")
            envoys.start({host: bootstrap})
            server.until(lambda: host in _kept(tmp_path))
            server.stop(signal.SIGKILL)
        with Traffic(site) as traffic:
            # While nobody serves, somebody spoils the program.
            program.write_text("app shop\nnonsense\n")
            with served(tmp_path, *options, xds="127.0.0.1:18000") as server:
                server.until_event("recalled")
                server.until_event("last_good_state_stays")
                server.until(lambda: server.status()["adms"][0]["in_sync"])
                # A proxy that starts now gets what the others have.
                envoys.restart(host, bootstrap)
                seen = len(traffic.seen)
                server.until(lambda: len(traffic.seen) > seen + 5 and traffic.seen[-1] == (200, "silver"))
                program.write_text(PROGRAM.replace("TIER", "gold"))
                until_seen(server, traffic, "gold")
        # Whatever was answered was enforced: only the restarted proxy was away for a while.
        assert {tier for status, tier in traffic.seen if status == 200} == {"silver", "gold"}


def _kept(folder: Path) -> dict[str, object]:
    path = folder / "state" / "state.json"
    found: dict[str, object] = json.loads(path.read_text())["groups"] if path.exists() else {}
    return found
