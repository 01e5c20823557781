"""Pods wait at a real server until real Envoys have acknowledged their address."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import dsl
from admc.__main__ import main
from admc.kubernetes.cluster.start_gate import AWAY_SECONDS
from admc.testbed.envoys import LAUNCHER, Envoys, envoy_binary
from emitters.addresses import loopback
from tests.cli.command import ROOT
from tests.serve.pki import Authority
from tests.serve.server_process import SECONDS, Served
from tests.serve.test_identity import RSA, jwk, signed, written
from tests.serve.test_server import write
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENVOY = envoy_binary()
pytestmark = [pytest.mark.long, pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")]

PROGRAM = """
app shop

service web    { http 8080  namespace shop }
service search { http 8081  namespace shop }
service other  { http 8082  namespace shop }

call web -> search
call other -> web

// The message can hold every number, but the script fails in Envoy below 1.
@ingress
kind slow_lane(kbps: int) for http template "lane.yaml"

@ingress
policy known = allow(callers: [web]) on * -> search
"""
LANE = """
"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
default_source_code: {inline_string: "assert(${kbps} > 0, 'too narrow')"}
"""
REFUSED = PROGRAM + "policy lane = slow_lane(kbps: 0) on web -> search\n"
POD = "127.9.9.9"
WEB = "system:serviceaccount:shop:web"


@dataclass
class Waiter:
    """`python -m admc.pod wait` in a process of its own."""

    process: subprocess.Popen[bytes]
    output: Path

    @property
    def text(self) -> str:
        return self.output.read_text()

    def until(self, text: str) -> None:
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.02)

    def waits(self, seconds: float = 2.0) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended with {self.process.wait(seconds)}: {self.text}")


class Bed:
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.port = free_port()
        self._stack = stack
        servers = Authority("servers")
        servers.issue(dns=("admc.test",), addresses=("127.0.0.1",)).write(folder, "server")
        (folder / "ca.crt").write_bytes(servers.certificate)
        written(folder, jwk(RSA.public_key(), kid="one"))
        (folder / "search.token").write_text(signed(sub="system:serviceaccount:shop:search", exp=time.time() + 3600))
        (folder / "web.token").write_text(signed(sub=WEB, exp=time.time() + 3600))
        (folder / "lane.yaml").write_text(LANE)
        self.program = folder / "policies.adm"
        self.program.write_text(PROGRAM)
        self.endpoints()
        self.pods(**{WEB: {"uid": "one", "service": "web", "addresses": [POD]}})
        xds = ["--xds", f"127.0.0.1:{self.port}", "--xds-ca", f"{folder}/ca.crt", "--xds-name", "admc.test"]
        token = ["--xds-token", f"{folder}/search.token"]
        assert main(["compile", str(self.program), "--emit", str(folder / "out"), *xds, *token]) == 0
        self.bootstrap = folder / "out" / "search" / "bootstrap-xds.yaml"
        assert ENVOY is not None
        self.envoys = stack.enter_context(Envoys(folder / "logs", ENVOY))

    def pods(self, **pods: Any) -> None:
        write(self.folder / "pods.json", json.dumps(pods))

    def endpoints(self, *more: str) -> None:
        """The addresses of all services, and of more pods of `web`."""
        found = loopback(dsl.load_text(PROGRAM.replace("lane.yaml", "lane.yaml"), read=lambda _: LANE.encode()))
        services = {
            name: {
                "addresses": list(item.addresses),
                "pods": [*item.pods, *(more if name == "web" else ())],
            }
            for name, item in found.services.items()
        }
        write(self.folder / "endpoints.json", json.dumps({"services": services}))

    @contextlib.contextmanager
    def server(self) -> Iterator[Served]:
        log = self.folder / "serve.log"
        command = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid())]
        command += [sys.executable, "-m", "tests.cluster.waiting.server", str(self.folder), str(self.port)]
        with log.open("wb") as errors:
            process = subprocess.Popen(command, cwd=ROOT, stderr=errors, stdin=subprocess.DEVNULL)
        it = Served(process, log)
        try:
            it.ops = it.until_event("listening")["ops"]
            it.until_event("compiled")
            yield it
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()

    def start_envoy(self, server: Served) -> None:
        self.envoys.start({"search": self.bootstrap})
        self.until_in_sync(server)

    def until_in_sync(self, server: Served) -> None:
        server.until(
            lambda: [adm["in_sync"] for adm in server.status()["adms"] if adm["service"] == "search"] == [True]
        )

    def waiter(self, token: str = "web.token") -> Waiter:  # noqa: S107 - a file
        output = self.folder / f"wait-{time.monotonic_ns()}.log"
        command = [
            sys.executable,
            "-I",
            "-S",
            str(LAUNCHER),
            str(os.getpid()),
            sys.executable,
            "-m",
            "admc.pod",
            "wait",
        ]
        files = ["--ca", str(self.folder / "ca.crt"), "--token", str(self.folder / token)]
        with output.open("wb") as errors:
            process = subprocess.Popen(
                [*command, "--server", f"127.0.0.1:{self.port}", *files, "--name", "one"], cwd=ROOT, stderr=errors
            )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return Waiter(process, output)


@pytest.fixture
def bed(tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]) -> Iterator[Bed]:
    with ExitStack() as stack:
        yield Bed(tmp_path, stack)


def test_a_pod_is_known_when_the_proxies_have_acknowledged_its_address_and_not_before(bed: Bed) -> None:
    with bed.server() as server:
        bed.start_envoy(server)
        waiter = bed.waiter()
        waiter.until(f"the address {POD} is not published yet")
        envoy = bed.envoys.running["search"]
        envoy.process.send_signal(signal.SIGSTOP)
        try:
            bed.endpoints(POD)
            waiter.until(f"proxy {envoy.node} of `search` has not acknowledged it")
            waiter.waits()
        finally:
            envoy.process.send_signal(signal.SIGCONT)
        assert waiter.process.wait(SECONDS) == 0
        assert POD in envoy.admin_get("/config_dump?include_eds")[1].decode()
        assert waiter.text.splitlines()[-1].endswith("the address of this pod is known")
        # The next pod at that address has nothing to wait for.
        began = time.monotonic()
        assert bed.waiter().process.wait(SECONDS) == 0
        assert time.monotonic() - began < AWAY_SECONDS / 2
        # A pod whose address no ADM needs, too: even one that is not listed.
        bed.pods(**{WEB: {"uid": "two", "service": "other", "addresses": ["127.9.9.8"]}})
        assert bed.waiter().process.wait(SECONDS) == 0


def test_a_proxy_that_refuses_its_configuration_holds_the_pod(bed: Bed) -> None:
    with bed.server() as server:
        bed.start_envoy(server)
        write(bed.program, REFUSED)
        server.until_event("refused")
        waiter = bed.waiter()
        bed.endpoints(POD)
        waiter.until("of `search` refuses its configuration")
        waiter.waits()
        write(bed.program, PROGRAM)
        assert waiter.process.wait(SECONDS) == 0, waiter.text


def test_without_a_server_a_pod_waits_and_a_new_one_waits_for_proxies_to_come_back(bed: Bed) -> None:
    waiter = bed.waiter()
    waiter.until("there is no answer")
    with bed.server() as server:
        bed.start_envoy(server)
        waiter.until("is not published yet")
        server.process.kill()
        server.process.wait()
    waiter.waits()
    envoy = bed.envoys.running["search"]
    envoy.process.send_signal(signal.SIGSTOP)
    try:
        bed.endpoints(POD)
        with bed.server() as server:
            # Its proxy has not come back, and does not know the pod.
            waiter.until("1 proxy of `search` not connected")
            waiter.waits()
            envoy.process.send_signal(signal.SIGCONT)
            assert waiter.process.wait(SECONDS) == 0, waiter.text
            assert POD in envoy.admin_get("/config_dump?include_eds")[1].decode()
    finally:
        envoy.process.send_signal(signal.SIGCONT)


def test_a_pod_that_is_gone_or_that_the_server_does_not_know_is_refused_and_asks_again(bed: Bed) -> None:
    with bed.server():
        waiter = bed.waiter()
        waiter.until("is not published yet")
        before = bed.folder / "web.token"
        bed.pods()
        waiter.until("permission denied: this client is no pod that the server knows")
        # The token is read anew for each attempt.
        bed.pods(**{WEB: {"uid": "one", "service": "other", "addresses": []}})
        assert waiter.process.wait(SECONDS) == 0
        before.write_text(signed(sub=WEB, aud=["other"], exp=time.time() + 3600))
        waiter = bed.waiter()
        waiter.until("permission denied")
        waiter.waits(1.0)
        before.write_text(signed(sub=WEB, exp=time.time() + 3600))
        assert waiter.process.wait(SECONDS) == 0


def test_a_signal_ends_the_wait_although_it_is_the_first_process_of_its_container(bed: Bed) -> None:
    waiter = bed.waiter()
    waiter.until("there is no answer")
    waiter.process.send_signal(signal.SIGTERM)
    assert waiter.process.wait(SECONDS) == 128 + signal.SIGTERM
