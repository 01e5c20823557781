"""The next state of a rollout, from the present one, an observation and perhaps a command: pure, no clock, no I/O.

    reduce(RolloutState, Observation, Command | None) -> RolloutState

The caller stores the result, and then publishes `now` if it is another. So proxies have what `may_have` says, whenever
the server is killed. The rules:

- A move goes on as soon as every proxy that its step is about has the step; at `prepare` also older connections have to
  be closed, and redirection loaded. No time that passes replaces any of these.
- Back is the same list backwards, at once. After the goal was published it waits once, at `release`, for connections
  that were made at the goal.
- Before receivers enforce less, the destinations have to be closed that the plan closes to which the move goes: between
  `prepare` and `receivers`, and on the way back between `release` and `senders`.
- A newer plan turns a move where a proxy refuses the step, or at `prepare` if safe steps lead to it from the move's
  base; else it waits for the end of the move.
- At rest a plan is published at once if it moves no destination against a plan that a proxy of that destination may
  have. Where it moves something against the present plan only, its move begins. Else it waits until proxies have the
  present plan; and where one of these refuses the present plan, the plan before is published again.
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
    """What arrives from outside: a plan that was accepted, or a word of the operator."""

    name: CommandName
    plan: str = ""


class Client(NamedTuple):
    """A proxy that its source lists, or that is connected."""

    service: str
    served: bool
    """It may have received what is published: since that was published, a stream of its service was open."""
    has_now: bool
    """It acknowledged the version that is published, and its workers have had the time to follow."""
    refuses: bool
    """It refuses the version that is published."""
    fresh: bool = False
    """It had nothing when its stream began, and received nothing since but what is published."""
    is_away: bool = False
    """Its source lists it, and it is not connected."""
    older: frozenset[str] = frozenset()
    """Names of chains that it still subscribes to and that `now` does not have."""
    node: str = ""
    """Its name, if it is connected."""


class Observation(NamedTuple):
    """What can be seen at one moment, of what `now` is."""

    clients: tuple[Client, ...]
    missing: tuple[str, ...]
    """The services whose redirection is not loaded as `now` needs it."""
    moves: Between
    """The services at the ends of the destinations that change at both their ends between two plans."""
    changes: Between
    """The services whose ADM differs between two plans."""
    involved: frozenset[str] | None = None
    """The services that the step is about; None: all."""
    chains: Mapping[str, frozenset[str]] = MappingProxyType({})
    """Service -> names of the chains in what is published."""
    has_steps: Callable[[str, str], bool] = lambda old, new: True
    """Whether safe steps lead from one plan to another, or none are needed."""
    unclosed: tuple[str, ...] = ()
    """The destinations that the step relies on (`Step.relies_on`) and that are not known to be closed."""

    @property
    def concerned(self) -> tuple[Client, ...]:
        """The proxies that the step is about."""
        return tuple(client for client in self.clients if self.involved is None or client.service in self.involved)

    @property
    def refusing(self) -> frozenset[str]:
        return frozenset(client.service for client in self.concerned if client.refuses)


def reduce(state: RolloutState, seen: Observation, command: Command | None = None) -> RolloutState:
    """The next state. Apply it until nothing changes: each call publishes one label at most."""
    state = _observed(state, seen)
    if command is not None:
        return _commanded(state, seen, command)
    return _rest(state, seen) if state.now.goal is None else _move(state, seen)


def lacking(state: RolloutState, seen: Observation) -> tuple[Client, ...]:
    """The proxies without which a move does not go on. The way back does not need a proxy that has just started and
    refuses the step: what it has is of this step alone."""
    return tuple(client for client in seen.concerned if not (client.has_now or (state.back and client.fresh)))


def unclosed(state: RolloutState, seen: Observation) -> tuple[str, ...]:
    """The destinations that have to be closed before a move goes on: those of the plan to which it goes."""
    return seen.unclosed if state.back == (state.now.step in STEPS[2:]) else ()


def blocking(state: RolloutState, seen: Observation, plan: str) -> frozenset[str]:
    """The services that keep a plan from beginning, at rest. Some proxy of theirs, or an older connection through it,
    may have another plan than the present one, against which a destination of the service moves. Or a move changes
    their ADM, and some proxy of theirs does not have the present plan."""
    others = (holding for holding in state.may_have if holding.label != state.now)
    services = _moved(others, seen, plan)
    if seen.moves(state.now.base, plan):
        # `prepare` has parts of the present plan. A proxy that refuses that would refuse `prepare`, too.
        changed = seen.changes(state.now.base, plan)
        services |= {client.service for client in seen.clients if not client.has_now and client.service in changed}
    return services


def next_bases(state: RolloutState, seen: Observation) -> tuple[str, ...]:
    """The plans from which a newer plan may begin: the first of these from which safe steps lead to it."""
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
    """What proxies may have, and which frozen chains they may need, after an observation."""
    by_service: defaultdict[str, list[Client]] = defaultdict(list)
    for client in seen.clients:
        by_service[client.service].append(client)
    have = frozenset(
        name for name, clients in by_service.items() if all(client.has_now or client.fresh for client in clients)
    )
    older = {Chain(name, chain) for name in have for client in by_service[name] for chain in client.older}
    kept = {chain for chain in state.kept if chain.service in by_service and chain.service not in have}
    # A connection that was made with an earlier label holds it as its proxy did.
    caught_up = have - {chain.service for chain in older}
    served = frozenset(name for name, clients in by_service.items() if any(client.served for client in clients))
    may_have = []
    for holding in state.may_have:
        services = holding.services.intersection(by_service)
        left = services | served if holding.label == state.now else services - caught_up
        may_have.append(replace(holding, services=left))
    if all(client.has_now for client in seen.clients):
        may_have = [replace(holding, proven=holding.label == state.now) for holding in may_have]
    # As long as a proxy lacks the present plan, the plan before is one to return to, though no proxy has it now.
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
    """Queue a plan, unless it is the newest already: an aborted one that is read again stays aborted."""
    if plan == state.newest:
        return state
    state = replace(state, queued=plan, aborted=None)
    if state.back and seen.refusing:
        return _turn(state, seen, back=False)  # each newer plan tries the other way
    return state


def _abort(state: RolloutState, seen: Observation) -> RolloutState:
    """Take back what is under way, and let no plan begin that was accepted so far."""
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
    # Chains change where a move begins and where it ends. Connections that are older lack filters of one plan.
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
    """Go the other way. If proxies have `now` or the label on that side of it, that label is published at once, unless
    it needs destinations to be closed. Forward from `prepare` it is only if a proxy refuses `prepare`: else the wait
    there begins again."""
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
    plan, base = state.queued, state.now.base
    if plan is None or plan == state.aborted:
        return state
    if plan == base:
        return replace(state, queued=None)
    moving = bool(seen.moves(base, plan))
    blocked = blocking(state, seen, plan)
    if blocked & seen.refusing:
        return _return(state, seen)
    if blocked:
        return state
    now = Label(base, plan, STEPS[0], state.moves + 1) if moving else Label(plan)
    return _publish(replace(state, queued=None, moves=state.moves + moving), seen, now)


def _return(state: RolloutState, seen: Observation) -> RolloutState:
    """At rest: publish the last label again that proxies had before, and that is safe beside what they have."""
    before = [label for label in state.before if _may_return(state, seen, label)]
    return _publish(replace(state, back=True), seen, before[-1]) if before else state


def _may_return(state: RolloutState, seen: Observation, label: Label) -> bool:
    """Whether a label from before may be published again: what it enforces moves nothing against what else proxies may
    have. Of its own move they have the last step or the goal."""
    others = (
        holding
        for holding in state.may_have
        if holding.label != label and (label.goal is None or not _ends(holding, label))
    )
    return not _moved(others, seen, label.base)


def _ends(holding: Holding, last: Label) -> bool:
    return holding.label == Label(last.goal or "") or holding.label.move == last.move


def _publish(state: RolloutState, seen: Observation, now: Label) -> RolloutState:
    """Another label. Where the rollout goes back to a label, that keeps its place in the order. Else it is the last
    one, and what the rollout was taken back from comes first: it is not what `now` replaces."""
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
    """What proxies may have when another label follows. At rest, a proxy of a service without an ADM passes connections
    on, and does not count while it is away. It counts if it enforces something with the following label."""
    changed = NO_SERVICES
    if state.now.goal is None:
        changed = NO_SERVICES.union(*(seen.changes(state.now.base, plan) for plan in following.plans))
    return [
        replace(holding, services=holding.services | changed) if holding.label == state.now else holding
        for holding in state.may_have
    ]
