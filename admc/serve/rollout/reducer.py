"""Computes the next state of a rollout from the present state, an observation and perhaps a command: no clock, no I/O.

    reduce(RolloutState, Observation, Command | None) -> RolloutState

The caller stores the new state, and then publishes `now` if it has changed. So proxies have labels of `may_have` only,
whenever the server is killed. The rules:

- A move goes on as soon as every proxy that its step concerns has the step. At `prepare`, older connections also have
to be closed, and redirection has to be loaded. No timeout replaces any of these conditions.
- The way back takes the same steps in reverse order. It waits for the proxies of a step as the way forward does, but
  not for one that had no resources when its stream began. For older connections it waits at `release` only, and for
  redirection never.
- A move begins once the NetworkPolicies of its new plan are in force. So the connections that are closed in `prepare`
  include each one that is older than they are. They also have to be in force between `prepare` and `receivers`, and
  those of the old plan, on the way back, between `release` and `senders`.
- A newer plan turns a move back if a proxy refuses the step, or at `prepare` if safe steps lead to the newer plan from
  the base of the move. Otherwise the newer plan waits for the end of the move.
- At rest, a plan is published at once if it moves no destination against any plan that a proxy of that destination may
  have. If it moves a destination against the present plan only, its move begins when NetworkPolicies allow it.
  Otherwise it waits until the proxies have the present plan; if one of these refuses the present plan, the plan before
  is published again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.rollout_state import NO_SERVICES, STEPS, Chain, Holding, Label, RolloutState

if TYPE_CHECKING:
    from collections.abc import Iterable

Between = Callable[[str, str], frozenset[str]]
"""(plan, plan) -> services."""


class CommandName(StrEnum):
    PLAN = "plan"
    ABORT = "abort"
    CONTINUE = "continue"


class Command(NamedTuple):
    """An input from outside: a plan that was accepted, or a command of the operator."""

    name: CommandName
    plan: str = ""


class Client(NamedTuple):
    """A proxy that is connected, or that the list of proxies contains."""

    service: str
    served: bool
    """Whether the proxy may have received the published label: a stream of its service was open since the
    publication."""
    has_now: bool
    """Whether the proxy acknowledged the published version, and its workers had the time to apply it."""
    refuses: bool
    """Whether the proxy refuses the published version."""
    fresh: bool = False
    """Whether the proxy had no resources when its stream began, and has received only published ones since."""
    is_away: bool = False
    """Whether the list of proxies contains the proxy, and it is not connected."""
    older: frozenset[str] = frozenset()
    """The names of the chains that the proxy still subscribes to, and that `now` does not have."""
    node: str = ""
    """The node id of the proxy; empty for one that is away and not known by name."""


class Observation(NamedTuple):
    """The facts about `now` that the server observes at one moment."""

    clients: tuple[Client, ...]
    missing: tuple[str, ...]
    """The services that lack redirection that `now` needs."""
    moves: Between
    """(plan, plan) -> the services at both ends of the destinations that move between the two plans."""
    changes: Between
    """(plan, plan) -> the services whose ADM differs between the two plans."""
    involved: frozenset[str] | None = None
    """The services that the step concerns; None if it concerns all."""
    chains: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Service -> the names of the chains in its published snapshot."""
    has_steps: Callable[[str, str], bool] = lambda old, new: True
    """Whether safe steps lead from one plan to another, or none are needed."""
    unclosed: tuple[str, ...] = ()
    """The destinations whose NetworkPolicies are not known to be in force: those that the step relies on
    (`Step.relies_on`); at rest, those on which the move to `next_plan` relies."""

    @property
    def concerned(self) -> tuple[Client, ...]:
        """The proxies that the step concerns."""
        return tuple(client for client in self.clients if self.involved is None or client.service in self.involved)

    @property
    def refusing(self) -> frozenset[str]:
        return frozenset(client.service for client in self.concerned if client.refuses)


def reduce(state: RolloutState, seen: Observation, command: Command | None = None) -> RolloutState:
    """Return the next state. The caller repeats the call until the state stays equal: each call publishes at most one
    label."""
    state = _observed(state, seen)
    if command is not None:
        return _commanded(state, seen, command)
    return _rest(state, seen) if state.now.goal is None else _move(state, seen)


def lacking(state: RolloutState, seen: Observation) -> tuple[Client, ...]:
    """Return the proxies for which a move waits. The way back does not wait for a proxy that has just started, even if
    it refuses the step, because all of its resources are of this step."""
    return tuple(client for client in seen.concerned if not (client.has_now or (state.back and client.fresh)))


