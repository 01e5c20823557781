"""Pods in namespaces, each with a proxy and real redirection, and what a cluster does with them.

    relay      connects the proxies in their namespaces to the server
    Pods       starts and kills proxies, loads rules, writes the endpoints file

All namespaces exist from the beginning. The proxy of a pod runs from `start` to `kill`.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import threading
from typing import TYPE_CHECKING, Any

import yaml
from google.protobuf import json_format

from admc.base.files import write_whole
from admc.serve.rollout.model import Placed
from admc.testbed.envoys import envoy_binary
from dsl import load_text
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import xds_bootstrap
from emitters.envoy.bootstrap.pod import BOOTSTRAP_FILE, pod_bootstrap
from emitters.envoy.bootstrap.xds_server import Server
from emitters.interception.captures import interceptions
from emitters.interception.rules import restore_file
from emitters.interception.tables import Family
from emitters.ports import ADM_USER
from solver.place import place
from tests.testbed.draining import DRAIN_SECONDS, is_draining
from tests.testbed.mesh import in_pods
from tests.testbed.mesh.proxies import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from emitters.interception.pod import PodCaptures
    from tests.testbed.mesh.control import Started
    from tests.testbed.mesh.mesh import Mesh

TOOLS = {"iptables": Family.IPV4, "ip6tables": Family.IPV6}


@contextlib.contextmanager
def relay(path: str, port: int) -> Iterator[None]:
    """Forward a socket in the file system to a port outside of all namespaces, which processes in them cannot reach."""

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


def _bootstrap(text: str, mesh: Mesh, mode: Mode) -> Any:
    if mode is Mode.POD:
        return yaml.safe_load(pod_bootstrap(Server("xds", 1), ipv6=True)[BOOTSTRAP_FILE])
    program = load_text(text)
    own, *_ = emit(program, place(program), mesh.addresses, mode, waiting=True)
    return json.loads(json_format.MessageToJson(xds_bootstrap(own, ("xds", 1)), preserving_proto_field_name=True))


class Pods:
    """The proxies in the namespaces of a mesh."""

    _lives = itertools.count()

    def __init__(self, mesh: Mesh, folder: Path, path: str, text: str, mode: Mode = Mode.REDIRECT) -> None:
        """`path` is the socket of the relay. `text` is any program of the application with an ADM. All bootstraps are
        made from that of the first ADM. In the mode of a cluster's pods, proxies have no privilege: `folder` and `path`
        must be open to others."""
        self.mesh, self._folder, self._mode = mesh, folder, mode
        self._bootstrap = _bootstrap(text, mesh, mode)
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
        """`again`: the same pod, whose proxy has ended. Else a new pod at the same address."""
        binary = envoy_binary()
        assert binary is not None
        if not again:
            self.nodes[pod] = f"{pod}-{next(self._lives)}"
        made = {**self._bootstrap, "node": {"id": pod, "cluster": pod.partition("/")[0]}}
        path = self._folder / f"{pod.replace('/', '-')}.json"
        path.write_text(json.dumps(made))
        own = ("--service-node", self.nodes[pod], "--drain-time-s", str(DRAIN_SECONDS))
        user = ADM_USER if self._mode is Mode.POD else None
        self.running[pod] = self.mesh.start(pod, binary, "-c", str(path), *OPTIONS, *own, user=user)

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

    def update_rejections(self, pod: str) -> list[str]:
        """Counters of rejected updates that are not zero."""
        lines = self.admin(pod, "/stats?filter=update_rejected")[1].splitlines()
        return [f"{pod}: {line}" for line in lines if not line.endswith(": 0")]

    def is_draining(self, pod: str) -> bool:
        lines = self.admin(pod, "/stats?filter=^listener_manager.total_")[1].splitlines()
        return is_draining({name: int(value) for name, _, value in (line.partition(": ") for line in lines)})

    def connections(self, pod: str) -> tuple[int, int]:
        """How many connections to destinations its ADM has, idle ones included, and how many it has opened in all."""
        lines = self.admin(pod, "/stats?filter=^cluster.egress.*upstream_cx_")[1].splitlines()
        found = [line.rpartition(": ") for line in lines]

        def count(what: str) -> int:
            return sum(int(number) for name, _, number in found if name.endswith(f".upstream_cx_{what}"))

        return count("active"), count("total")

    # ---- rules ----

    def load_planned(self, text: str, *pods: str) -> None:
        """Load the rules that `admc compile --emit` writes for a program and the addresses of all pods."""
        program = load_text(text)
        self.load_placed(Placed(program, place(program)), *pods)

    def load_placed(self, placed: Placed, *pods: str) -> None:
        """Load the rules of a placement in those of the pods that have an ADM."""
        planned = {own.service: own for own in interceptions(*placed, self.mesh.addresses)}
        for pod in pods:
            if own := planned.get(pod.partition("/")[0]):
                for tool, family in TOOLS.items():
                    self._load(pod, tool, restore_file(own, family))

    def load_for_good(self, captures: Mapping[str, PodCaptures]) -> None:
        """Load what the rules containers of a cluster's pods load, by service."""
        for pod in self.mesh.layout.by_name:
            service = pod.partition("/")[0]
            if service in captures:
                name = f"{self.mesh.program.app}/{service}"
                self.mesh.run(pod, *in_pods.command(name, captures[service]))

    def load_requested(self, service: str, *pods: str) -> None:
        """Load the rules that the server requests."""
        for pod in pods:
            for tool in TOOLS:
                self._load(pod, tool, (self._requested(service) / f"{tool}.rules").read_text())

    def unconfirmed(self) -> list[str]:
        """The services whose requested redirection is not confirmed."""
        found = []
        for digest in self._folder.glob("kept/interception/*/digest"):
            loaded = digest.with_name("loaded")
            if not loaded.exists() or loaded.read_bytes() != digest.read_bytes():
                found.append(digest.parent.name)
        return sorted(found)

    def confirm(self, service: str) -> None:
        write_whole(self._requested(service) / "loaded", (self._requested(service) / "digest").read_bytes())

    def _requested(self, service: str) -> Path:
        return self._folder / "kept" / "interception" / service

    def _load(self, pod: str, tool: str, rules: str) -> None:
        self.mesh.run(pod, f"{tool}-restore", "--noflush", text=rules)

    # ---- addresses ----

    def endpoints(self, pods: Collection[str], unready: Collection[str] = ()) -> bytes:
        """Replace the endpoints file by one with these pods; its content."""

        def addresses(name: str, these: Collection[str]) -> list[str]:
            own = (pod for pod in sorted(these) if pod.partition("/")[0] == name)
            return [address for pod in own for address in self.mesh.layout.by_name[pod].addresses]

        services = {
            name: {
                "addresses": list(found.addresses),
                "pods": addresses(name, pods),
                "unready": addresses(name, unready),
            }
            for name, found in self.mesh.addresses.services.items()
        }
        content = json.dumps({"services": services}).encode()
        write_whole(self._folder / "endpoints.json", content)
        return content
