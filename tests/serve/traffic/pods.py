"""Pods with proxies of their own, in namespaces and with real redirection, and what a cluster does with them.

    relay      the way from inside to the server
    Pods       proxies that start, end and are killed; rules; the endpoints file

Namespaces are there from the beginning. A pod *runs* from `start` to `kill`, and is known as long as the endpoints file
has it.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from admc.files import write_whole
from admc.testbed.envoys import envoy_binary
from dsl import load_text
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.interception import Family, interceptions, restore_file
from solver.place import place
from tests.testbed.mesh.proxies import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from tests.testbed.mesh.control import Started
    from tests.testbed.mesh.mesh import Mesh

DRAIN_SECONDS = 3
"""Envoy looks at whole seconds: with less, connections are cut without having been told to close."""
TOOLS = {"iptables": Family.IPV4, "ip6tables": Family.IPV6}


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
    """What runs in the namespaces of a mesh."""

    _lives = itertools.count()

    def __init__(self, mesh: Mesh, folder: Path, path: str, text: str) -> None:
        """`path` is of the relay. `text` is any program of the application with one ADM at least: for bootstraps."""
        self.mesh, self._folder = mesh, folder
        program = load_text(text)
        own, *_ = emit(program, place(program), mesh.addresses, Mode.REDIRECT, waiting=True)
        self._bootstrap: Any = json.loads(
            json_format.MessageToJson(xds_bootstrap(own, ("xds", 1)), preserving_proto_field_name=True)
        )
        (xds,) = (each for each in self._bootstrap["static_resources"]["clusters"] if each["name"] == "xds")
        xds["type"] = "STATIC"
        xds.pop("upstream_bind_config", None)
        (locality,) = xds["load_assignment"]["endpoints"]
        locality["lb_endpoints"] = [{"endpoint": {"address": {"pipe": {"path": path}}}}]
        admin = self._bootstrap["admin"]["address"]["socket_address"]
        self._admin = (str(admin["address"]), int(admin["port_value"]))
        self.running: dict[str, Started] = {}
        self.nodes: dict[str, str] = {}
        """Pod -> its node id."""

    # ---- proxies ----

    def start(self, pod: str, *, again: bool = False) -> None:
        """`again`: it is the same pod, whose proxy has ended. Else another takes its place."""
        binary = envoy_binary()
        assert binary is not None
        if not again:
            self.nodes[pod] = f"{pod}-{next(self._lives)}"
        made = {**self._bootstrap, "node": {**self._bootstrap["node"], "cluster": pod.partition("/")[0]}}
        path = self._folder / f"{pod.replace('/', '-')}.json"
        path.write_text(json.dumps(made))
        own = ("--service-node", self.nodes[pod], "--drain-time-s", str(DRAIN_SECONDS))
        self.running[pod] = self.mesh.start(pod, binary, "-c", str(path), *OPTIONS, *own)

    def kill(self, pod: str) -> None:
        self.running.pop(pod).kill()

    def admin(self, pod: str, path: str) -> tuple[int, str]:
        service, _, replica = pod.partition("/")
        page = http.client.HTTPConnection(*self._admin)
        page.sock = self.mesh.connect(service, *self._admin, replica=int(replica))
        with contextlib.closing(page):
            page.request("GET", path)
            answer = page.getresponse()
            return answer.status, answer.read().decode()

    def ready(self, pod: str) -> bool:
        try:
            return self.admin(pod, "/ready")[0] == 200
        except (OSError, http.client.HTTPException):
            assert self.running[pod].code is None, self.running[pod].log.read_text()
            return False

    def refused(self, pod: str) -> list[str]:
        """Counters of updates that it refused, where they are not zero."""
        lines = self.admin(pod, "/stats?filter=update_rejected")[1].splitlines()
        return [f"{pod}: {line}" for line in lines if not line.endswith(": 0")]

    def connections(self, pod: str) -> tuple[int, int]:
        """How many its ADM has to destinations, idle ones among them, and how many it has made in all."""
        lines = self.admin(pod, "/stats?filter=^cluster.egress.*upstream_cx_")[1].splitlines()
        found = [line.rpartition(": ") for line in lines]

        def count(what: str) -> int:
            return sum(int(number) for name, _, number in found if name.endswith(f".upstream_cx_{what}"))

        return count("active"), count("total")

    # ---- rules ----

    def load_planned(self, text: str, *pods: str) -> None:
        """What `admc compile --emit` writes for a program, with the addresses of all pods that there will ever be."""
        program = load_text(text)
        planned = {own.service: own for own in interceptions(program, place(program), self.mesh.addresses)}
        for pod in pods:
            for tool, family in TOOLS.items():
                self._load(pod, tool, restore_file(planned[pod.partition("/")[0]], family))

    def load_asked(self, service: str, *pods: str) -> None:
        """What the server wants redirected."""
        for pod in pods:
            for tool in TOOLS:
                self._load(pod, tool, (self._asked(service) / f"{tool}.rules").read_text())

    def asked(self) -> list[str]:
        """The services of which nobody has said yet that what the server wants is loaded."""
        found = []
        for digest in self._folder.glob("kept/interception/*/digest"):
            said = digest.with_name("loaded")
            if not said.exists() or said.read_bytes() != digest.read_bytes():
                found.append(digest.parent.name)
        return sorted(found)

    def confirm(self, service: str) -> None:
        write_whole(self._asked(service) / "loaded", (self._asked(service) / "digest").read_bytes())

    def _asked(self, service: str) -> Path:
        return self._folder / "kept" / "interception" / service

    def _load(self, pod: str, tool: str, rules: str) -> None:
        self.mesh.run(pod, f"{tool}-restore", "--noflush", text=rules)

    # ---- addresses ----

    def endpoints(self, pods: Collection[str], unready: Collection[str] = ()) -> bytes:
        """Replace the endpoints file by one with these pods; what it has."""

        def of(name: str, these: Collection[str]) -> list[str]:
            own = (pod for pod in sorted(these) if pod.partition("/")[0] == name)
            return [address for pod in own for address in self.mesh.layout.by_name[pod].addresses]

        services = {
            name: {"addresses": list(found.addresses), "pods": of(name, pods), "unready": of(name, unready)}
            for name, found in self.mesh.addresses.services.items()
        }
        content = json.dumps({"services": services}).encode()
        write_whole(self._folder / "endpoints.json", content)
        return content
