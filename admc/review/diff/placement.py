"""The changes of the placement: ADMs, sides of decisions, and levels of the objective.

    plan, plan -> ADMs, moves, counts, levels, gap

`admc.review.diff.rollout` lists the work that these changes cause.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.review.diff.model import AdmChange, Counts, Gap, Level, Move

if TYPE_CHECKING:
    from admc.compile.plan.model import AdmPlan, Plan
    from admc.review.diff.names import Names

NO_COUNTS: Final = Counts(0, 0, 0, 0)


def counts(plan: Plan | None) -> Counts:
    if plan is None:
        return NO_COUNTS
    return Counts(len(plan.adms), sum(adm.replicas for adm in plan.adms), len(plan.decisions), len(plan.closed))


def adm_changes(base: Plan, head: Plan, names: Names) -> tuple[AdmChange, ...]:
    """The ADMs that come, go, or get other replicas or policies, in the order of their services."""
    before = {adm.service: adm for adm in base.adms}
    after = {adm.service: adm for adm in head.adms}
    changes = []
    for service in sorted(before.keys() | after.keys()):
        old, new = before.get(service), after.get(service)
        if old is not None and new is not None and _is_same(old, new, names):
            continue
        changes.append(
            AdmChange(
                service,
                0 if old is None else old.replicas,
                0 if new is None else new.replicas,
                () if old is None else _policies(old),
                () if new is None else _policies(new),
            )
        )
    return tuple(changes)


def _is_same(old: AdmPlan, new: AdmPlan, names: Names) -> bool:
    return old.replicas == new.replicas and sorted(map(names.in_head, _policies(old))) == list(_policies(new))


def _policies(adm: AdmPlan) -> tuple[str, ...]:
    """The names of an ADM's policies, sorted and without repetitions: a policy may be at both sides.

    The order of policies is left out here, since two policies that commute may change places.
    """
    return tuple(sorted({hosted.policy for hosted in adm.policies}))


def moves(base: Plan, head: Plan, names: Names) -> tuple[Move, ...]:
    """The decisions of both plans that take another place, in the order of policies and destinations."""
    before = {(names.in_head(decision.policy), decision.destination): decision for decision in base.decisions}
    base_hosts, head_hosts = _hosts(base), _hosts(head)
    moved = []
    for new in head.decisions:
        old = before.get((new.policy, new.destination))
        if old is None or old.place is new.place:
            continue
        moved.append(
            Move(
                new.policy,
                new.destination,
                old.place,
                new.place,
                tuple(sorted(base_hosts.get((old.policy, old.destination), ()))),
                tuple(sorted(head_hosts.get((new.policy, new.destination), ()))),
                None,
            )
        )
    return tuple(sorted(moved, key=lambda move: (move.policy, move.destination)))


def _hosts(plan: Plan) -> dict[tuple[str, str], set[str]]:
    hosts: dict[tuple[str, str], set[str]] = {}
    for row in plan.enforcements:
        if row.service is not None:
            hosts.setdefault((row.policy, row.destination), set()).add(row.service)
    return hosts


def levels(base: Plan | None, head: Plan) -> tuple[Level, ...]:
    """The levels of the objective in the order of HEAD; levels that only BASE has come last."""
    before = {} if base is None else _values(base)
    after = _values(head)
    return tuple(Level(metric, before.get(metric), after.get(metric)) for metric in dict.fromkeys((*after, *before)))


def _values(plan: Plan) -> dict[str, int | None]:
    return {objective.metric: objective.value for objective in plan.solver.objectives}


def gap(base: Plan | None, head: Plan) -> Gap:
    return Gap(() if base is None else _unproven(base), _unproven(head))


def _unproven(plan: Plan) -> tuple[Level, ...]:
    return tuple(
        Level(objective.metric, objective.value, objective.bound)
        for objective in plan.solver.objectives
        if objective.value != objective.bound
    )