def next_plan(state: RolloutState) -> str | None:
    """Return the plan that begins next, at rest; None if none is to begin."""
    plan, now = state.queued, state.now
    return plan if now.goal is None and plan not in (now.base, state.aborted) else None


def unclosed(state: RolloutState, seen: Observation) -> tuple[str, ...]:
    """Return the destinations whose NetworkPolicies have to be in force before the move begins, or goes on."""
    at_rest = state.now.goal is None
    return seen.unclosed if at_rest or state.back == (state.now.step in STEPS[2:]) else ()


def blocking(state: RolloutState, seen: Observation, plan: str) -> frozenset[str]:
    """Return the services that keep a plan from beginning, at rest. There are two reasons: a proxy of the service, or
    an
    older connection through it, may have a plan other than the present one, against which a destination of the service
    moves; or a move changes the ADM of the service, and one of its proxies does not have the present plan."""
    others = (holding for holding in state.may_have if holding.label != state.now)
    services = _moved(others, seen, plan)
    if seen.moves(state.now.base, plan):
        # `prepare` contains parts of the present plan, so a proxy that refuses that plan would refuse `prepare`, too.
        changed = seen.changes(state.now.base, plan)
        services |= {client.service for client in seen.clients if not client.has_now and client.service in changed}
    return services


def next_bases(state: RolloutState, seen: Observation) -> tuple[str, ...]:
    """Return the plans from which a newer plan may begin. It begins from the first one from which safe steps lead to
    it."""
    now = state.now
    if now.goal is None or state.back or seen.refusing:
        return (now.base,)
    return (now.base, now.goal) if now.step is STEPS[0] else (now.goal,)


def _moved(holdings: Iterable[Holding], seen: Observation, plan: str) -> frozenset[str]:
    services: set[str] = set()
    for holding in holdings:
        for held in holding.label.plans:
            services |= holding.services & seen.moves(held, plan)
    return frozenset(services)


# ---- what is seen ----


def _observed(state: RolloutState, seen: Observation) -> RolloutState:
    """Return the state after an observation: which labels proxies may have, and which frozen chains they may need."""
    by_service: defaultdict[str, list[Client]] = defaultdict(list)
    for client in seen.clients:
        by_service[client.service].append(client)
    have = frozenset(
        name for name, clients in by_service.items() if all(client.has_now or client.fresh for client in clients)
    )
    older = {Chain(name, chain) for name in have for client in by_service[name] for chain in client.older}
    kept = {chain for chain in state.kept if chain.service in by_service and chain.service not in have}
    # A connection that was made with an earlier label keeps that label in use.
    caught_up = have - {chain.service for chain in older}
    served = frozenset(name for name, clients in by_service.items() if any(client.served for client in clients))
    may_have = []
    for holding in state.may_have:
        services = holding.services.intersection(by_service)
        left = services | served if holding.label == state.now else services - caught_up
        may_have.append(replace(holding, services=left))
    if all(client.has_now for client in seen.clients):
        may_have = [replace(holding, proven=holding.label == state.now) for holding in may_have]
    # While a proxy lacks the present plan, the rollout may return to the plan before, even if no proxy has that now.
    behind = any(not client.has_now or client.older for client in seen.clients)
    needed = {state.now, *state.before[-1:]} if behind else {state.now}
    may_have = [holding for holding in may_have if holding.services or holding.proven or holding.label in needed]
    return replace(state, may_have=tuple(may_have), kept=frozenset(kept | older))


# ---- what is commanded ----


def _commanded(state: RolloutState, seen: Observation, command: Command) -> RolloutState:
    match command.name:
        case CommandName.PLAN:
            return _accept(state, seen, command.plan)
        case CommandName.ABORT:
            return _abort(state, seen)
        case CommandName.CONTINUE:
            return _continue(state, seen)


def _accept(state: RolloutState, seen: Observation, plan: str) -> RolloutState:
    """Queue a plan, unless it is the newest already. So an aborted plan that is read again stays aborted."""
    if plan == state.newest:
        return state
    state = replace(state, queued=plan, aborted=None)
    if state.back and seen.refusing:
        return _turn(state, seen, back=False)  # each newer plan tries the other way
    return state


def _abort(state: RolloutState, seen: Observation) -> RolloutState:
    """Take back the move under way, and let no plan begin that has been accepted so far."""
    newest = state.newest
    if state.now.goal is not None:
        state = replace(state, queued=newest, aborted=newest)
        return state if state.back else _turn(state, seen, back=True)
    returned = _return(state, seen)
    if returned == state and state.queued is None:
        return state
    return replace(returned, queued=newest, aborted=newest)


def _continue(state: RolloutState, seen: Observation) -> RolloutState:
    state = replace(state, aborted=None)
    return _turn(state, seen, back=False) if state.back else state


