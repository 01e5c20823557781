"""From two states to steps, and from a step to what proxies are told: the part of a transition that takes its time.

old, new --walked--> [Step, ...]      step + state --told--> {service: Snapshot}
                                      step + two states --where--> State
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.compile.pipeline import folder_of
from admc.exits import CommandError, Exit
from admc.serve.build.snapshots import snapshot
from admc.serve.rollout.addresses import during
from admc.transition.model import Phase
from admc.transition.resources import resources
from admc.transition.steps import steps
from dsl.collector import no_collection
from emitters.envoy import Mode, passthrough
from emitters.errors import EmitError

if TYPE_CHECKING:
    from admc.serve.build.source import State
    from admc.serve.rollout.underway import Planned
    from admc.transition.model import Step
    from xds_server.resources.snapshot import Snapshot


@no_collection()
def walked(old: Planned, new: Planned, key: bytes, undone: frozenset[str] = frozenset()) -> tuple[Step, ...]:
    """The steps to a new plan, each of which was tried. Raises `CommandError`: then the last good state stays, rather
    than a gap."""
    try:
        made = steps(old.placed, new.placed, key, undone)
    except EmitError as error:
        raise _refused(new.state, error) from error
    tried: set[tuple[str, int]] = set()
    for step in made:
        # Steps that differ in route tables only are emitted from the same.
        fresh = {name: id(step.parts[name].placed) for name in step.awaits}
        untried = frozenset(name for name, placed in fresh.items() if (name, placed) not in tried)
        told(step, where(step, old.state, new.state), untried)
        tried.update(fresh.items())
    return made


def where(step: Step, old: State, new: State) -> State:
    """The state at whose addresses a step is told."""
    return new if step.phase in (Phase.FINAL, Phase.CLEAN) else during(old, new)


@no_collection()
def told(step: Step, state: State, only: frozenset[str]) -> dict[str, Snapshot]:
    """What some services have in a step. Raises `CommandError`."""
    try:
        found = resources(step, state.addresses, state.source.mode, only=only)
    except EmitError as error:
        raise _refused(state, error) from error
    return {service: snapshot(each) for service, each in found.items()}


def _refused(state: State, error: EmitError) -> CommandError:
    return CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder_of(state.source.path))


def passing(state: State) -> Snapshot | None:
    """What a service has that has no ADM: its redirected connections pass."""
    if state.source.mode is not Mode.REDIRECT:
        return None
    found = passthrough(state.program, state.addresses)
    return None if found is None else snapshot(found)


def replicas(state: State, name: str) -> int:
    """How many proxies a service has to have: those that are known to run, or else those that are declared."""
    known = len(state.addresses.replicas(name))
    service = state.program.services.get(name)
    return known or (1 if service is None or state.source.mode is Mode.EXPLICIT else service.replicas)
