"""Lays out the application of a measurement: a caller, a target, and pods with the sidecars that are measured.

    Arm after Arm -> Layout: program, hops, addresses -> the files that admc emits, and the destination of each load

Each arm is one hop with a port of its own: at ingress a port of its pod, at egress a port of the target. So one sidecar
has all hops that are compared, and two arms differ in their policies alone. A bare hop has no policies. No plan has
such a hop, but the emitters make it as they make any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from admc.cost.measurement.samples import TAPPED
from admc.cost.measurement.uses import CALLER, SHADOWS, TARGET, Use, merged
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Call, Place, Policy, Port, Program, Protocol, Side, Value
from emitters.addresses import Addresses, ServiceAddresses, loopback
from emitters.addresses.index import AddressIndex
from emitters.envoy import Mode
from emitters.envoy.context import Context
from emitters.envoy.listeners import resources
from emitters.errors import EmitError
from emitters.hops import Hop
from emitters.interception.captures import interception
from emitters.interception.rules import restore_file
from emitters.interception.tables import Family

DIRECT: Final[Mapping[Protocol, int]] = {Protocol.TCP: 27001, Protocol.HTTP: 27002, Protocol.GRPC: 27003}
"""Ports of the target without a sidecar in front."""
_FIRST_PORT: Final = 20000
_SHADOW_PORTS: Final[Mapping[Protocol, int]] = {Protocol.HTTP: 27011, Protocol.GRPC: 27012}
_CHECK: Final = "/envoy.service.auth.v3.Authorization/Check"
"""An empty answer admits the request."""
_FIRST_HOST: Final = 2
PATH: Final = "/measure"
REWRITTEN: Final = "/measured"


@dataclass(frozen=True)
class Arm:
    """One hop in the sidecar of a pod, with some policies; `rate` and `size` where the program declares them."""

    name: str
    pod: str
    side: Side
    protocol: Protocol
    uses: tuple[Use, ...] = ()
    rate: float | None = None
    size: int | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        return merged(use.headers for use in self.uses)


@dataclass(frozen=True)
class Destination:
    """Where a load is sent from, and to."""

    sender: str
    """The service in whose place the load program runs."""
    protocol: Protocol
    address: str
    port: int
    authority: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Layout:
    arms: tuple[Arm, ...]
    mode: Mode
    sizes: tuple[int, ...]
    """Bytes of the messages that the services answer with."""
    tapped: Path
    """A folder for the files that `tap` writes."""

    @cached_property
    def pods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm.pod for arm in self.arms))

    @cached_property
    def ports(self) -> Mapping[str, Port]:
        """By arm: a port of its pod at ingress, of the target at egress."""
        return {
            arm.name: Port(_FIRST_PORT + index, arm.protocol, _FIRST_PORT + index, f"port_{index}")
            for index, arm in enumerate(self.arms)
        }

    @cached_property
    def program(self) -> Program:
        import dsl

        base = dsl.load_text(self._text())
        index = {(call.source, call.destination, call.port.number): at for at, call in enumerate(base.calls)}
        policies = [
            self._policy(base, arm, number, use, index) for arm in self.arms for number, use in enumerate(arm.uses)
        ]
        calls = tuple(self._loaded(call) for call in base.calls)
        kinds = {**base.kinds, **{policy.kind.name: policy.kind for policy in policies}}
        return replace(base, policies=tuple(policies), kinds=kinds, calls=calls)

    def _text(self) -> str:
        """The services and calls as the text of a program."""
        lines = ["app measurement", f"service {CALLER} {{ http 80 }}"]
        lines += [f"service {name} {{ {protocol} {_SHADOW_PORTS[protocol]} }}" for protocol, name in SHADOWS.items()]
        target = [f"{protocol} direct_{protocol} {number}" for protocol, number in DIRECT.items()]
        target += [self._port(arm) for arm in self.arms if arm.side is Side.EGRESS]
        lines += [f"service {TARGET} {{", *target, "}"]
        for pod in self.pods:
            own = [self._port(arm) for arm in self.arms if arm.pod == pod and arm.side is Side.INGRESS]
            lines += [f"service {pod} {{", *(own or ["http 80"]), "}"]
            lines += [f"call {pod} -> {name}" for name in SHADOWS.values()]
        for arm in self.arms:
            source, destination = self._ends(arm)
            lines.append(f"call {source} -> {destination}:{self.ports[arm.name].name}")
        return "\n".join(lines) + "\n"

    def _port(self, arm: Arm) -> str:
        port = self.ports[arm.name]
        return f"{arm.protocol} {port.name} {port.number}"

    def _ends(self, arm: Arm) -> tuple[str, str]:
        return (CALLER, arm.pod) if arm.side is Side.INGRESS else (arm.pod, TARGET)

    def _policy(
        self, base: Program, arm: Arm, number: int, use: Use, index: Mapping[tuple[str, str, int], int]
    ) -> Policy:
        source, destination = self._ends(arm)
        port = self.ports[arm.name].number
        # At egress the caller is the pod itself.
        here: Mapping[Value, Value] = {TAPPED: self.tapped.as_posix(), (CALLER,): (source,)}
        arguments = {name: here.get(value, value) for name, value in use.arguments.items()}
        return Policy(
            name=f"{use.kind.name}-{port}-{number}".replace("_", "-"),
            kind=use.kind,
            arguments=arguments,
            places=frozenset({Place(arm.side)}),
            sources=frozenset({source}),
            open_sources=False,
            destinations=(destination,),
            calls=(index[source, destination, port],),
            effects=use.effects,
            span=base.services[arm.pod].span,
            ports=frozenset({port}),
        )

    def _loaded(self, call: Call) -> Call:
        for arm in self.arms:
            if (call.source, call.destination, call.port.number) == (*self._ends(arm), self.ports[arm.name].number):
                return call._replace(rate=arm.rate, size=arm.size)
        return call

    @cached_property
    def hops(self) -> Mapping[str, tuple[Hop, ...]]:
        """The hops of each pod."""
        by_port: dict[int, list[Policy]] = {}
        for policy in self.program.policies:
            for number in policy.ports or ():
                by_port.setdefault(number, []).append(policy)
        unordered: dict[str, list[Hop]] = {pod: [] for pod in sorted(self.pods)}
        for arm in self.arms:
            _, destination = self._ends(arm)
            service = self.program.services[destination]
            port = next(port for port in service.ports if port.number == self.ports[arm.name].number)
            unordered[arm.pod].append(Hop(arm.pod, arm.side, destination, port, tuple(by_port.get(port.number, ()))))
        order = {
            pod: sorted(hops, key=lambda hop: (hop.side is Side.EGRESS, hop.port.number))
            for pod, hops in unordered.items()
        }
        return {pod: tuple(hops) for pod, hops in order.items()}

    @cached_property
    def addresses(self) -> Addresses:
        if self.mode is Mode.EXPLICIT:
            return loopback(self.program)
        names = [CALLER, TARGET, *SHADOWS.values(), *sorted(self.pods)]
        return Addresses(
            {
                name: ServiceAddresses((f"10.2.0.{number}",), (f"10.1.0.{number}",))
                for number, name in enumerate(names, start=_FIRST_HOST)
            }
        )

    def files(self) -> dict[str, bytes]:
        """The emitted files: the configuration of each sidecar, and its rules if connections are redirected. Raises
        `EmitError`."""
        from emitters.envoy.bootstrap import static_json
        from emitters.envoy.messages.typed import to_yaml

        findings = Diagnostics()
        index = AddressIndex(self.program, self.addresses)
        position = {policy.name: at for at, policy in enumerate(self.program.policies)}
        files = {}
        for pod, hops in self.hops.items():
            context = Context(self.program, self.addresses, index, self.mode, self.program.services[pod], findings)
            files[f"{pod}/bootstrap.yaml"] = to_yaml(static_json(resources(context, hops)))
            if self.mode.redirected:
                rules = interception(self.program, pod, hops, self.addresses, position)
                files[f"{pod}/iptables.rules"] = restore_file(rules, Family.IPV4).encode()
        if findings.has_errors:
            raise EmitError(findings.items)
        return files

    # ---- the load and the services that answer it ----

    def through(self, arm: Arm) -> Destination:
        """The destination of an arm's load, which passes the sidecar."""
        source, destination = self._ends(arm)
        port = self.ports[arm.name].number
        address = self.addresses.service_addresses(destination)[0]
        if self.mode is Mode.EXPLICIT and arm.side is Side.EGRESS:
            address = self.addresses.egress[source, destination]
        return Destination(source, arm.protocol, address, port, f"{destination}:{port}", arm.headers)

    def past(self, arm: Arm) -> Destination:
        """The destination of the same load from the same sender, without a sidecar on the way."""
        source, _ = self._ends(arm)
        port = DIRECT[arm.protocol]
        address = self.addresses.service_addresses(TARGET)[0]
        return Destination(source, arm.protocol, address, port, f"{TARGET}:{port}", arm.headers)

    @property
    def senders(self) -> tuple[str, ...]:
        """The services in whose place a load program runs."""
        return tuple(dict.fromkeys(self._ends(arm)[0] for arm in self.arms))

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """The configuration of each service's process, by the place where it runs."""
        replies: dict[str, Any] = {_CHECK: {"reply": 0}}
        for size in self.sizes:
            replies |= {f"{start}/{size}": {"reply": size} for start in (PATH, REWRITTEN)}
        listens: dict[str, list[Mapping[str, Any]]] = {TARGET: []}
        for name, service in self.program.services.items():
            if name == CALLER:
                continue
            place = name if name in self.pods else TARGET
            behind = {hop.port.number for hop in self.hops.get(name, ()) if hop.side is Side.INGRESS}
            for port in service.ports:
                if name in self.pods and port.number not in behind:
                    continue
                listens.setdefault(place, []).append(
                    {
                        "address": self._listening(name, port, behind),
                        "port": port.target,
                        "protocol": port.protocol.value,
                    }
                )
        return {place: {"listen": listeners, "routes": replies} for place, listeners in listens.items()}

    def _listening(self, service: str, port: Port, behind: set[int]) -> str:
        """The address at which the process of a service listens; empty for all addresses, in a network of its own.

        Otherwise a sidecar in front has the address that clients dial, and the process has that of the pod.
        """
        if self.mode.redirected:
            return ""
        own = self.addresses.pod_addresses if port.number in behind else self.addresses.service_addresses
        return own(service)[0]
