"""A plan of loopback addresses, for a program that runs on one machine without redirection."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Final

from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.addresses.model import Addresses, ServiceAddresses
from emitters.errors import EmitError

if TYPE_CHECKING:
    from dsl.program import Program

# Four blocks of 127.0.0.0/8: a reader sees the purpose of an address. 127.0.0.0/16 stays free for other programs.
_SERVICES: Final = int(ipaddress.IPv4Address("127.1.0.0"))
_PODS: Final = int(ipaddress.IPv4Address("127.2.0.0"))
_EXTERNALS: Final = int(ipaddress.IPv4Address("127.3.0.0"))
_EGRESS: Final = int(ipaddress.IPv4Address("127.64.0.0"))
_BLOCK: Final = 65_000
_EGRESS_BLOCK: Final = 4_000_000
_PART: Final = 256
_EGRESS_PART: Final = 4096


def loopback(program: Program, part: int = 0) -> Addresses:
    """An address in 127.0.0.0/8 for each service, external and pair of a program, by position in the order of names.

    Each service has one pod, however many replicas it declares: one process of each service runs on loopback. Programs
    in different parts have no address in common if they have fewer than 256 services and externals and fewer than 4,096
    pairs. Raises `EmitError` for a program that is too large for the block.
    """
    services = sorted(program.services)
    externals = sorted(program.externals)
    pairs = sorted({(call.source, call.destination) for call in program.calls})
    at, egress_at = part * _PART, part * _EGRESS_PART
    if at + max(len(services), len(externals)) > _BLOCK or egress_at + len(pairs) > _EGRESS_BLOCK:
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
            name: ServiceAddresses((_ipv4(_SERVICES + at + index),), (_ipv4(_PODS + at + index),))
            for index, name in enumerate(services, start=1)
        },
        externals={name: (_ipv4(_EXTERNALS + at + index),) for index, name in enumerate(externals, start=1)},
        egress={pair: _ipv4(_EGRESS + egress_at + index) for index, pair in enumerate(pairs, start=1)},
    )


def _ipv4(number: int) -> str:
    return str(ipaddress.IPv4Address(number))
