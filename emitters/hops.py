"""The policies that each ADM enforces, by connections.

    program + placement -> [Hop]

A *hop* is one direction and one port of one ADM: at ingress a port of the service itself, at egress a port of one
destination. Each hop becomes one or more filter chains in Envoy. The policies of a hop are in declared order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Policy, Port, Program, Protocol, Side, Stage

if TYPE_CHECKING:
    from solver.placement import Placement


class Hop(NamedTuple):
    """One direction and port of one ADM, with the policies that it enforces there."""

    service: str
    """The service that hosts the ADM."""
    side: Side
    destination: str
    """The service itself at ingress."""
    port: Port
    policies: tuple[Policy, ...]

    @property
    def name(self) -> str:
        """The name of this hop in the names of its resources: `ingress/8082` or `egress/search:8082`."""
        return hop_name(self.side, self.destination, self.port.number)

    @property
    def carries_requests(self) -> bool:
        return self.port.protocol is not Protocol.TCP

    def stage(self, policy: Policy) -> Stage:
        return policy.kind.sides[self.side]


def hop_name(side: Side, destination: str, port: int) -> str:
    """The name of a hop (`Hop.name`)."""
    return f"ingress/{port}" if side is Side.INGRESS else f"egress/{destination}:{port}"


def hops(program: Program, placement: Placement) -> dict[str, tuple[Hop, ...]]:
    """The hops of each ADM: ingress before egress, then by destination and port. Services in canonical order."""
    positions = {policy.name: index for index, policy in enumerate(program.policies)}
    names_by_hop: dict[tuple[str, Side, str, Port], set[str]] = {}
    for decision in placement.decisions:
        destination = decision.destination
        if Side.INGRESS in decision.place.sides:
            covered = set(decision.ports) | {program.calls[index].port.number for index in decision.calls}
            for port in program.services[destination].ports:
                if port.number in covered:
                    names_by_hop.setdefault((destination, Side.INGRESS, destination, port), set()).add(decision.policy)
        if Side.EGRESS in decision.place.sides:
            for index in decision.calls:
                call = program.calls[index]
                names_by_hop.setdefault((call.source, Side.EGRESS, destination, call.port), set()).add(decision.policy)
    result: dict[str, list[Hop]] = {adm.service: [] for adm in placement.adms}
    for service, side, destination, port in sorted(
        names_by_hop, key=lambda key: (key[0], key[1] is Side.EGRESS, key[2], key[3].number)
    ):
        names = sorted(names_by_hop[service, side, destination, port], key=positions.__getitem__)
        policies = tuple(program.policy_by_name[name] for name in names)
        result.setdefault(service, []).append(Hop(service, side, destination, port, policies))
    return {service: tuple(result[service]) for service in sorted(result)}
