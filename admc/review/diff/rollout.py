"""The work that a change causes: restarts of pods, redirection, NetworkPolicies and configuration of ADMs.

    plan, plan -> Rollout without its steps

The two plans determine all of that. Steps need the programs: `compare` adds the steps if the programs are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.review.diff.closed_targets import admitted_parties, closed_targets
from admc.review.diff.configuration import configurations
from admc.review.diff.model import NetworkPolicyChange, PolicyAction, PortChange, Restart, Rollout
from dsl.program import Side

if TYPE_CHECKING:
    from admc.compile.plan.model import AdmPlan, Plan

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
    before, after = _closings(base), _closings(head)
    for destination in sorted(before.keys() | after.keys()):
        old, new = before.get(destination), after.get(destination)
        if new is None:
            yield NetworkPolicyChange(destination, PolicyAction.OPEN, (), ())
        elif old is None:
            yield NetworkPolicyChange(destination, PolicyAction.CLOSE, new.senders, ())
        elif old != new:
            came, went = set(new.senders) - set(old.senders), set(old.senders) - set(new.senders)
            yield NetworkPolicyChange(destination, PolicyAction.CHANGE, tuple(sorted(came)), tuple(sorted(went)))


class _Closing(NamedTuple):
    """The content of a NetworkPolicy."""

    pods: object
    """The pods that it selects."""
    targets: frozenset[int]
    """The ports that it closes."""
    senders: tuple[str, ...]
    """The senders that it admits to closed ports, sorted."""
    admitted: frozenset[tuple[object, int]]
    """Their pods or addresses, each with a target."""


def _closings(plan: Plan) -> dict[str, _Closing]:
    pods: dict[str, object] = {row.name: (row.namespace, row.labels or row.name) for row in plan.services}
    pods |= {row.name: row.cidrs for row in plan.externals}
    closed = closed_targets(plan)
    admitted: dict[str, set[tuple[str, int]]] = {name: set() for name in closed}
    for (destination, target), parties in admitted_parties(plan).items():
        admitted[destination].update((party, target) for party in parties)
    return {
        name: _Closing(
            pods.get(name),
            its,
            tuple(sorted({source for source, _ in admitted[name]})),
            frozenset((pods.get(source), target) for source, target in admitted[name]),
        )
        for name, its in closed.items()
    }
