"""Where services and outside parties can be found.

A program says who calls whom; configuration needs to know the addresses. They come from an endpoints file
(`from_json`, docs/endpoints.md), from a cluster, or, where nothing is redirected, from a plan of loopback addresses
(`loopback`).

A *service address* is what callers dial (in Kubernetes a ClusterIP). A *pod address* is what a replica sends from and
listens on: by it a caller is known at ingress.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean
from emitters.errors import EmitError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dsl.program import Program

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Four blocks of 127.0.0.0/8, so that an address tells a reader what it is. 127.0.0.0/16 stays free for other programs.
_SERVICES: Final = int(ipaddress.IPv4Address("127.1.0.0"))
_PODS: Final = int(ipaddress.IPv4Address("127.2.0.0"))
_EXTERNALS: Final = int(ipaddress.IPv4Address("127.3.0.0"))
_EGRESS: Final = int(ipaddress.IPv4Address("127.64.0.0"))
_BLOCK: Final = 65_000
_EGRESS_BLOCK: Final = 4_000_000


class ServiceAddresses(NamedTuple):
    """Addresses of one service: textual, IPv4 and IPv6, sorted."""

    addresses: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    """Those of `pods` that are to get no new requests."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is known of where things are. A name that is missing has no known address."""

    services: Mapping[str, ServiceAddresses] = field(default_factory=dict)
    externals: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Addresses or networks in CIDR form, sorted."""
    egress: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(source, destination) -> where the source's ADM listens for calls to that destination, without redirection."""

    @classmethod
    def loopback(cls, program: Program) -> Addresses:
        """See `loopback`."""
        return loopback(program)

    @classmethod
    def from_json(cls, data: bytes, program: Program | None = None) -> Addresses:
        """See `from_json`."""
        return from_json(data, program)

    def service_addresses(self, name: str) -> tuple[str, ...]:
        """What callers of a service or an external dial."""
        located = self.services.get(name)
        return located.addresses if located is not None else self.externals.get(name, ())

    def pod_addresses(self, name: str) -> tuple[str, ...]:
        """What a service's replicas send from and listen on; nothing for an external."""
        located = self.services.get(name)
        return located.pods if located is not None else ()

    def ready_addresses(self, name: str) -> tuple[str, ...]:
        """Which of a service's pods are to be chosen for requests; all where none is ready. Whoever is left without
        anybody to choose fails every request, though what is said of the pods may be wrong, or be over in a moment."""
        located = self.services.get(name)
        if located is None or not located.unready:
            return self.pod_addresses(name)
        unready = frozenset(located.unready)
        return tuple(pod for pod in located.pods if pod not in unready) or located.pods

    def replicas(self, name: str) -> tuple[str, ...]:
        """One address of each known replica: in a network of both families a replica has one of each."""
        pods = self.pod_addresses(name)
        ipv6 = tuple(pod for pod in pods if ":" in pod)
        ipv4 = tuple(pod for pod in pods if ":" not in pod)
        return ipv4 if len(ipv4) >= len(ipv6) else ipv6


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
            name: ServiceAddresses((_ipv4(_SERVICES + index),), (_ipv4(_PODS + index),))
            for index, name in enumerate(services, start=1)
        },
        externals={name: (_ipv4(_EXTERNALS + index),) for index, name in enumerate(externals, start=1)},
        egress={pair: _ipv4(_EGRESS + index) for index, pair in enumerate(pairs, start=1)},
    )


def _ipv4(number: int) -> str:
    return str(ipaddress.IPv4Address(number))


_MAPPED: Final = 96


@lru_cache(maxsize=1 << 17)
def network(text: str, *, strict: bool = False) -> Network:
    """A network or an address from text. A server reads the same ones again whenever one of them changes.

    IPv4 that is written as IPv6 (`::ffff:10.0.0.1`) is IPv4: no connection has such an address. Raises `ValueError`.
    """
    found = ipaddress.ip_network(text, strict=strict)
    if isinstance(found, ipaddress.IPv6Network) and found.prefixlen >= _MAPPED:
        plain = found.network_address.ipv4_mapped
        if plain is not None:
            return ipaddress.IPv4Network((plain, found.prefixlen - _MAPPED))
    return found


def peers(program: Program, addresses: Addresses, name: str) -> tuple[Network, ...]:
    """The networks that connections from a service or an external come from; sorted, without duplicates."""
    if name in program.services:
        texts = addresses.pod_addresses(name)
    else:
        texts = (*program.externals[name].cidrs, *addresses.service_addresses(name))
    return tuple(sorted({network(text) for text in texts}, key=_order))


