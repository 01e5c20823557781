"""What the NetworkPolicies of a plan admit, and where another plan admits fewer.

Placed -> {port: parties}
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place
from solver.placement import admitted_parties

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

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


def narrower(old: Placed, new: Placed) -> frozenset[Port]:
    """Return the ports at which the NetworkPolicy of the new plan refuses a caller that the old plan admits, or leaves
    to ADMs."""
    before = admitted(old)
    return frozenset(
        port for port, parties in admitted(new).items() if port not in before or not before[port] <= parties
    )


def closings(old: Placed, new: Placed) -> tuple[str, ...]:
    """Return the destinations of these ports, sorted."""
    return _destinations(narrower(old, new))


def relied_on(old: Placed, new: Placed, moving: Collection[Port]) -> tuple[str, ...]:
    """Return the destinations whose NetworkPolicy has to be in force before ADMs enforce less than the old plan:
    those where it refuses more, and those with a port that moves and that the new plan closes, sorted. That the old
    plan closes it as well does not say that its NetworkPolicy is in force."""
    return _destinations({*narrower(old, new), *admitted(new).keys() & set(moving)})


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
    return Counter(old.values()) != Counter(new.values())


def _destinations(ports: Iterable[Port]) -> tuple[str, ...]:
    return tuple(sorted({destination for destination, _ in ports}))


def _parties(program: Program, names: Iterable[str]) -> frozenset[Party]:
    externals = program.externals
    return frozenset(Party(name, externals[name].cidrs if name in externals else None) for name in names)
