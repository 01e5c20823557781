"""How far a rollout is, in sentences: for the log, `admc status` and the answers to the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.rollout.reducer import CommandName, blocking, lacking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.rollout.reducer import Client, Observation
    from admc.rollout.rollout_state import Label, RolloutState
    from admc.serve.rollout.plans import Plans
    from solver.placement import Placement

SHOWN: Final = 3
"""How many names, or things that are waited for, a sentence has."""
OLDER: Final = "older connections to be closed"


def phase(label: Label) -> str:
    return "plan" if label.step is None else label.step.value


def waits(state: RolloutState, seen: Observation, plans: Plans, missing: Sequence[str] = ()) -> tuple[str, ...]:
    """What is waited for before the next label is published, or the plan is in force: one sentence for each service.
    `missing` are the services whose redirection is not loaded."""
    if state.now.goal is None:
        return _at_rest(state, seen, plans)
    behind = _behind(frozenset(each.service for each in lacking(state, seen)), seen)
    if behind:
        return behind
    involved = seen.involved or frozenset()
    if any(each.older and each.service in involved for each in seen.clients):
        return (OLDER,)
    return tuple(f"`{name}`: its interception" for name in missing)


def _at_rest(state: RolloutState, seen: Observation, plans: Plans) -> tuple[str, ...]:
    plan = state.queued
    if plan is None or plan == state.aborted or plan not in plans:
        return _behind(frozenset(each.service for each in seen.clients if not each.has_now), seen)
    names = blocking(state, seen, plan)
    behind = _behind(
        frozenset(each.service for each in seen.clients if each.service in names and not each.has_now), seen
    )
    return behind or ((OLDER,) if names else ())


def _behind(services: frozenset[str], seen: Observation) -> tuple[str, ...]:
    """Who has not acknowledged what is published."""
    return tuple(_lack(name, [each for each in seen.clients if each.service == name]) for name in sorted(services))


def _lack(name: str, clients: Sequence[Client]) -> str:
    there = [each for each in clients if not each.is_away]
    refusing = sum(each.refuses for each in there)
    if refusing:
        return f"`{name}`: {refusing} of {len(there)} proxies refused it (a newer plan mends that)"
    if len(there) < len(clients):
        return f"`{name}`: {len(there)} of {len(clients)} proxies are connected"
    behind = sum(not each.has_now for each in there)
    return f"`{name}`: {behind} of {len(there)} proxies have not acknowledged"


def text(state: RolloutState, plans: Plans, waiting: Sequence[str]) -> str:
    """What happens, at which step, and what that waits for."""
    newer = "; then a newer plan begins" if state.queued not in (None, state.now.goal, state.aborted) else ""
    if state.now.goal is None:
        if state.aborted is not None and state.queued == state.aborted:
            return "a plan was aborted; a newer plan or `admc rollout continue` goes on"
        what = "the new plan is not in force everywhere yet" if state.proven != state.now else "a newer plan has come"
        return (f"{what}: {_waiting('it', waiting)}" if waiting else what) + newer
    names = moving(plans[state.now.base].state.placement, plans[state.now.goal].state.placement)
    what = f"{_policies(names)} {'changes' if len(names) == 1 else 'change'} sides" if names else "policies move"
    if state.back:
        what += ", which is taken back"
    return _waiting(f"{what}: step `{phase(state.now)}`", waiting) + newer


def _waiting(what: str, waiting: Sequence[str]) -> str:
    more = f"; and {len(waiting) - SHOWN} more" if waiting[SHOWN:] else ""
    return f"{what} waits for {'; '.join(waiting[:SHOWN])}{more}" if waiting else what


def outcome(name: CommandName, before: RolloutState, after: RolloutState | None, plans: Plans) -> str:
    """What a command of the operator did."""
    if after is None or (after.now, after.back, after.aborted) == (before.now, before.back, before.aborted):
        return "nothing is under way" if name is CommandName.ABORT else "nothing was aborted"
    if name is CommandName.CONTINUE:
        return "the plan goes on"
    version = plans[after.now.base].state.version
    return f"back to plan {version}: a newer plan or `admc rollout continue` goes on"


def moving(old: Placement, new: Placement) -> tuple[str, ...]:
    """The policies that leave a side of some destination and come to the other one, in order of their names."""
    before = {(one.policy, one.destination): frozenset(one.sides) for one in old.decisions}
    found = {
        one.policy
        for one in new.decisions
        if (sides := before.get((one.policy, one.destination))) is not None
        and sides - set(one.sides)
        and set(one.sides) - sides
    }
    return tuple(sorted(found))


def _policies(names: Sequence[str]) -> str:
    shown, more = [f"`{name}`" for name in names[:SHOWN]], len(names) - SHOWN
    last = f"{more} more policies" if more > 1 else "one more policy" if more == 1 else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last
