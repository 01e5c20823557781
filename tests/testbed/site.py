"""Where everything of one application is on loopback: who listens where, and whom each caller dials.

The plan of addresses is the emitter's (`emitters.addresses.loopback`). A service without an ADM at its door listens at
its service address itself, as if its address led to it; one with an ADM there listens at its pod's address only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from dsl.program import Side
from emitters import addresses
from emitters.envoy import Mode
from emitters.output import files
from emitters.scope import hops
from tests.testbed.client import Target
from tests.testbed.echo import Endpoint

if TYPE_CHECKING:
    from pathlib import Path

    from dsl.program import Call, Program
    from emitters.addresses import Addresses
    from solver.placement import Placement


@dataclass(frozen=True)
class Site:
    """One compiled application and the folder that its configuration is written to."""

    program: Program
    placement: Placement
    folder: Path

    @cached_property
    def addresses(self) -> Addresses:
        return addresses.loopback(self.program)

    @cached_property
    def guarded(self) -> frozenset[tuple[str | None, str, int]]:
        """(source or None for ingress, destination, port) of every listener of an ADM."""
        return frozenset(
            (hop.service if hop.side is Side.EGRESS else None, hop.destination, hop.port.number)
            for enforced in hops(self.program, self.placement).values()
            for hop in enforced
        )

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The sockets of the echo services."""
        found = []
        for service in self.program.services.values():
            for port in service.ports:
                protocol = port.protocol.value
                pod = self.addresses.pod_addresses(service.name)[0]
                found.append(Endpoint(service.name, port.number, protocol, pod, port.target))
                if (None, service.name, port.number) not in self.guarded:
                    address = self.addresses.service_addresses(service.name)[0]
                    found.append(Endpoint(service.name, port.number, protocol, address, port.number))
        for external in self.program.externals.values():
            address = self.addresses.service_addresses(external.name)[0]
            found += [
                Endpoint(external.name, port.number, port.protocol.value, address, port.number)
                for port in external.ports
            ]
        return tuple(found)

    def target(self, call: Call, source: str | None = None) -> Target:
        """Where a call is dialled. Another `source` than the call's own has no ADM of its own for it."""
        sender = source or call.source
        number = call.port.number
        if (sender, call.destination, number) in self.guarded:
            address = self.addresses.egress[sender, call.destination]
        else:
            address = self.addresses.service_addresses(call.destination)[0]
        return Target(self.home(sender), address, number, f"{call.destination}:{number}")

    def home(self, name: str) -> str:
        """The address that a service or an external sends from."""
        pods = self.addresses.pod_addresses(name)
        return pods[0] if pods else self.addresses.service_addresses(name)[0]

    def write(self) -> dict[str, Path]:
        """Write the emitted configuration. The bootstrap of each ADM."""
        for name, content in files(self.program, self.placement, self.addresses, Mode.EXPLICIT).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return {adm.service: self.folder / adm.service / "bootstrap.yaml" for adm in self.placement.adms}
