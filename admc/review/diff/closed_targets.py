"""The target ports at which the NetworkPolicies of a plan close its destinations, and the parties that they admit.

Plan -> {destination: targets}, {(destination, target): parties}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.compile.plan.model import Plan, PolicyContent


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


def admitted_parties(plan: Plan) -> Mapping[tuple[str, int], frozenset[str]]:
    """The parties that a NetworkPolicy admits to each closed target.

    The guards of the network admit the callers that all of them name, with or without a declared call. If another
    decision needs the target closed, only parties with a declared call are admitted.
    """
    targets = {(row.name, port.number): port.target for row in plan.services for port in row.ports}
    contents = {row.name: row.content for row in plan.policies}
    named: dict[tuple[str, int], frozenset[str]] = {}
    declared: dict[tuple[str, int], set[str]] = {}
    for decision in plan.decisions:
        for number in decision.ports if decision.closes else ():
            key = decision.destination, targets[decision.destination, number]
            if decision.place is Place.NETWORK:
                callers = named_callers(contents[decision.policy])
                named[key] = named[key] & callers if key in named else callers
            else:
                declared[key] = set()
    for call in plan.calls:
        key = call.destination, targets.get((call.destination, call.port), 0)
        if key in declared:
            declared[key].add(call.source)
    return {
        key: frozenset(declared[key]) & named.get(key, frozenset(declared[key])) if key in declared else named[key]
        for key in named.keys() | declared.keys()
    }


def named_callers(content: PolicyContent) -> frozenset[str]:
    """The callers in the arguments of a policy."""
    return frozenset(
        str(caller)
        for argument in content.arguments
        if argument.type == "[caller]" and isinstance(argument.value, tuple)
        for caller in argument.value
    )
