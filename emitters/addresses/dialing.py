"""The addresses that applications dial and listen at without redirection: the counterpart of explicit listeners.

Without redirection, the configuration of an application decides to which address it connects, at which it listens and
from which it sends. With the addresses of this module, its calls pass the ADMs of the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Side
from emitters.hops import hops

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.addresses.model import Addresses
    from solver.placement import Placement


class Dial(NamedTuple):
    """A declared call: the source sends from `sender` and connects to `address`:`port`.

    `port` is the port that the source dials; `number` is the port of the call in the program.
    """

    source: str
    destination: str
    number: int
    sender: str
    address: str
    port: int
    egress: bool
    """Whether the connection passes the source's ADM."""
    ingress: bool
    """Whether the connection passes the destination's ADM."""


class Bind(NamedTuple):
    """The address at which the process of a service (on loopback, also that of an outside party) listens for a port."""

    service: str
    number: int
    address: str
    port: int


def dials(program: Program, placement: Placement, addresses: Addresses) -> tuple[Dial, ...]:
    """One entry for each declared call, in the order of `Program.calls`."""
    enforced = {
        (hop.service, hop.side, hop.destination, hop.port.number)
        for held in hops(program, placement).values()
        for hop in held
    }
    result = []
    for call in program.calls:
        number = call.port.number
        egress = (call.source, Side.EGRESS, call.destination, number) in enforced
        target = (
            addresses.egress[call.source, call.destination]
            if egress
            else addresses.service_addresses(call.destination)[0]
        )
        ingress = (call.destination, Side.INGRESS, call.destination, number) in enforced
        result.append(
            Dial(
                call.source,
                call.destination,
                number,
                sender(addresses, call.source),
                target,
                number,
                egress,
                ingress,
            )
        )
    return tuple(result)


def sender(addresses: Addresses, name: str) -> str:
    """The address that a service or an outside party sends from: by it an ADM at ingress recognises the caller."""
    return (addresses.pod_addresses(name) or addresses.service_addresses(name))[0]


def binds(program: Program, placement: Placement, addresses: Addresses) -> tuple[Bind, ...]:
    """The addresses at which processes listen: the pod address behind an ADM, and else the address that callers
    dial."""
    behind = {
        (hop.service, hop.port.number)
        for held in hops(program, placement).values()
        for hop in held
        if hop.side is Side.INGRESS
    }
    result = []
    for name, service in sorted(program.services.items()):
        for port in sorted(service.ports, key=lambda port: port.number):
            if (name, port.number) in behind:
                result.append(Bind(name, port.number, addresses.pod_addresses(name)[0], port.target))
            else:
                result.append(Bind(name, port.number, addresses.service_addresses(name)[0], port.number))
    for name, external in sorted(program.externals.items()):
        address = addresses.service_addresses(name)[0]
        ports = sorted(port.number for port in external.ports)
        result.extend(Bind(name, number, address, number) for number in ports)
    return tuple(result)