# ---- the endpoints file ----

MAX_ADDRESSES: Final = 1_000_000
"""In one endpoints file."""


def from_json(data: bytes, program: Program | None = None) -> Addresses:
    """Read an endpoints file (docs/endpoints.md). With a program, every name must be one of its own.

    Raises `EmitError` with all findings.
    """
    findings = Diagnostics()
    try:
        content = json.loads(data, object_pairs_hook=_without_repeats)
    except _RepeatError as error:
        _wrong(findings, f"`{error.name[:80]}` is there twice", "give all addresses of a name in one entry")
        raise EmitError(findings.items) from None
    except (ValueError, RecursionError) as error:
        _wrong(findings, f"it is not JSON: {_reason(error)}")
        raise EmitError(findings.items) from None
    services: dict[str, ServiceAddresses] = {}
    externals: dict[str, tuple[str, ...]] = {}
    left = [MAX_ADDRESSES]
    for section, entries in _entries(findings, content, "the file", ("services", "externals")):
        known = None if program is None else program.services if section == "services" else program.externals
        for name, entry in _entries(findings, entries, f"`{section}`", known):
            where = f"`{section}.{name}`"
            if section == "externals":
                found = dict(_entries(findings, entry, where, ("addresses",)))
                externals[name] = _addresses(findings, found.get("addresses", []), f"{where}", left, networks=True)
                continue
            parts = {
                key: _addresses(findings, value, f"`{section}.{name}.{key}`", left, networks=False)
                for key, value in _entries(findings, entry, where, ("addresses", "pods", "unready"))
            }
            found_here = ServiceAddresses(parts.get("addresses", ()), parts.get("pods", ()), parts.get("unready", ()))
            for pod in sorted(set(found_here.unready) - set(found_here.pods)):
                hint = "`unready` says which of the `pods` get no new requests: list it in both"
                _wrong(findings, f"{where} has the unready pod `{pod}`, which is not one of its `pods`", hint)
            services[name] = found_here
    if findings.has_errors:
        raise EmitError(findings.items)
    return Addresses(services, externals)


class _RepeatError(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object in which each name stands once: of two entries, the reader would drop one."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise _RepeatError(name)
        found[name] = value
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at line {error.lineno} column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else "not UTF-8 text"


def _wrong(findings: Diagnostics, message: str, hint: str | None = None) -> None:
    findings.error(
        "ADM712",
        f"the endpoints file cannot be used: {message}",
        None,
        hint=hint or 'its shape is {"services": {"search": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1"]}}}',
    )


def _entries(
    findings: Diagnostics, value: object, where: str, known: Collection[str] | None
) -> Iterator[tuple[str, object]]:
    """The entries of an object, in the order of names, without those whose name is not known."""
    if not isinstance(value, dict):
        _wrong(findings, f"{where} is not an object")
        return
    for name in sorted(value):
        if known is not None and name not in known:
            _wrong(findings, f"{where} has an unknown name `{name}`", did_you_mean(name, known))
        else:
            yield name, value[name]


def _addresses(findings: Diagnostics, value: object, where: str, left: list[int], *, networks: bool) -> tuple[str, ...]:
    if not isinstance(value, list):
        _wrong(findings, f"{where} is not a list of addresses")
        return ()
    left[0] -= len(value)
    if left[0] < 0:
        _wrong(
            findings, f"it has more than {MAX_ADDRESSES:,} addresses", "split the program, or leave out what is unused"
        )
        return ()
    found: set[Network] = set()
    for item in value:
        try:
            if not isinstance(item, str) or ("/" in item and not networks) or "%" in item:
                raise ValueError(item)
            one = network(item, strict=True)
            if one.num_addresses == 1 and _of_no_host(one):
                hint = "list the address by which others reach it"
                _wrong(findings, f"{where} has `{item}`, which is the address of no host", hint)
            found.add(one)
        except ValueError:
            kind = "an address or a network" if networks else "an address"
            _wrong(findings, f"{where} has `{str(item)[:80]}`, which is not {kind}", "write `10.0.0.1` or `fd00::1`")
    return tuple(map(_text, sorted(found, key=_order)))


def _of_no_host(one: Network) -> bool:
    """Any address, all of a network, or a group: nothing can be dialled there that is one service."""
    return one.is_unspecified or one.is_multicast or str(one.network_address) == "255.255.255.255"


def _order(network: Network) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


@lru_cache(maxsize=1 << 17)
def _text(network: Network) -> str:
    return str(network.network_address) if network.num_addresses == 1 else str(network)
