"""A real server in a process of its own: bad input leaves the last good state, and restarts lose nothing."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.core.v3 import base_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.service.discovery.v3 import ads_pb2_grpc, discovery_pb2

from admc.__main__ import main
from tests.serve.server_process import SECONDS, served
from xds_server.resources.types import CLUSTER, ENDPOINTS, EXTENSION, LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PROGRAM = """\
app shop
use "kinds.adm"
service web  { http 8080 }
service cart { http 8081 }
call web -> cart
policy tier = set_request_header(name: "x-tier", value: "gold") on web -> cart
policy even = load_balancing(policy: round_robin) on web -> cart
"""
ENDPOINTS_FILE: dict[str, Any] = {
    "services": {
        "web": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1"]},
        "cart": {"addresses": ["10.0.0.2"], "pods": ["10.1.0.2"]},
    }
}


def write(path: Path, text: str) -> None:
    """Replace a file as an editor does."""
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policies.adm").write_text(PROGRAM)
    (tmp_path / "kinds.adm").write_text("// nothing yet\n")
    (tmp_path / "endpoints.json").write_text(json.dumps(ENDPOINTS_FILE))
    return tmp_path


class Client:
    """A client with one stream, which acknowledges every response."""

    def __init__(self, address: str, service: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._requests: list[discovery_pb2.DiscoveryRequest] = []
        self._node = base_pb2.Node(id="one", cluster=service)
        self._stub = ads_pb2_grpc.AggregatedDiscoveryServiceStub(self._channel)

    def ask(self, type_url: str, names: tuple[str, ...] = ()) -> list[Any]:
        """The resources of one type; raises `grpc.RpcError`."""

        def requests() -> Iterator[discovery_pb2.DiscoveryRequest]:
            yield discovery_pb2.DiscoveryRequest(node=self._node, type_url=type_url, resource_names=names)
            over.wait()

        over = threading.Event()
        stream = self._stub.StreamAggregatedResources(requests(), timeout=SECONDS)
        try:
            return list(next(stream).resources)
        finally:
            stream.cancel()
            over.set()

    def filter_of(self, policy: str) -> list[Any]:
        """The filter configurations of a policy, as `tier:set_request_header`. Their names contain a digest of the
        filter chain, so they are taken from the listeners."""
        wanted = re.compile(rb"egress/[^/\s]+@[0-9a-f]{8}/" + re.escape(policy.encode()))
        names = {name.decode() for item in self.ask(LISTENER) for name in wanted.findall(item.value)}
        assert names, policy
        return self.ask(EXTENSION, tuple(sorted(names)))

    def close(self) -> None:
        self._channel.close()


@contextlib.contextmanager
def client(address: str, service: str) -> Iterator[Client]:
    made = Client(address, service)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.long
def test_without_endpoints_listeners_are_served_and_endpoint_lists_are_empty(folder: Path) -> None:
    with served(folder, "policies.adm") as server:
        server.until_event("compiled")
        with client(server.xds, "web") as web:
            names = [item.value for item in web.ask(LISTENER)]
            assert len(names) == 3
            assert len(web.ask(CLUSTER)) >= 1
            (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            assert b"10." not in found.value
        with client(server.xds, "unknown") as other, pytest.raises(grpc.RpcError) as caught:
            other.ask(LISTENER)
        assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
        denied = server.until_event("denied")
        assert (denied["node"], denied["claimed"], denied["reason"]) == ("one", "unknown", "unknown")
        assert denied["why"] == "the program has no service `unknown`"
        assert server.stop() == 0
        assert [event["event"] for event in server.events()][-2:] == ["draining", "stopped"]


def test_addresses_come_and_go_without_a_compile(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        with client(server.xds, "web") as web:
            (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            assert b"10.1.0.2" in found.value
            more = json.loads(json.dumps(ENDPOINTS_FILE))
            more["services"]["cart"]["pods"].append("10.1.0.77")
            write(folder / "endpoints.json", json.dumps(more))
            server.until_event("located")
            (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            assert b"10.1.0.77" in found.value
        assert server.metric("admc_compiles_total") == 1.0
        assert server.metric("admc_locates_total") == 1.0


@pytest.mark.long
def test_unlisted_names_are_shown_though_all_is_in_sync(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        assert server.events("unlisted") == []
        less = {"services": {name: where for name, where in ENDPOINTS_FILE["services"].items() if name != "cart"}}
        write(folder / "endpoints.json", json.dumps(less))
        event = server.until_event("unlisted")
        assert (event["destinations"], event["callers"], event["of"]) == (["cart"], [], 1)
        assert server.status()["server"]["unlisted"] == ["cart"]
        assert server.metric("admc_unlisted") == 1.0
        capsys.readouterr()
        assert main(["status", "--server", f"http://{server.ops}"]) == 0
        assert "no addresses for: `cart`; connections that may be theirs are refused\n" in capsys.readouterr().out
        # The unlisted names are the same, so neither this change nor a newer program logs them again.
        less["services"]["web"] = {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1", "10.1.0.7"]}
        write(folder / "endpoints.json", json.dumps(less))
        server.until_event("located", 2)
        write(folder / "policies.adm", PROGRAM.replace("gold", "silver"))
        server.until_event("compiled", 2)
        write(folder / "endpoints.json", json.dumps(ENDPOINTS_FILE))
        server.until_event("all_listed")
        assert len(server.events("unlisted")) == 1
        assert server.status()["server"]["unlisted"] == []


@pytest.mark.long
def test_a_service_that_has_lost_its_policies_passes_everything_on(folder: Path) -> None:
    with served(folder, "policies.adm") as server:
        server.until_event("compiled")
        with client(server.xds, "web") as web:
            assert any(b"x-tier" in item.value or b"even" in item.value for item in web.ask(CLUSTER))
            write(folder / "policies.adm", PROGRAM.partition("policy")[0])
            server.until_event("compiled", 2)
            # Its connections are still redirected: both listeners exist, and pass them on to their original
            # destinations.
            listeners = [listener_pb2.Listener.FromString(item.value) for item in web.ask(LISTENER)]
            assert [item.name for item in listeners] == ["egress", "ingress", "trial"]
            for item in listeners[:2]:
                chains = [chain.name for chain in item.filter_chains]
                assert chains == [f"{item.name}/passthrough", f"{item.name}/closed"]
            names = [cluster_pb2.Cluster.FromString(item.value).name for item in web.ask(CLUSTER)]
            # Resources that older connections may use stay until the proxy has acknowledged the new snapshot.
            assert names == ["egress/cart:8081/even", "egress/passthrough", "ingress/passthrough"]
        server.until(lambda: server.status()["adms"] == [])


BAD_ENDPOINTS = {
    "half": json.dumps(ENDPOINTS_FILE)[:40],
    "empty": "",
    "a list": "[]",
    "another name": json.dumps({"services": {"unknown": {}}}),
    "no address": json.dumps({"services": {"web": {"pods": ["10.1.0.1000"]}}}),
    "deep": "[" * 100_000,
    "shared pod": json.dumps({"services": {"web": {"pods": ["10.1.0.9"]}, "cart": {"pods": ["::ffff:10.1.0.9"]}}}),
    "any address": json.dumps({"services": {"web": {"pods": ["0.0.0.0"]}, "cart": {"pods": ["10.1.0.2"]}}}),
}


@pytest.mark.long
def test_bad_endpoints_are_reported_and_the_last_good_ones_stay(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        for number, (name, text) in enumerate(BAD_ENDPOINTS.items(), start=1):
            write(folder / "endpoints.json", text)
            server.until(lambda number=number: server.metric("admc_endpoint_errors_total") == number)
            code = "ADM724" if name.startswith("shared") else "ADM712"
            assert server.events("finding")[-1]["code"] == code, name
            assert server.get("/readyz")[0] == 200
            assert server.status()["server"]["why"].startswith("the endpoints file cannot be used")
        (folder / "endpoints.json").unlink()
        server.until(lambda: server.events("finding")[-1]["code"] == "ADM802")
        with client(server.xds, "web") as web:
            (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            assert b"10.1.0.2" in found.value
        # A program that changes meanwhile becomes active with the last good endpoints.
        write(folder / "policies.adm", PROGRAM.replace("gold", "silver"))
        server.until_event("compiled", 2)
        with client(server.xds, "web") as web:
            (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            assert b"10.1.0.2" in found.value
        write(folder / "endpoints.json", json.dumps(ENDPOINTS_FILE))
        # They have no errors any more; and `web` has no proxy by now.
        said = "the new plan is not in force everywhere yet: it waits for `web`: 0 of 1 proxies are connected"
        server.until(lambda: server.status()["server"]["why"] == said)


@pytest.mark.long
def test_files_that_the_program_uses_are_followed_also_where_they_were_missing(folder: Path) -> None:
    (folder / "kinds.adm").unlink()
    with served(folder, "policies.adm") as server:
        server.until(lambda: server.events("finding"))
        assert "kinds.adm" in server.events("finding")[0]["text"]
        assert server.get("/readyz")[0] == 503
        with client(server.xds, "web") as web, pytest.raises(grpc.RpcError) as caught:
            web.ask(LISTENER)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        write(folder / "kinds.adm", "// here\n")
        server.until_event("compiled")
        state = server.status()["server"]["state"]
        # As a mounted ConfigMap changes: a link to a folder is swapped.
        for name in ("one", "two"):
            (folder / name).mkdir()
            (folder / name / "kinds.adm").write_text(f"// {name}\n")
        (folder / "data").symlink_to("one")
        (folder / "link").symlink_to("data/kinds.adm")
        (folder / "link").replace(folder / "kinds.adm")
        server.until(lambda: server.status()["server"]["state"] != state)
        state = server.status()["server"]["state"]
        (folder / "next").symlink_to("two")
        (folder / "next").replace(folder / "data")
        server.until(lambda: server.status()["server"]["state"] != state)


@pytest.mark.long
def test_files_of_an_included_folder_are_followed_and_kept(tmp_path: Path) -> None:
    app, shared = tmp_path / "app", tmp_path / "shared"
    app.mkdir()
    shared.mkdir()
    (app / "policies.adm").write_text(PROGRAM.replace("kinds.adm", "../shared/kinds.adm"))
    (shared / "kinds.adm").write_text("// one\n")
    (app / "endpoints.json").write_text(json.dumps(ENDPOINTS_FILE))
    options = ("--include", str(shared), "--state", str(tmp_path / "state"))
    with served(app, "policies.adm", *options) as server:
        server.until_event("compiled")
        state = server.status()["server"]["state"]
        write(shared / "kinds.adm", "// two\n")
        server.until(lambda: server.status()["server"]["state"] != state)
        state = server.status()["server"]["state"]
        shared.rename(tmp_path / "away")
        server.until(lambda: server.events("finding"))
        write(tmp_path / "away" / "kinds.adm", "// three\n")
        (tmp_path / "away").rename(shared)
        server.until(lambda: server.status()["server"]["state"] != state)
        state = server.status()["server"]["state"]
        server.stop()
    shared.rename(tmp_path / "away")
    shared.mkdir()
    with served(app, "policies.adm", *options) as server:
        server.until(lambda: server.status()["server"]["state"] == state)


PLANS: dict[str, tuple[Callable[[str], str], str]] = {
    "half": (lambda text: text[: len(text) // 2], "ADM804"),
    "newer": (lambda text: text.replace('"schema_version": 5', '"schema_version": 99'), "ADM805"),
    "empty": (lambda _: "", "ADM804"),
    "another program": (lambda text: re.sub('"sha256": "[0-9a-f]+"', f'"sha256": "{"0" * 64}"', text), "ADM852"),
    "by hand": (lambda text: text.replace('"place": "egress"', '"place": "ingress"'), "ADM853"),
}


@pytest.mark.long
def test_a_plan_is_served_as_it_is_and_a_bad_one_is_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(folder / "policies.adm")]) == 0
    plan = folder / "policies.plan.json"
    good = plan.read_text()
    with served(folder, "policies.plan.json") as server:
        server.until_event("compiled")
        state = server.status()["server"]["state"]
        for name, (spoil, code) in PLANS.items():
            count = len(server.events("finding"))
            assert spoil(good) != good
            write(plan, spoil(good))
            server.until(lambda count=count: len(server.events("finding")) > count)
            assert server.events("finding")[-1]["code"] == code, name
            assert server.get("/readyz")[0] == 200
            assert server.status()["server"]["state"] == state
        write(plan, good)
        server.until_event("compiled", 2)
        # The program has moved on, and the plan has not.
        write(folder / "policies.adm", PROGRAM.replace("gold", "silver"))
        server.until(lambda: server.events("finding")[-1]["code"] == "ADM852")
        assert server.status()["server"]["state"] == state
        assert main(["compile", str(folder / "policies.adm")]) == 0
        server.until(lambda: server.status()["server"]["state"] != state)


@pytest.mark.long
def test_a_second_server_at_the_port_ends_with_an_error(folder: Path) -> None:
    (folder / "other").mkdir()
    (folder / "other" / "policies.adm").write_text("app other\n")
    with served(folder, "policies.adm") as first:
        second = [sys.executable, "-m", "admc", "serve", "policies.adm", "--plaintext"]
        for ports, shown in (
            (["--xds", first.xds, "--ops", "127.0.0.1:0"], b"`--xds` takes another address"),
            (["--xds", "127.0.0.1:0", "--ops", first.ops], f"--server http://{first.ops}` shows its state".encode()),
        ):
            done = subprocess.run([*second, *ports], cwd=folder / "other", capture_output=True, timeout=60)
            assert done.returncode == 1
            assert b"error[ADM825]" in done.stderr
            assert b"because: address already in use" in done.stderr
            assert shown in done.stderr
            assert b"Traceback" not in done.stderr
        asked = [sys.executable, "-m", "admc", "status", "--server", f"http://{first.ops}"]
        answer = subprocess.run(asked, cwd=folder / "other", capture_output=True, timeout=60).stdout.decode()
        # Both are called `policies.adm` where they were started.
        assert f"from `{folder / 'policies.adm'}`" in answer.splitlines()[0]
        assert f"at http://{first.ops}, since" in answer.splitlines()[1]


USAGE = {
    "no door": ([], "ADM850"),
    "half a door": (["--tls-cert", "a.crt", "--tls-key", "a.key"], "ADM850"),
    "open to all": (["--plaintext", "--xds", "0.0.0.0:0"], "ADM850"),
    "by name": (["--plaintext", "--xds", "localhost:0"], "ADM850"),
    "twice for nothing": (["--plaintext-anywhere"], "ADM801"),
    "two at one port": (["--plaintext", "--xds", "127.0.0.1:18000", "--ops", "127.0.0.1:18000"], "ADM801"),
    "both": (["--plaintext", "--tls-cert", "a.crt"], "ADM801"),
    "no address": (["--plaintext", "--xds", "18000"], "ADM801"),
    "no name": (["--plaintext", "--plaintext-anywhere", "--xds", "a..b:18000"], "ADM801"),
    "no name to ask at": (["--plaintext", "--ops", f"{'a' * 64}:18001"], "ADM801"),
    "no port": (["--plaintext", "--xds", "127.0.0.1:http"], "ADM801"),
    "IPv6 without brackets": (["--plaintext", "--xds", "::1:18000"], "ADM801"),
}


@pytest.mark.parametrize("name", USAGE)
def test_what_would_open_the_port_by_accident_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, code = USAGE[name]
    where = [] if "--xds" in options else ["--xds", "127.0.0.1:0"]
    assert main(["serve", str(tmp_path / "policies.adm"), *where, *options]) == 1
    assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.long
def test_it_stops_at_a_signal_and_at_once_at_the_second(folder: Path) -> None:
    with served(folder, "policies.adm") as server:
        server.until_event("compiled")
        assert server.stop(signal.SIGINT) == 0
    with served(folder, "policies.adm") as server:
        # It may be busy.
        assert server.stop() == 0
    for compiled in (True, False):
        with served(folder, "policies.adm") as server:
            if compiled:
                server.until_event("compiled")
            workers: list[int] = server.until(lambda server=server: _children(server.process.pid))
            server.process.kill()
            server.process.wait()
            deadline = time.monotonic() + SECONDS
            while any(map(_runs, workers)):
                assert time.monotonic() < deadline, "its workers outlive it"
                time.sleep(0.05)
            assert "Traceback" not in server.log.read_text()


@pytest.mark.long
def test_workers_that_are_killed_are_replaced(folder: Path) -> None:
    with served(folder, "policies.adm", "--endpoints", "endpoints.json") as server:
        server.until_event("compiled")
        server.until(lambda: len(_children(server.process.pid)) >= 2)
        for pid in _children(server.process.pid):
            os.kill(pid, signal.SIGKILL)
        more = json.loads(json.dumps(ENDPOINTS_FILE))
        more["services"]["cart"]["pods"].append("10.1.0.77")
        write(folder / "endpoints.json", json.dumps(more))

        def known() -> bool:
            with client(server.xds, "web") as web:
                (found,) = web.ask(ENDPOINTS, ("egress/cart:8081/even",))
            return b"10.1.0.77" in found.value

        server.until(known)
        write(folder / "policies.adm", PROGRAM.replace("gold", "silver"))
        server.until(lambda: server.metric("admc_compiles_total") >= 3)
        # No proxy is connected that could acknowledge it.
        server.until(lambda: "0 of 1 proxies" in server.status()["server"]["why"])


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        return [int(word) for word in file.read().split()]


def _runs(pid: int) -> bool:
    """Whether a process is still running. Its new parent may collect a zombie late, or never."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
