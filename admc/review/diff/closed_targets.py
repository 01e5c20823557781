"""The target ports at which the NetworkPolicies of a plan close its destinations.

Plan -> {destination: targets}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.compile.plan.model import Plan


def closed_targets(plan: Plan) -> Mapping[str, frozenset[int]]:
    """The targets of the ports of all decisions that need a destination closed, by destination."""
    numbers: dict[str, set[int]] = {row.destination: set() for row in plan.closed}
    for decision in plan.decisions:
        if decision.closes:
            numbers.setdefault(decision.destination, set()).update(decision.ports)
    return {
        row.name: frozenset(port.target for port in row.ports if port.number in numbers[row.name])
        for row in plan.services
        if row.name in numbers
    }
