"""What the NetworkPolicies of a plan admit, and where another plan admits fewer.

Placed -> {port: parties}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place
from solver.placement import admitted_parties

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from admc.serve.rollout.model import Placed, Port
    from dsl.program import Program


class Party(NamedTuple):
    """A caller as a NetworkPolicy knows it."""

    name: str
    cidrs: tuple[str, ...] | None
    """The addresses of an external; None for a service, which its labels select."""


def admitted(placed: Placed) -> dict[Port, frozenset[Party]]:
    """Return the parties that each closed port admits."""
    return {port: _parties(placed.program, names) for port, names in admitted_parties(*placed).items()}


def closings(old: Placed, new: Placed) -> tuple[str, ...]:
    """Return the destinations with a port at which the NetworkPolicy of the new plan refuses a caller that the old plan
    leaves to ADMs or admits, sorted."""
    before = admitted(old)
    return tuple(
        sorted(
            {port[0] for port, parties in admitted(new).items() if port not in before or not before[port] <= parties}
        )
    )


def guards(placed: Placed) -> dict[Port, dict[str, frozenset[Party]]]:
    """Return the guards in the network at each port, by name, each with the parties that it admits."""
    program = placed.program
    by_port: dict[Port, dict[str, frozenset[Party]]] = {}
    for decision in placed.placement.decisions:
        if decision.place is Place.NETWORK:
            parties = _parties(program, program.policy_by_name[decision.policy].named("caller"))
            for port in program.services[decision.destination].ports:
                if port.number in decision.ports:
                    by_port.setdefault((decision.destination, port.target), {})[decision.policy] = parties
    return by_port


def changed(old: Mapping[str, frozenset[Party]], new: Mapping[str, frozenset[Party]]) -> bool:
    """Whether the guards in the network differ at a port, and not in their names alone."""
    return {*old.values()} != {*new.values()}


def _parties(program: Program, names: Iterable[str]) -> frozenset[Party]:
    externals = program.externals
    return frozenset(Party(name, externals[name].cidrs if name in externals else None) for name in names)
