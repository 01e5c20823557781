"""Describes the progress of a rollout, for the log, `admc status`, and the answers to commands of the operator."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import visible
from admc.serve.publication.plans import hosts
from admc.serve.rollout.reducer import CommandName, blocking, lacking, unclosed
from admc.serve.rollout.rollout_state import Label
from dsl.words import few

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.serve.publication.plans import Plans
    from admc.serve.rollout.model import Step
    from admc.serve.rollout.reducer import Client, Observation
    from admc.serve.rollout.rollout_state import RolloutState
    from solver.placement import Placement
    from xds_server.resources.snapshot import SnapshotError

LOG: Final = logging.getLogger("admc.serve")
SHOWN: Final = 3
"""How many names or reasons a sentence lists."""
NAMED: Final = 5
"""How many proxies of a service a sentence names."""
LONGEST: Final = 100
"""How much of a proxy's name a sentence shows."""
DIGITS: Final = 8
"""How many digits of a state's version are shown, as in `admc status`."""
MENDS: Final = "a newer plan"
MENDS_AT_REST: Final = "a newer plan in which policies keep their places"
WITHDRAWN: Final = (
    "its ADM is withdrawn, but a missing proxy may enforce the earlier plan: connect it, or remove its pod"
)
GOES_ON: Final = "a newer plan or `admc rollout continue` goes on"


def phase(label: Label) -> str:
    return "plan" if label.step is None else label.step.value


def waits(state: RolloutState, seen: Observation, plans: Plans) -> tuple[str, ...]:
    """Return the reasons for which the rollout waits: one sentence for each service."""
    if state.now.goal is None:
        return _at_rest(state, seen, plans)
    behind = _behind(frozenset(client.service for client in lacking(state, seen)), seen, hosts(state.now, plans))
    if behind:
        return behind
    if older := frozenset(client.service for client in seen.concerned if client.older):
        return _older(older)
    return (
        *(f"`{name}`: its interception" for name in seen.missing),
        *_unclosed(state, seen),
    )


def causes(error: CommandError | SnapshotError) -> tuple[str, ...]:
    """Return why the next label cannot be published. If no safe steps lead to a plan, the user has to give another
    plan."""
    if not isinstance(error, CommandError):
        return (str(error),)
    unsafe = error.exit_code is Exit.NO_PLACEMENT
    return tuple(
        f"{item.message} ({item.hint})" if unsafe and item.hint else item.message for item in error.diagnostics
    )


def _at_rest(state: RolloutState, seen: Observation, plans: Plans) -> tuple[str, ...]:
    plan, hosting = state.queued, hosts(state.now, plans)
    if plan is None or plan == state.aborted or plan not in plans:
        return _behind(frozenset(client.service for client in seen.clients if not client.has_now), seen, hosting)
    names = blocking(state, seen, plan)
    lack = frozenset(client.service for client in seen.clients if client.service in names and not client.has_now)
    # A proxy that refuses the present plan would also refuse the steps that begin from it.
    return _behind(lack, seen, hosting, MENDS_AT_REST) or _older(names) or _unclosed(state, seen)


def _unclosed(state: RolloutState, seen: Observation) -> tuple[str, ...]:
    return tuple(f"`{name}`: its NetworkPolicy" for name in unclosed(state, seen))


def _older(services: frozenset[str]) -> tuple[str, ...]:
    return tuple(f"`{name}`: older connections to be closed" for name in sorted(services))


def _behind(
    services: frozenset[str], seen: Observation, hosting: frozenset[str], mends: str = MENDS
) -> tuple[str, ...]:
    """Return a sentence for each service of which a proxy has not acknowledged the present snapshot. `hosting` has the
    services with an ADM."""
    clients = {name: [client for client in seen.clients if client.service == name] for name in sorted(services)}
    return tuple(_lack(name, own, mends, hosts_adm=name in hosting) for name, own in clients.items())


def _lack(name: str, clients: Sequence[Client], mends: str, *, hosts_adm: bool) -> str:
    there = [client for client in clients if not client.is_away]
    if refusing := [client.node for client in there if client.refuses]:
        return f"`{name}`: {len(refusing)} of {len(there)} proxies refused it: {_named(refusing)} ({mends} mends that)"
    if len(there) < len(clients):
        connected = f"`{name}`: {len(there)} of {len(clients)} proxies are connected"
        return connected if hosts_adm else f"{connected} ({WITHDRAWN})"
    behind = [client.node for client in there if not client.has_now]
    return f"`{name}`: {len(behind)} of {len(there)} proxies have not acknowledged: {_named(behind)}"


