"""Where services and outside parties can be found.

A program says who calls whom; configuration needs to know the addresses. They come from an endpoints file
(`from_json`, docs/endpoints.md), from a cluster, or, where nothing is redirected, from a plan of loopback addresses
(`loopback`).

A *service address* is what callers dial (in Kubernetes a ClusterIP). A *pod address* is what a replica sends from and
listens on: by it a caller is known at ingress.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.diagnostics import Diagnostic, Severity
from emitters.errors import EmitError

if TYPE_CHECKING:
    from dsl.program import Program

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Four blocks of 127.0.0.0/8, so that an address tells a reader what it is. 127.0.0.0/16 stays free for other programs.
_SERVICES: Final = int(ipaddress.IPv4Address("127.1.0.0"))
_PODS: Final = int(ipaddress.IPv4Address("127.2.0.0"))
_EXTERNALS: Final = int(ipaddress.IPv4Address("127.3.0.0"))
_EGRESS: Final = int(ipaddress.IPv4Address("127.64.0.0"))
_BLOCK: Final = 65_000
_EGRESS_BLOCK: Final = 4_000_000


class Located(NamedTuple):
    """Addresses of one service: textual, IPv4 and IPv6, sorted."""

    addresses: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is known of where things are. A name that is missing has no known address."""

    services: Mapping[str, Located] = field(default_factory=dict)
    externals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses or networks in CIDR form, sorted."""
    egress: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(source, destination) -> where the source's ADM listens for calls to that destination, without redirection."""

    def service_addresses(self, name: str) -> tuple[str, ...]:
        """What callers of a service or an external dial."""
        located = self.services.get(name)
        return located.addresses if located is not None else self.externals.get(name, ())

    def pod_addresses(self, name: str) -> tuple[str, ...]:
        """What a service's replicas send from and listen on; nothing for an external."""
        located = self.services.get(name)
        return located.pods if located is not None else ()


def loopback(program: Program) -> Addresses:
    """An address in 127.0.0.0/8 for everything in a program, by its position in the order of names.

    Each service has one pod here, whatever its replicas: what runs on loopback is one process of each. Raises
    `EmitError` for a program that is too large for the block.
    """
    services = sorted(program.services)
    externals = sorted(program.externals)
    pairs = sorted({(call.source, call.destination) for call in program.calls})
    if max(len(services), len(externals)) > _BLOCK or len(pairs) > _EGRESS_BLOCK:
        raise EmitError(
            [
                Diagnostic(
                    "ADM710",
                    Severity.ERROR,
                    f"`{program.app}` has more services than there are loopback addresses for",
                    None,
                    cause=f"at most {_BLOCK:,} services and {_EGRESS_BLOCK:,} pairs of services have one",
                    hint="give an endpoints file with the real addresses",
                )
            ]
        )
    return Addresses(
        services={
            name: Located((_ipv4(_SERVICES + index),), (_ipv4(_PODS + index),))
            for index, name in enumerate(services, start=1)
        },
        externals={name: (_ipv4(_EXTERNALS + index),) for index, name in enumerate(externals, start=1)},
        egress={pair: _ipv4(_EGRESS + index) for index, pair in enumerate(pairs, start=1)},
    )


def _ipv4(number: int) -> str:
    return str(ipaddress.IPv4Address(number))


def peers(program: Program, addresses: Addresses, name: str) -> tuple[Network, ...]:
    """The networks that connections from a service or an external come from; sorted, without duplicates."""
    if name in program.services:
        texts = addresses.pod_addresses(name)
    else:
        texts = (*program.externals[name].cidrs, *addresses.service_addresses(name))
    found = {ipaddress.ip_network(text, strict=False) for text in texts}
    return tuple(sorted(found, key=lambda network: (network.version, network.network_address, network.prefixlen)))
