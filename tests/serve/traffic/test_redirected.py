"""The same with real redirection: addresses that come and go, and ADMs that were not in anybody's way before."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format

from dsl import load_text
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.interception import Family, interceptions, restore_file
from solver.place import place
from tests.serve.serving import Served, served
from tests.serve.traffic.bed import DRAIN_SECONDS, XDS_PORT
from tests.serve.traffic.callers import Caller
from tests.serve.traffic.programs import OUT, Ask
from tests.testbed.envoys import envoy_binary
from tests.testbed.mesh.mesh import Mesh
from tests.testbed.mesh.mesh import Mode as Between
from tests.testbed.mesh.needs import missing
from tests.testbed.mesh.proxies import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = """
app redirected
service shop { http 8080 }
service cart { http 8080  replicas 2 }
call shop -> cart
policy spread = load_balancing(policy: round_robin) on shop -> cart
policy closed = deny() on shop -> cart when header("x-out") == "1"
policy once   = add_request_header(name: "x-once", value: "VALUE") on shop -> cart
pin once at SIDE
pin closed at SIDE
"""


def text(side: str, value: str) -> str:
    return PROGRAM.replace("SIDE", side).replace("VALUE", value)


@contextlib.contextmanager
def relay(path: str, port: int) -> Iterator[None]:
    """Namespaces have no way to a server outside, and a socket in the file system is in none of them."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def join(inner: socket.socket) -> None:
        with inner, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as outer:
            back = threading.Thread(target=pump, args=(outer, inner))
            back.start()
            pump(inner, outer)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=join, args=(listener.accept()[0],), daemon=True).start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


class Pods:
    """A proxy at every replica, and somebody who loads what the server wants redirected."""

    def __init__(self, mesh: Mesh, folder: Path, path: str) -> None:
        self.mesh, self._folder = mesh, folder
        program = load_text(text("egress", "1"))
        placement = place(program)
        (own,) = emit(program, placement, mesh.addresses, Mode.REDIRECT, waiting=True)
        binary = envoy_binary()
        assert binary is not None
        self.names = [name for name in mesh.layout.by_name if "/" in name]
        for pod in self.names:
            made = json.loads(
                json_format.MessageToJson(xds_bootstrap(own, ("xds", 1)), preserving_proto_field_name=True)
            )
            made["node"]["cluster"] = pod.partition("/")[0]
            (xds,) = (each for each in made["static_resources"]["clusters"] if each["name"] == "xds")
            xds["type"] = "STATIC"
            xds.pop("upstream_bind_config", None)
            (locality,) = xds["load_assignment"]["endpoints"]
            locality["lb_endpoints"] = [{"endpoint": {"address": {"pipe": {"path": path}}}}]
            bootstrap = folder / f"{pod.replace('/', '-')}.json"
            bootstrap.write_text(json.dumps(made))
            mesh.start(
                pod, binary, "-c", str(bootstrap), *OPTIONS, "--service-node", pod, "--drain-time-s", str(DRAIN_SECONDS)
            )
        where = xds_bootstrap(own, ("xds", 1)).admin.address.socket_address  # type: ignore[attr-defined]
        self._admin = (where.address, where.port_value)
        self._first = interceptions(program, placement, mesh.addresses)

    def open_connections(self) -> int:
        """Those that the sender's ADM has to replicas, idle ones among them."""
        page = http.client.HTTPConnection(*self._admin)
        page.sock = self.mesh.connect("shop", *self._admin)
        with contextlib.closing(page):
            page.request("GET", "/stats?filter=^cluster.egress.*upstream_cx_active$")
            return sum(int(line.rpartition(": ")[2]) for line in page.getresponse().read().decode().splitlines())

    def load_first(self) -> None:
        for own in self._first:
            for family, tool in ((Family.IPV4, "iptables"), (Family.IPV6, "ip6tables")):
                self._load(own.service, tool, restore_file(own, family))

    def load_asked(self, service: str) -> None:
        """What a controller does: load what is there at every replica, and say so."""
        place = self._folder / "kept" / "interception" / service
        for tool in ("iptables", "ip6tables"):
            self._load(service, tool, (place / f"{tool}.rules").read_text())
        (place / "loaded").write_bytes((place / "digest").read_bytes())

    def _load(self, service: str, tool: str, rules: str) -> None:
        for pod in self.names:
            if pod.startswith(f"{service}/"):
                self.mesh.run(pod, f"{tool}-restore", "--noflush", text=rules)

    def endpoints(self, *replicas: int) -> None:
        """The endpoints file, with some of the replicas of `cart`."""
        services = {
            name: {"addresses": list(found.addresses), "pods": list(found.pods)}
            for name, found in self.mesh.addresses.services.items()
        }
        pods = [self.mesh.place("cart", each) for each in replicas]
        services["cart"]["pods"] = [address for pod in pods for address in pod.addresses]
        new = self._folder / "endpoints.new"
        new.write_text(json.dumps({"services": services}))
        new.replace(self._folder / "endpoints.json")