def _named(nodes: Sequence[str]) -> str:
    """Return the node ids of proxies in one text."""
    return few([f"`{visible(node[:LONGEST])}`" for node in sorted(nodes)], NAMED)


def text(state: RolloutState, plans: Plans, waiting: Sequence[str]) -> str:
    """Return a sentence with the rollout's step and the reasons for which it waits."""
    newer = "; then a newer plan begins" if state.queued not in (None, state.now.goal, state.aborted) else ""
    if state.now.goal is None:
        base = _version(plans, state.now.base)
        if state.aborted is not None and state.queued == state.aborted:
            present = _waiting(f"the way back to state {base}", waiting) if waiting else f"proxies have state {base}"
            return f"state {_version(plans, state.aborted)} is aborted; {present}; {GOES_ON}"
        if newer:
            return (_waiting(f"state {base}", waiting) if waiting else f"proxies have state {base}") + newer
        what = "the new plan is not in force everywhere yet"
        return f"{what}: {_waiting('it', waiting)}" if waiting else what
    if state.aborted is not None:
        newer = f"; state {_version(plans, state.aborted)} is aborted"
    return _waiting(step_text(state, plans, state.now.goal), waiting) + newer


def step_text(state: RolloutState, plans: Plans, goal: str) -> str:
    """Return a sentence with the step that is published on the way to `goal`."""
    names = moving(plans[state.now.base].state.placement, plans[goal].state.placement)
    what = f"{_policies(names)} {'changes' if len(names) == 1 else 'change'} places" if names else "policies move"
    if state.back:
        what += ", which is taken back"
    return f"{what}: step `{phase(state.now)}`"


def _waiting(what: str, waiting: Sequence[str]) -> str:
    more = f"; and {len(waiting) - SHOWN} more" if waiting[SHOWN:] else ""
    return f"{what} waits for {'; '.join(waiting[:SHOWN])}{more}" if waiting else what


def log(before: RolloutState, state: RolloutState, step: Step | None, plans: Plans) -> None:
    """Log the newly published label."""
    extra: dict[str, object] = {"step": phase(state.now), "back": state.back}
    if step is not None:
        extra["groups"] = len(step.services)
        extra |= {name: list(getattr(step, name)) for name in ("closes", "opens") if getattr(step, name)}
    LOG.info("rollout_step", extra=extra)
    if step is not None and before.now.goal is None and not state.back:
        for sentence in step.reasons:
            LOG.info("rollout_reason", extra={"reason": sentence})
    returned = before.now.goal is not None and state.now == Label(before.now.base)
    if not before.back and (state.back or returned):
        LOG.info("rollout_undoing", extra={"state": plans[state.now.base].state.version})


def check(name: CommandName, state: RolloutState, plans: Plans) -> None:
    """Raises `CommandError` for a command that has no effect in this state."""
    if name is CommandName.CONTINUE and state.aborted is None:
        raise not_done(name, "no plan is aborted")
    if name is CommandName.ABORT and state.aborted is not None:
        raise not_done(name, f"state {_version(plans, state.aborted)} is aborted already")


def outcome(name: CommandName, before: RolloutState, after: RolloutState, plans: Plans) -> str:
    """Return what a command of the operator changed. Raises `CommandError` if it changed nothing."""
    if before.aborted is not None:
        return f"state {_version(plans, before.aborted)} goes on"
    if after.aborted is None:
        raise not_done(name, "no rollout is under way that could be taken back")
    base = _version(plans, after.now.base)
    returns = after.now != before.now or after.now.goal is not None
    what = f"proxies go back to state {base}" if returns else f"proxies keep state {base}"
    return f"state {_version(plans, after.aborted)} is aborted, and {what}; {GOES_ON}"


def not_done(name: CommandName, cause: str) -> CommandError:
    hint = "`admc rollout status` shows what is under way"
    return wrong_usage("ADM856", f"the server did not {name} the rollout", cause=cause, hint=hint)


def _version(plans: Plans, name: str) -> str:
    return plans[name].state.version[:DIGITS]


def moving(old: Placement, new: Placement) -> tuple[str, ...]:
    """The policies of which a decision leaves its place for another one, in order of their names."""
    before = {(one.policy, one.destination): one.place for one in old.decisions}
    policies = {
        one.policy
        for one in new.decisions
        if (place := before.get((one.policy, one.destination))) is not None
        and set(place.ends).isdisjoint(one.place.ends)
    }
    return tuple(sorted(policies))


def _policies(names: Sequence[str]) -> str:
    shown, more = [f"`{name}`" for name in names[:SHOWN]], len(names) - SHOWN
    last = f"{more} more policies" if more > 1 else "one more policy" if more == 1 else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last
