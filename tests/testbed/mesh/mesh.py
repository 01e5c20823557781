"""A whole application in network namespaces, with real redirection: `with Mesh(program, placement) as mesh: ...`.

    program + placement -> layout, emitted files -> agent -> [namespaces, rules, Envoys, echo processes]
    mesh.request(source, destination) -> reply        what a caller gets
    mesh.arrivals()                   -> arrivals     what the processes saw
    mesh.processes / rules / accepted -> ...          what stands in between, seen from outside

Nothing here leaves the bed: its namespaces have no way to any other network. Nothing outlives it either, also when
this process is killed (see `agent`).
"""

from __future__ import annotations

import ipaddress
import json
import shutil
import socket
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from admc.testbed.client import Reply, Request, Target, send
from admc.testbed.envoys import envoy_binary
from emitters.envoy import Mode as EmitMode
from emitters.interception.tables import Family
from emitters.kubernetes import network_policies, to_yaml
from emitters.output import files
from emitters.ports import ADM_USER
from tests.testbed.mesh import full, in_pods, outside, wiring
from tests.testbed.mesh.control import Agent, Arrival, Pod, Started
from tests.testbed.mesh.errors import MeshError
from tests.testbed.mesh.layout import NODE, Layout, Place, layout
from tests.testbed.mesh.needs import require
from tests.testbed.mesh.outside import Process, Rule
from tests.testbed.mesh.proxies import Proxy
from tests.testbed.mesh.reaching import Transport, answered, sockets
from tests.testbed.mesh.translation import HOOK, Translation, enforcing, translation
from tests.testbed.network_policies import Refusal

if TYPE_CHECKING:
    from dsl.program import External, Port, Program, Service
    from solver.placement import Placement

Policies = Sequence[Mapping[str, Any]]

POLICIES = "network-policies.yaml"
READY_SECONDS = 60.0
TOOL = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}
PLAIN = Request()


class Mode(StrEnum):
    """What stands between the services."""

    NONE = "none"
    """Nothing: no proxy, no rule, nothing closed."""
    FULL = "full"
    """A sidecar at every service, in the way of every declared call; policies where the placement says."""
    COMPILED = "compiled"
    """The ADMs of the placement, and nothing else."""
    POD = "pod"
    """The same ADMs as the pods of a cluster have them: captures by port, Envoys that are not root."""

    @property
    def is_compiled(self) -> bool:
        return self in (Mode.COMPILED, Mode.POD)


class Way(StrEnum):
    """How a caller addresses a destination."""

    SERVICE = "service address"
    POD = "pod address"


