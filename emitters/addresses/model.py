"""The addresses of services and outside parties.

A program declares calls between names; configuration needs addresses. They come from an endpoints file
(`endpoints_file`) or from a cluster. Where nothing is redirected they come from a plan of loopback addresses
(`loopback_plan`).

A *service address* is an address that callers dial (in Kubernetes a ClusterIP). A *pod address* is one that a replica
sends from and listens on: by it an ADM at ingress recognises a caller.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from dsl.program import Program

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServiceAddresses(NamedTuple):
    """Addresses of one service: textual, IPv4 and IPv6, sorted."""

    addresses: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    """The `pods` that get no new requests."""
    apart: tuple[str, ...] = ()
    """The `pods` that get none, whatever becomes of the others, such as those of a version that is not released yet."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """The known addresses of a program's parties. A name that is missing has none."""

    services: Mapping[str, ServiceAddresses] = field(default_factory=dict)
    externals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses or networks in CIDR form, sorted."""
    egress: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(source, destination) -> where the source's ADM listens for calls to that destination, without redirection."""
    others: Mapping[str, ServiceAddresses] = field(default_factory=dict)
    """The addresses of services that another program declares, some of whose configuration proxies still have."""
    probes: Mapping[str, str] = field(default_factory=dict)
    """Service, of any program -> the document of its pods' probes (`emitters.health_probes`)."""

    def service_addresses(self, name: str) -> tuple[str, ...]:
        """The addresses that callers of a service or an external dial."""
        located = self.services.get(name)
        return located.addresses if located is not None else self.externals.get(name, ())

    def pod_addresses(self, name: str) -> tuple[str, ...]:
        """The addresses that a service's replicas send from and listen on; none for an external."""
        located = self.services.get(name)
        return located.pods if located is not None else ()

    def ready_addresses(self, name: str) -> tuple[str, ...]:
        """The pods of a service that a proxy may choose for requests: the ready ones, or all pods that are not apart if
        none is ready.

        A proxy without an endpoint fails every request, while the reported readiness may be wrong or outdated.
        """
        located = self.services.get(name)
        if located is None or not (located.unready or located.apart):
            return self.pod_addresses(name)
        unready, apart = frozenset(located.unready), frozenset(located.apart)
        pods = tuple(pod for pod in located.pods if pod not in apart)
        return tuple(pod for pod in pods if pod not in unready) or pods

    def replicas(self, name: str) -> tuple[str, ...]:
        """One address of each known replica: in a network of both families a replica has one of each."""
        pods = self.pod_addresses(name)
        ipv6 = tuple(pod for pod in pods if ":" in pod)
        ipv4 = tuple(pod for pod in pods if ":" not in pod)
        return ipv4 if len(ipv4) >= len(ipv6) else ipv6


_MAPPED: Final = 96


@lru_cache(maxsize=1 << 17)
def network(text: str, *, strict: bool = False) -> Network:
    """The network or address of a text. Cached, since a server reads all addresses again whenever one changes.

    IPv4 that is written as IPv6 (`::ffff:10.0.0.1`) is IPv4: no connection has such an address. Raises `ValueError`.
    """
    parsed = ipaddress.ip_network(text, strict=strict)
    if isinstance(parsed, ipaddress.IPv6Network) and parsed.prefixlen >= _MAPPED:
        plain = parsed.network_address.ipv4_mapped
        if plain is not None:
            return ipaddress.IPv4Network((plain, parsed.prefixlen - _MAPPED))
    return parsed


@lru_cache(maxsize=1 << 17)
def text_of(network: Network) -> str:
    """The canonical text of a network, or of an address."""
    return str(network.network_address) if network.num_addresses == 1 else str(network)


def peers(program: Program, addresses: Addresses, name: str) -> tuple[Network, ...]:
    """The networks that connections from a service or an external come from; sorted, without duplicates."""
    if name in program.services:
        texts = addresses.pod_addresses(name)
    else:
        texts = (*program.externals[name].cidrs, *addresses.service_addresses(name))
    return tuple(sorted({network(text) for text in texts}, key=order))


def order(network: Network) -> tuple[int, int, int]:
    """A key for the canonical order: IPv4 first, then by address, a network before those inside it."""
    return network.version, int(network.network_address), network.prefixlen
