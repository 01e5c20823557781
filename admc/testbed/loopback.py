"""The addresses of one application on loopback: where its processes listen, and which address each call dials.

    program, placement, part of the network -> [emitters.addresses] -> endpoints, targets of calls, emitted files

`emitters.addresses` gives each party an address. `emitters.addresses.dialing` assigns listeners and calls to addresses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from admc.testbed.client import Target
from admc.testbed.echo import Endpoint
from admc.testbed.findings import STRANGER
from emitters.addresses import Addresses, loopback
from emitters.addresses.dialing import Dial, binds, dials, sender
from emitters.envoy import Mode
from emitters.output import files
from emitters.ports import ADMIN_PORT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dsl.program import Call, External, Program, Service
    from solver.placement import Placement


_STRANGER = "127.255.255.254"
"""No party has this address: `loopback` gives out addresses from the other end of the network."""


@dataclass(frozen=True)
class LoopbackLayout:
    """One compiled application and the folder that its configuration is written to."""

    program: Program
    placement: Placement
    folder: Path
    part: int = 0
    """The part of the loopback network: applications in different parts have no address in common."""

    @cached_property
    def addresses(self) -> Addresses:
        return loopback(self.program, self.part)

    def listeners(self) -> Iterator[tuple[str, int]]:
        """The addresses at which processes of the application will listen."""
        yield from ((endpoint.address, endpoint.listen) for endpoint in self.endpoints)
        yield from dict.fromkeys((dial.address, dial.port) for dial in self._dials.values())
        yield from ((self.addresses.pod_addresses(adm.service)[0], ADMIN_PORT) for adm in self.placement.adms)

    @cached_property
    def _dials(self) -> dict[tuple[str, str, int], Dial]:
        all_dials = dials(self.program, self.placement, self.addresses)
        return {(dial.source, dial.destination, dial.number): dial for dial in all_dials}

    @cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The sockets of the echo services. Ports of a service with the same target share one socket."""
        parties: dict[str, Service | External] = {**self.program.services, **self.program.externals}
        protocols = {(name, port.number): port.protocol for name, party in parties.items() for port in party.ports}
        by_socket: dict[tuple[str, int, str], Endpoint] = {}
        for bind in binds(self.program, self.placement, self.addresses):
            protocol = protocols[bind.service, bind.number].value
            endpoint = Endpoint(bind.service, bind.number, protocol, bind.address, bind.port)
            by_socket.setdefault((bind.address, bind.port, protocol), endpoint)
        return tuple(by_socket.values())

    def target(self, call: Call, source: str | None = None) -> Target:
        """Return the addresses of a call. A `source` other than the call's own dials the destination's own address."""
        authority = f"{call.destination}:{call.port.number}"
        dial = self._dials[call.source, call.destination, call.port.number]
        if source is None:
            return Target(dial.sender, dial.address, dial.port, authority)
        address = self.addresses.service_addresses(call.destination)[0]
        origin = _STRANGER if source == STRANGER else sender(self.addresses, source)
        return Target(origin, address, call.port.number, authority)

    def write(self) -> dict[str, Path]:
        """Write the emitted configuration. Return the bootstrap of each ADM."""
        for name, content in files(self.program, self.placement, self.addresses, Mode.EXPLICIT).items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return {adm.service: self.folder / adm.service / "bootstrap.yaml" for adm in self.placement.adms}