class Mesh:
    """One application, from entering the context to leaving it. Its methods may be used from several threads."""

    def __init__(
        self,
        program: Program,
        placement: Placement | None = None,
        mode: Mode | str = Mode.COMPILED,
        *,
        folder: Path | None = None,
        translate: Translation = Translation.NODE,
        headless: Collection[str] = (),
        families: Collection[Family] = tuple(Family),
        close: bool = True,
        refusal: Refusal = Refusal.RESET,
        echoes: bool = True,
    ) -> None:
        """
        `placement` may be None where nothing stands in between. `folder` keeps configuration and logs; without one they
        go with the bed. `headless` services have no service address. `families` may be one only. Without `close`,
        NetworkPolicies are not enforced until `enforce` is called; `refusal` is what happens to a connection that they
        do not admit. Without `echoes`, nothing answers but what the caller starts.

        Raises `LayoutError`.
        """
        self.program = program
        self.placement = placement
        self.mode = Mode(mode)
        self.layout: Layout = layout(program, headless, families)
        self.addresses = self.layout.addresses
        self.started = 0.0
        """Seconds that it took to start."""
        self.network_policies: Policies = ()
        """The NetworkPolicies, as they are read from the emitted file."""
        self.proxies: dict[str, Proxy] = {}
        """The Envoys, by namespace."""
        self.pods: dict[str, Pod] = {}
        """The processes of services, by namespace."""
        self._folder = folder
        self._translate = translate
        self._close = close and self.mode is not Mode.NONE
        self._refusal = refusal
        self._echoes = echoes
        self._enforced: set[Family] = set()
        self._raw: defaultdict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)
        self._networks: dict[str, int] = {}
        self._stack = ExitStack()
        if placement is None and self.mode is not Mode.NONE:
            raise MeshError("a placement is needed to say where policies are enforced")

    # ---- life ----

    def __enter__(self) -> Mesh:
        """Raises `MissingError`, `StartError`, or `emitters.errors.EmitError`."""
        require(root=self.mode is Mode.POD)
        began = time.monotonic()
        emitted = self._files()
        with ExitStack() as stack:
            self.folder = self._folder or Path(tempfile.mkdtemp(prefix="admc-mesh-"))
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._folder is None:
                stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            if self.mode is Mode.POD:
                self.folder.chmod(0o755)
            for name, content in emitted.items():
                path = self.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._agent = Agent(self.folder, remove=self._folder is None)
            stack.callback(self._agent.end)
            stack.callback(self._forget_pods)
            self.network_policies = self._policies(emitted)
            self._build(emitted)
            self._serve()
            self._await_ready()
            self._stack = stack.pop_all()
        self.started = time.monotonic() - began
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _forget_pods(self) -> None:
        for pod in self.pods.values():
            pod.close()
        self.pods.clear()
        self.proxies.clear()

    def _files(self) -> dict[str, bytes]:
        if self.placement is None or self.mode is Mode.NONE:
            return {}
        if self.mode is Mode.COMPILED:
            return files(self.program, self.placement, self.addresses, EmitMode.REDIRECT)
        made = full.files if self.mode is Mode.FULL else in_pods.files
        policies = to_yaml(network_policies(self.program, self.placement)).encode()
        return {**made(self.program, self.placement, self.addresses), POLICIES: policies}

    def _policies(self, emitted: dict[str, bytes]) -> Policies:
        return list(yaml.safe_load_all(emitted.get(POLICIES, b"")))

    def _build(self, emitted: dict[str, bytes]) -> None:
        """Namespaces, cables, rules; and the proxies, which have to be ready before their services start."""
        policies = self.network_policies if self._close else ()
        places = [place for place in self.layout.places if not place.on_node]
        paths = {place.name: f"{{{place.name}}}" for place in places}  # the agent knows their descriptors
        rules: dict[str, list[str]] = {}
        if self.mode is Mode.POD and self.placement is not None:
            rules = in_pods.commands(self.program, self.placement)
        steps: list[tuple[list[str], str]] = [(["ip", "-batch", "-"], _lines(wiring.switch(self.layout, paths)))]
        for family in Family:
            if self._translate is Translation.NODE:
                steps.append(self._restore(family, translation(self.layout, family, Translation.NODE)))
            if policies:
                steps += self._enforcing(family, policies)
        plan = {
            "node": {"settings": wiring.NODE_SETTINGS, "steps": steps},
            "namespaces": {
                place.name: {
                    "settings": wiring.SETTINGS,
                    "steps": self._steps(place, emitted, rules.get(place.party)),
                }
                for place in places
            },
        }
        path = self.folder / "bed.json"
        path.write_text(json.dumps(plan))
        self._networks = self._agent.ask("build", plan=str(path))["networks"]
        for place in places:
            if f"{place.party}/bootstrap.yaml" in emitted:
                self.proxies[place.name] = self._proxy(place)

    def _steps(
        self, place: Place, emitted: dict[str, bytes], rules_container: list[str] | None
    ) -> list[tuple[list[str], str]]:
        """Commands for one namespace, each with what it reads. All families' interception is what was emitted, or what
        the rules container of a pod loads."""
        steps = [(["ip", "-batch", "-"], _lines(wiring.inside(self.layout, place)))]
        for family in Family:
            if self._translate is Translation.POD:
                steps.append(self._restore(family, translation(self.layout, family, Translation.POD)))
            if rules := emitted.get(f"{place.party}/{TOOL[family]}.rules"):
                steps.append(self._restore(family, rules.decode()))
        if rules_container is not None:
            steps.append((rules_container, ""))
        return steps

    def _restore(self, family: Family, rules: str) -> tuple[list[str], str]:
        return [f"{TOOL[family]}-restore", "--noflush"], rules

    def _enforcing(self, family: Family, policies: Policies) -> list[tuple[list[str], str]]:
        own = [enforcing(self.layout, policies, family, self._refusal)]
        if family not in self._enforced:
            self._enforced.add(family)
            own.append(HOOK)
        return [self._restore(family, rules) for rules in own]

    def _proxy(self, place: Place) -> Proxy:
        binary = envoy_binary()
        assert binary is not None  # `require` saw to that
        bootstrap = self.folder / place.party / "bootstrap.yaml"
        user = ADM_USER if self.mode is Mode.POD else None
        make_socket = partial(self._socket, place.name)
        return Proxy(place.name, binary, bootstrap, self.folder, self._agent, make_socket, user)

    def _serve(self) -> None:
        for place in self.layout.places:
            where = NODE if place.on_node else place.name
            ports = [{"number": p.number, "target": p.target, "protocol": p.protocol} for p in place.ports]
            if ports and self._echoes:
                only = list(place.addresses) if place.on_node else None
                answer, control = self._agent.ask_for("serve", where=where, service=place.party, ports=ports, only=only)
                self.pods[place.name] = Pod(place.name, answer["pid"], control)

    def _await_ready(self) -> None:
        for pod in self.pods.values():
            pod.await_ready()
        deadline = time.monotonic() + READY_SECONDS
        for proxy in self.proxies.values():
            proxy.await_ready(deadline)

    # ---- calls ----

    def request(
        self,
        source: str,
        destination: str,
        request: Request = PLAIN,
        *,
        port: int | None = None,
        way: Way = Way.SERVICE,
        family: Family = Family.IPV4,
        protocol: str | None = None,
        authority: str | None = None,
        source_replica: int = 0,
        replica: int = 0,
        source_address: str | None = None,
        timeout: float = 10.0,
    ) -> Reply:
        """One request on a connection of its own, from one replica of `source`.

        `port` is the number that callers know (default: of the declared call, else the first). By pod address,
        `replica` of the destination is dialled at its target port. `protocol` is the port's, or `h2c` for http.
        `authority` is what `Host` says. `source_address` chooses among the addresses of an outside party.
        """
        chosen = self.port(source, destination, port)
        address = self.address(destination, way, family, replica)
        number = chosen.target if way is Way.POD and destination in self.program.services else chosen.number

        target = Target(
            source_address or self.place(source, source_replica).address(family) or "",
            address,
            number,
            authority or f"{destination}:{chosen.number}",
            lambda seconds: self.connect(
                source, address, number, replica=source_replica, source_address=source_address, timeout=seconds
            ),
        )
        return send(protocol or chosen.protocol.value, target, request, timeout)

    def connect(
        self,
        source: str,
        address: str,
        port: int,
        *,
        replica: int = 0,
        source_address: str | None = None,
        source_port: int = 0,
        timeout: float = 10.0,
    ) -> socket.socket:
        """A tcp connection from one replica of `source` to any address: loopback is that of its own namespace. By
        default the kernel chooses the source port."""
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        made = self._socket(self.place(source, replica).name, family)
        try:
            made.settimeout(timeout)
            if source_port:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if source_address is not None or source_port:
                made.bind((source_address or "", source_port))
            made.connect((address, port))
        except BaseException:
            made.close()
            raise
        return made

    def listen(self, party: str, port: int, *, replica: int = 0, family: Family = Family.IPV4) -> socket.socket:
        """A listener of the caller's own in the namespace of a replica."""
        domain = socket.AF_INET6 if family is Family.IPV6 else socket.AF_INET
        made = self._socket(self.place(party, replica).name, domain)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is Family.IPV6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(("", port))
        made.listen(1024)
        return made

    def start(self, place: str, *command: str, user: int | None = None) -> Started:
        """A process of the caller's own in a namespace; it ends with the bed. As another `user` it has no privilege."""
        where = NODE if self.layout.by_name[place].on_node else place
        return Started(where, command, self.folder, self._agent, user)

    def port(self, source: str, destination: str, number: int | None = None) -> Port:
        """The port that a call means."""
        if number is None:
            for call in self.program.calls:
                if (call.source, call.destination) == (source, destination):
                    return call.port
        party: Service | External = self.program.services.get(destination) or self.program.externals[destination]
        return next(port for port in party.ports if number in (None, port.number))

    def address(self, destination: str, way: Way = Way.SERVICE, family: Family = Family.IPV4, replica: int = 0) -> str:
        """What a caller dials. Raises `MeshError` where there is no such address."""
        found = self.place(destination, replica).address(family)
        if way is Way.SERVICE and destination in self.program.services:
            found = self.layout.service_address(destination, family)
        if found is None:
            raise MeshError(f"`{destination}` has no {family.value} {way.value}")
        return found

    def place(self, party: str, replica: int = 0) -> Place:
        """The namespace of a replica, or of an outside party."""
        places = self.layout.of(party)
        if replica >= len(places):
            raise MeshError(f"there is no replica {replica} of `{party}` here; it has {len(places)}")
        return places[replica]

    def _socket(self, where: str, family: int, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
        place = self.layout.by_name.get(where)
        name = NODE if place is not None and place.on_node else where
        return self._agent.ask_for("socket", where=name, family=int(family), kind=int(kind), protocol=int(protocol))[1]

    def enforce(self, policies: Policies) -> None:
        """From now on these NetworkPolicies hold for new connections, instead of those before."""
        for family in Family:
            for command, rules in self._enforcing(family, policies):
                self.run(NODE, *command, text=rules)

    def reaches(
        self, source: str, address: str, transport: Transport, port: int, *, replica: int = 0, timeout: float
    ) -> bool:
        """Whether a packet from one replica of `source` gets to an address, and the answer back, within `timeout`. The
        kernel there answers as well if nothing listens."""
        where = self.place(source, replica).name
        # All raw sockets between two addresses get the ICMP messages about all packets: one packet at a time.
        alone = self._raw[where, address] if transport is Transport.SCTP else nullcontext()
        with alone:
            made = self._socket(where, *sockets(transport, address))
            return answered(made, transport, address, port, timeout)

    # ---- what was seen ----

    def arrivals(self, party: str | None = None, *, forget: bool = False) -> list[Arrival]:
        """What reached the processes (of one party), in order of time."""
        pods = [pod for name, pod in self.pods.items() if party in (None, self.layout.by_name[name].party)]
        return sorted((each for pod in pods for each in pod.arrivals(forget=forget)), key=lambda each: each.at)

    # ---- what stands in between, from outside ----

    def processes(self, place: str) -> tuple[Process, ...]:
        """All processes in a namespace, from the host's own list of processes."""
        return outside.processes().get(self._networks[place], ())

    def rules(self, place: str, family: Family = Family.IPV4, table: str | None = None) -> tuple[Rule, ...]:
        """The packet filter rules of a namespace with their counters."""
        options = ["-t", table] if table else []
        return outside.parse(self.run(place, f"{TOOL[family]}-save", "-c", *options))

    def redirected(self, place: str) -> int:
        """How many connections the rules of a namespace have redirected to its ADM, in both families."""
        return sum(outside.redirected(self.rules(place, family, "nat")) for family in Family)

    def accepted(self, place: str) -> int:
        """How many connections the ADM's listeners have taken; 0 where there is no ADM."""
        proxy = self.proxies.get(place)
        return proxy.accepted() if proxy is not None else 0

    def run(self, place: str, *command: str, text: str = "") -> str:
        """What a command in a namespace writes. Raises `MeshError` where it fails."""
        answer = self._agent.ask("run", where=place, command=list(command), text=text)
        if answer["code"]:
            raise MeshError(f"`{' '.join(command)}` in `{place}` failed: {answer['error_text'].strip()}")
        return str(answer["out"])

    @property
    def inodes(self) -> dict[str, int]:
        """What the kernel calls the namespaces: `node` and one for each place."""
        return dict(self._networks)

    @property
    def agent_pid(self) -> int:
        """The process that holds them."""
        return self._agent.pid


def _lines(lines: Iterable[str]) -> str:
    return "\n".join([*lines, ""])
