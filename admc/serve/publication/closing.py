"""Decides which targets of destinations are closed while proxies may have several plans, and which parties are admitted
to them.

plans, the newest last --> {destination: {target: parties}}

A target stays closed for as long as any of these plans closes it, and admits only parties that all plans admit which
close it: for a policy at its senders, such a plan relies on an ADM at each sender. A sender that only the old plan
admits has no ADM for the new plan; one that only the new plan admits has no ADM yet.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import TYPE_CHECKING

from admc.serve.rollout.reducer import next_plan
from emitters.kubernetes import Admitted, ClosedTargets
from solver.placement import admitted_parties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.serve.environment import Closing
    from admc.serve.publication.plans import Plans
    from admc.serve.rollout.model import Placed, Port
    from admc.serve.rollout.rollout_state import RolloutState
    from dsl.program import Program


class ClosedDestinations:
    """Tells `Closing` which destinations to close during a rollout. Without a `Closing`, all destinations count as
    closed."""

    def __init__(self, closing: Closing | None) -> None:
        self._closing = closing
        self._asked: tuple[str, ...] = ()
        """The plans for which it was asked last."""

    def ask(self, state: RolloutState, plans: Plans) -> None:
        """Close the destinations of all plans that proxies may have, and of a plan whose move begins next; and no
        others."""
        if self._closing is None:
            return
        labels = [*(holding.label for holding in state.may_have if holding.label != state.now), state.now]
        names = [name for label in labels for name in (label.base, label.goal) if name is not None]
        following = next_plan(state)
        if following is not None and plans.moves(state.now.base, following):
            names.append(following)
        newest_last = tuple(reversed(dict.fromkeys(reversed(names))))
        if newest_last != self._asked:
            self._closing.ask(destinations([plans[name].placed for name in newest_last]))
            self._asked = newest_last

    @property
    def text(self) -> str:
        return "" if self._closing is None else self._closing.text

    def missing(self, destinations: Sequence[str]) -> tuple[str, ...]:
        """Return those of the destinations whose NetworkPolicies are not known to be in force."""
        return () if self._closing is None else self._closing.missing(destinations)


def destinations(plans: Sequence[Placed]) -> dict[str, ClosedTargets]:
    """Return the destinations that some plan closes, each with its closed targets."""
    closers: dict[Port, dict[int, frozenset[str]]] = {}
    for index, placed in enumerate(plans):
        for port, parties in admitted_parties(*placed).items():
            closers.setdefault(port, {})[index] = parties
    together = {tuple(by_plan) for by_plan in closers.values()}
    common = {indices: _common([plans[index].program for index in indices]) for indices in together}
    newest = {name: placed.program for placed in plans for name in placed.placement.closed}
    stated = {
        name for placed in plans if placed.program.network_policies is not None for name in placed.placement.closed
    }
    admitted: dict[str, dict[int, Admitted]] = {name: {} for name in sorted(newest)}
    for (name, target), by_plan in sorted(closers.items()):
        program, known = common[tuple(by_plan)]
        admitted[name][target] = Admitted(program, known.intersection(*by_plan.values()))
    return {name: ClosedTargets(newest[name], targets, name in stated) for name, targets in admitted.items()}


def _common(programs: Sequence[Program]) -> Admitted:
    """Return the parties that all programs have, and the newest program with those addresses of externals that all of
    them have."""
    program = programs[-1]
    services, externals = set(program.services), dict(program.externals)
    for other in programs[:-1]:
        services &= other.services.keys()
        externals = {
            name: replace(party, cidrs=_overlap(party.cidrs, other.externals[name].cidrs))
            for name, party in externals.items()
            if name in other.externals
        }
    if externals != program.externals:
        program = replace(program, externals=externals)
    return Admitted(program, frozenset(services) | {name for name, party in externals.items() if party.cidrs})


def _overlap(some: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """Return the networks that are in both lists, or inside one of the other list."""
    if tuple(some) == tuple(others):
        return tuple(some)
    first, second = ([ipaddress.ip_network(cidr) for cidr in cidrs] for cidrs in (some, others))
    pairs = [(one, other) for one in first for other in second if one.version == other.version and one.overlaps(other)]
    return tuple(dict.fromkeys(str(max(pair, key=lambda network: network.prefixlen)) for pair in pairs))