# ---- where it goes ----


def _move(state: RolloutState, seen: Observation) -> RolloutState:
    first, last = state.now.step is STEPS[0], state.now.step is STEPS[-1]
    if not state.back and _is_left(state, seen):
        return _turn(state, seen, back=True)
    if lacking(state, seen):
        return state
    # Chains change at the first and at the last step of a move. Older connections lack the filters of one plan.
    if (last if state.back else first) and any(client.older for client in seen.concerned):
        return state
    if (first and not state.back and seen.missing) or unclosed(state, seen):
        return state
    return _publish(state, seen, state.now.neighbour(back=state.back))


def _is_left(state: RolloutState, seen: Observation) -> bool:
    """Whether the move is taken back for a newer plan."""
    base, goal, plan = state.now.base, state.now.goal, state.queued
    if plan is None or plan == goal:
        return False
    return bool(seen.refusing) or (state.now.step is STEPS[0] and seen.has_steps(base, plan))


def _turn(state: RolloutState, seen: Observation, *, back: bool) -> RolloutState:
    """Turn the move. If proxies have `now` or the next label in the new direction, that next label is published at
    once, unless it needs destinations to be closed. Forward from `prepare`, it is published at once only if a
    proxy refuses `prepare`; otherwise the wait at `prepare` begins again."""
    state = replace(state, back=back)
    beside = state.now.neighbour(back=back)
    others = (
        holding for holding in state.may_have if holding.label.move == state.now.move and holding.label != state.now
    )
    between = all(
        holding.label == beside or not holding.services & (seen.involved or holding.services) for holding in others
    )
    first = not back and state.now.step is STEPS[0]
    waits = not seen.refusing if first else bool(unclosed(state, seen))
    return _publish(state, seen, beside) if between and not waits else state


def _rest(state: RolloutState, seen: Observation) -> RolloutState:
    plan, base = next_plan(state), state.now.base
    if plan is None:
        return replace(state, queued=None) if state.queued == base != state.aborted else state
    moving = bool(seen.moves(base, plan))
    blocked = blocking(state, seen, plan)
    if blocked & seen.refusing:
        return _return(state, seen)
    if blocked or (moving and unclosed(state, seen)):
        return state
    now = Label(base, plan, STEPS[0], state.moves + 1) if moving else Label(plan)
    return _publish(replace(state, queued=None, moves=state.moves + moving), seen, now)


def _return(state: RolloutState, seen: Observation) -> RolloutState:
    """At rest, publish again the last label that proxies had before, and that is safe beside their present labels."""
    before = [label for label in state.before if _may_return(state, seen, label)]
    return _publish(replace(state, back=True), seen, before[-1]) if before else state


def _may_return(state: RolloutState, seen: Observation, label: Label) -> bool:
    """Whether an earlier label may be published again: its plan moves no destination against the other labels that
    proxies may have. Of the label's own move, proxies have the last step or the goal."""
    others = (
        holding
        for holding in state.may_have
        if holding.label != label and (label.goal is None or not _ends(holding, label))
    )
    return not _moved(others, seen, label.base)


def _ends(holding: Holding, last: Label) -> bool:
    return holding.label == Label(last.goal or "") or holding.label.move == last.move


def _publish(state: RolloutState, seen: Observation, now: Label) -> RolloutState:
    """Return the state with another label published. A label to which the rollout goes back keeps its place in the
    order.
    A new label is the last one; the labels from which the rollout was taken back then come first, because `now` does
    not replace them."""
    clients = {client.service for client in seen.clients}
    chains = {Chain(service, name) for service in clients for name in seen.chains.get(service, ())}
    may_have = _held(state, seen, now)
    labels = [holding.label for holding in may_have]
    if not (state.back and now in labels):
        present = labels.index(state.now) + 1
        own = next((holding for holding in may_have if holding.label == now), Holding(now, NO_SERVICES))
        may_have = [*(holding for holding in (*may_have[present:], *may_have[:present]) if holding.label != now), own]
    return replace(
        state, now=now, back=state.back and now.goal is not None, may_have=tuple(may_have), kept=state.kept | chains
    )


def _held(state: RolloutState, seen: Observation, following: Label) -> list[Holding]:
    """Return the labels that proxies may have when another label follows. At rest, a proxy of a service without an ADM
    only passes connections on, so it does not count while it is away. It counts again if it enforces a policy with the
    following label."""
    changed = NO_SERVICES
    if state.now.goal is None:
        changed = NO_SERVICES.union(*(seen.changes(state.now.base, plan) for plan in following.plans))
    return [
        replace(holding, services=holding.services | changed) if holding.label == state.now else holding
        for holding in state.may_have
    ]
