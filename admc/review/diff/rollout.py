"""The work that a change causes: restarts of pods, redirection, NetworkPolicies and configuration of ADMs.

    plan, plan -> Rollout without its steps

The two plans determine all of that. Steps need the programs: `compare` adds the steps if the programs are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from admc.review.diff.configuration import configurations
from admc.review.diff.model import NetworkPolicyChange, PolicyAction, PortChange, Restart, Rollout
from dsl.program import Side

if TYPE_CHECKING:
    from admc.compile.plan.model import AdmPlan, Closed, Plan

_Targets = Mapping[tuple[str, int], int]
"""(party, port number) -> target port."""
_Port = tuple[Side, str, int, int]
"""Direction, destination, number and target of a redirected port; target 0 if the plan lacks the port."""

NOTHING_TO_DO: Final = Rollout((), (), (), (), None)


def rollout(base: Plan, head: Plan) -> Rollout:
    before = {adm.service: adm for adm in base.adms}
    after = {adm.service: adm for adm in head.adms}
    staying = sorted(before.keys() & after.keys())
    old, new = (configurations(plan, frozenset(staying)) for plan in (base, head))
    old_targets, new_targets = _targets(base), _targets(head)
    redirection = (
        PortChange(service, direction, destination, number, comes)
        for service in staying
        for direction, destination, number, comes in _redirection(
            _ports(before[service], old_targets), _ports(after[service], new_targets)
        )
    )
    return Rollout(
        restarts=tuple(_restarts(base, head)),
        redirection=tuple(redirection),
        network_policies=tuple(_network_policies(base, head)),
        configuration_only=tuple(service for service in staying if old[service] != new[service]),
        steps=None,
    )


def _restarts(base: Plan, head: Plan) -> Iterator[Restart]:
    """The restarts of services that both plans have. Pods of all other services start or end anyway."""
    before, after = ({adm.service for adm in plan.adms} for plan in (base, head))
    old = {row.name for row in base.services}
    new = {row.name: row.replicas for row in head.services}
    for service in sorted(before ^ after):
        if service in old and service in new:
            yield Restart(service, new[service], service in after)


def _redirection(before: set[_Port], after: set[_Port]) -> list[tuple[Side, str, int, bool]]:
    """The changed ports of an ADM that stays. All ports of an ADM that comes or goes do so when its pods restart."""
    changed = [*((*port, False) for port in before - after), *((*port, True) for port in after - before)]
    changed.sort(key=lambda change: (change[0] is Side.EGRESS, change[1], change[2], change[4]))
    return [(direction, destination, number, comes) for direction, destination, number, _target, comes in changed]


def _ports(adm: AdmPlan, targets: _Targets) -> set[_Port]:
    return {(port.direction, port.service, port.port, targets.get((port.service, port.port), 0)) for port in adm.ports}


def _targets(plan: Plan) -> _Targets:
    targets = {(row.name, port.number): port.target for row in plan.services for port in row.ports}
    targets.update(((row.name, port.number), port.target) for row in plan.externals for port in row.ports)
    return targets


def _network_policies(base: Plan, head: Plan) -> Iterator[NetworkPolicyChange]:
    before = {row.destination: row for row in base.closed}
    after = {row.destination: row for row in head.closed}
    old_selections, new_selections = _selections(base, before), _selections(head, after)
    for destination in sorted(before.keys() | after.keys()):
        old, new = before.get(destination), after.get(destination)
        if new is None:
            yield NetworkPolicyChange(destination, PolicyAction.OPEN, (), ())
        elif old is None:
            yield NetworkPolicyChange(destination, PolicyAction.CLOSE, new.senders, ())
        else:
            came, went = set(new.senders) - set(old.senders), set(old.senders) - set(new.senders)
            if came or went or old_selections.get(destination) != new_selections.get(destination):
                yield NetworkPolicyChange(destination, PolicyAction.CHANGE, tuple(sorted(came)), tuple(sorted(went)))


def _selections(plan: Plan, closed: Mapping[str, Closed]) -> dict[str, object]:
    """The selected pods, the admitted senders and the ports of each NetworkPolicy."""
    pods: dict[str, object] = {row.name: (row.namespace, row.labels or row.name) for row in plan.services}
    pods |= {row.name: row.cidrs for row in plan.externals}
    targets = _targets(plan)
    admitted: dict[str, set[tuple[object, int]]] = {name: set() for name in closed}
    for call in plan.calls:
        if call.destination in admitted:
            target = targets.get((call.destination, call.port), 0)
            admitted[call.destination].add((pods.get(call.source), target))
    return {name: (pods.get(name), admitted[name]) for name in closed}