def in_sync(server: Served) -> bool:
    time.sleep(0.1)
    status = server.status()
    nodes = [node for row in status["adms"] for node in row["nodes"]]
    return len(nodes) == 3 and all(node["in_sync"] for node in nodes)


def over(server: Served) -> None:
    server.until(lambda: in_sync(server) and not server.status()["server"]["why"])


def test_endpoints_and_sides_change_under_traffic(tmp_path: Path) -> None:
    if missing():
        pytest.skip("; ".join(missing()))
    policies, socket_path = tmp_path / "policies.adm", f"{tmp_path}/xds.sock"
    policies.write_text(text("egress", "1"))
    options = ("policies.adm", "--endpoints", "endpoints.json", "--state", "kept", "--drain", str(DRAIN_SECONDS))
    port = XDS_PORT
    with Mesh(load_text(policies.read_text()), None, Between.NONE) as mesh, relay(socket_path, port):
        pods = Pods(mesh, tmp_path, socket_path)
        pods.endpoints(0)
        with contextlib.ExitStack() as serving:
            server = serving.enter_context(served(tmp_path, *options, xds=f"127.0.0.1:{port}"))
            over(server)
            pods.load_first()
            address = mesh.address("cart")

            def caller(protocol: str, *headers: tuple[str, str], keep: bool = True) -> Caller:
                return Caller(
                    lambda: mesh.connect("shop", address, 8080),
                    [Ask("shop", "cart", protocol, "/", headers)],
                    keep=keep,
                )

            passed = [caller("http"), caller("http", keep=False), caller("h2c")]
            refused = [caller("http", *OUT), caller("h2c", *OUT)]
            with contextlib.ExitStack() as calling:
                for each in (*passed, *refused):
                    calling.enter_context(each)

                def reach(replica: int) -> bool:
                    mesh.arrivals()
                    before = len([it for it in mesh.arrivals() if it.place == f"cart/{replica}"])
                    time.sleep(0.5)
                    return len([it for it in mesh.arrivals() if it.place == f"cart/{replica}"]) > before

                # A replica comes, and the other goes.
                server.until(lambda: reach(0))
                assert not reach(1)
                pods.endpoints(0, 1)
                server.until(lambda: reach(0) and reach(1))
                pods.endpoints(1)
                server.until(lambda: reach(1) and not reach(0))
                pods.endpoints(0, 1)
                server.until(lambda: reach(0) and reach(1))

                # Another argument while the server is away for a moment.
                server.stop(signal.SIGKILL)
                policies.write_text(text("egress", "2"))
                server = serving.enter_context(served(tmp_path, *options, xds=f"127.0.0.1:{port}"))
                server.until_event("compiled")
                over(server)
                # Nothing was ever redirected at the receiver: whoever is in charge of pods has to do that.
                before = len(server.events("transition_over"))
                policies.write_text(text("ingress", "2"))
                server.until((tmp_path / "kept" / "interception" / "cart" / "digest").exists)
                server.until(lambda: "its interception" in server.status()["server"]["why"])
                cut, kept = time.monotonic(), pods.open_connections()
                pods.load_asked("cart")
                cut_until = time.monotonic() + 1
                server.until_event("transition_over", before + 1)
                policies.write_text(text("egress", "3"))
                server.until_event("transition_over", before + 2)
                time.sleep(0.5)
            made = [it for each in passed for it in each.made if not it.lost]
            failed = [it for it in made if it.status != 200]
            # Rules that are loaded at a receiver that runs cut what is open there.
            assert all(it.ended >= cut and it.began <= cut_until for it in failed), (cut, cut_until, failed)
            # Each connection of the sender's ADM fails no more than the request that it is used for next.
            assert len(failed) <= kept, (len(failed), kept, failed)
            turned = [it for each in refused for it in each.made if not it.lost]
            assert {it.status for it in turned} == {403}, [it for it in turned if it.status != 403][:5]
            seen = [it.seen for it in mesh.arrivals("cart")]
            assert {it.header("x-once") for it in seen} == {("1",), ("2",), ("3",)}
            assert not any(it.header("x-out") or it.header("x-admc-met") for it in seen)
            assert abs(len(seen) - len(made)) <= sum(each.connections for each in passed if each.made)
