"""A program and its placement, indexed for tests of requests.

Program, Placement -> Mesh
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from admc.review.program_tests.facts import Fact
from dsl.program import External, Place, Policy, Port, Program, Side
from emitters.addresses.index import unlocated_externals
from solver.placement import Decision, Placement, admitted_parties

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

Declared = frozenset[tuple[str, str, int]]
"""Source, destination and number of the port of each declared call."""


class Target(NamedTuple):
    destination: str
    port: Port
    declared: bool


class Applying(NamedTuple):
    """A policy that applies to a call, or may apply to it."""

    policy: Policy
    surely: bool
    """Whether the policy applies if none of the facts in `doubts` holds."""
    doubts: tuple[Fact, ...]
    """If one of these facts holds, the policy applies exactly if `surely` is false."""


@dataclass(frozen=True, slots=True)
class Mesh:
    program: Program
    declared: Declared
    closing: Mapping[tuple[str, int], tuple[str, ...]]
    """Destination and number of each port that a NetworkPolicy closes -> the policies that need it closed."""
    network: Mapping[tuple[str, int], tuple[str, ...]]
    """Destination and number of each port -> the guards that only its NetworkPolicy enforces there."""
    admitted: Mapping[tuple[str, int], frozenset[str]]
    """Destination and number of each closed port -> the parties that the NetworkPolicy admits there."""
    ingress: Mapping[tuple[str, str], frozenset[int]]
    """Policy and destination -> the ports at which the ADM of the destination enforces it."""
    unlocated: tuple[str, ...]
    """Externals without a `cidr` that may be callers. An address that belongs to no party may be an address of one of
    these externals."""
    at_network: Mapping[Network, tuple[str, ...]]
    """Network -> the externals with this `cidr`."""

    hops: frozenset[tuple[str | None, str, int]]
    """Source, destination and port of the calls that pass through an ADM. The source is None for an ADM at the
    destination, which the calls of all sources pass through."""

    def first_adm(self, source: str, target: Target) -> Side | None:
        """The side of the first ADM on the way of a request; None if the request passes through no ADM."""
        if (source, target.destination, target.port.number) in self.hops:
            return Side.EGRESS
        return Side.INGRESS if (None, target.destination, target.port.number) in self.hops else None

    def at_ingress(self, policy: Policy, target: Target) -> bool:
        return target.port.number in self.ingress.get((policy.name, target.destination), ())


def mesh(program: Program, placement: Placement) -> Mesh:
    hops: set[tuple[str | None, str, int]] = set()
    ingress: dict[tuple[str, str], frozenset[int]] = {}
    for decision in placement.decisions:
        name = decision.destination
        if Side.INGRESS in decision.place.sides:
            called = (program.calls[index].port.number for index in decision.calls)
            ingress[decision.policy, name] = frozenset((*decision.ports, *called))
            hops |= {(None, name, number) for number in ingress[decision.policy, name]}
        if Side.EGRESS in decision.place.sides:
            calls = (program.calls[index] for index in decision.calls)
            hops |= {(call.source, name, call.port.number) for call in calls}
    closing = _closing(program, placement.decisions)
    network = _closing(program, (one for one in placement.decisions if one.place is Place.NETWORK))
    by_target = admitted_parties(program, placement)
    admitted = {
        (name, port.number): by_target[name, port.target]
        for name in placement.closed
        for port in program.services[name].ports
        if (name, port.target) in by_target
    }
    unlocated = unlocated_externals(program)
    declared = declared_calls(program)
    return Mesh(
        program, declared, closing, network, admitted, ingress, unlocated, _at_network(program), frozenset(hops)
    )


def _closing(program: Program, decisions: Iterable[Decision]) -> dict[tuple[str, int], tuple[str, ...]]:
    """The policies that need a port closed, by destination and number. A NetworkPolicy closes a target, so a port is
    closed with every other port of its target."""
    closing: dict[tuple[str, int], tuple[str, ...]] = {}
    for decision in decisions:
        if decision.closes:
            ports = program.services[decision.destination].ports
            targets = {port.target for port in ports if port.number in decision.ports}
            for port in ports:
                if port.target in targets:
                    key = decision.destination, port.number
                    closing[key] = (*closing.get(key, ()), decision.policy)
    return closing


def _at_network(program: Program) -> dict[Network, tuple[str, ...]]:
    names: dict[Network, tuple[str, ...]] = {}
    for name, external in program.externals.items():
        for network in networks(external):
            names[network] = (*names.get(network, ()), name)
    return names


def networks(external: External) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(cidr, strict=False) for cidr in external.cidrs)


def declared_calls(program: Program) -> Declared:
    return frozenset((call.source, call.destination, call.port.number) for call in program.calls)
