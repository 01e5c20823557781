"""Holds the plans of a rollout by digest, computes the differences between two of them, and builds their snapshots.

Label -> {service: Snapshot}, without what older connections need besides
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.compile.pipeline import folder_of
from admc.serve.compiling.snapshots import SnapshotSet, snapshot, snapshots, with_probes
from admc.serve.publication.addresses import changed, during, elsewhere, is_elsewhere, listed
from admc.serve.rollout.diff import Diff, version
from admc.serve.rollout.model import Placed
from admc.serve.rollout.network import relied_on
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.retention import steady_guards
from admc.serve.rollout.rollout_state import STEPS
from admc.serve.rollout.steps import steps
from admc.serve.storage.manifest import plans_of
from dsl.collector import no_collection
from emitters.envoy import passthrough
from emitters.errors import EmitError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.serve.compiling.source import State
    from admc.serve.rollout.model import Step, StepName
    from admc.serve.rollout.retention import Guard
    from admc.serve.rollout.rollout_state import Label
    from admc.serve.storage.position import Position, Recipe
    from emitters.addresses import Addresses
    from xds_server.resources.snapshot import Snapshot


class Planned(NamedTuple):
    """A plan, and the recipe by which a restarted server builds it again."""

    state: State
    recipe: Recipe | None
    groups: SnapshotSet | None = None
    """None: not built yet."""

    @property
    def placed(self) -> Placed:
        return Placed(self.state.program, self.state.placement)

    @property
    def digest(self) -> str:
        return version(self.placed)


class _Change:
    """From one plan to another: what differs between them, and the steps."""

    def __init__(self, old: Placed, new: Placed) -> None:
        diff = Diff(old, new)
        self.moves, self.changes, self.guards = diff.moved, diff.concerned, steady_guards(old, new)
        self.relied_on = relied_on(old, new, diff.moving) if diff.moved else ()
        self.is_safe: bool | None = None
        """Whether safe steps lead to the new plan, or none are needed. None: not known yet."""
        self.emitted: tuple[Addresses, Emitted] | None = None
        """What all steps have in common, at the addresses for which it was made."""
        self._plans = old, new
        self._steps: dict[bytes, Mapping[StepName, Step]] = {}

    def steps(self, key: bytes) -> Mapping[StepName, Step]:
        """The steps, by the key of their markers. Raises `EmitError` where none is safe."""
        if key not in self._steps:
            self._steps = {key: steps(*self._plans, key)}
        return self._steps[key]


class Plans:
    """The plans of a rollout. Reading is safe on the event loop; methods that take seconds belong in a thread."""

    def __init__(self) -> None:
        self._plans: dict[str, Planned] = {}
        self._changes: dict[tuple[str, str], _Change] = {}
        self._with_probes: dict[str, tuple[Snapshot, str, Snapshot]] = {}
        """Service -> its snapshot in the last content, the document of its probes, and the two together."""

    def __getitem__(self, name: str) -> Planned:
        return self._plans[name]

    def __contains__(self, name: str) -> bool:
        return name in self._plans

    def put(self, planned: Planned) -> str:
        """Add a plan, and return its name. A plan that is there already gets the new addresses."""
        name = planned.digest
        if name in self._plans:
            self.relocate(planned)
        self._plans.setdefault(name, planned)
        return name

    @no_collection()
    def restore(self, position: Position, planned: Mapping[str, Planned]) -> None:
        """Take over the plans of a stored position, and compute everything that a publication needs. It may take
        seconds. `planned` has the plans that are missing here or differ. Raises `CommandError`."""
        for name, plan in planned.items():
            if self._plans.get(name) is not plan:
                self.put(plan)
        rollout = position.rollout
        names = plans_of(rollout)
        for name in names:
            self.compare(name)
        self.has_steps(rollout.now.base, rollout.newest)
        self.content(rollout.now, rollout.key)
        self.forget_all_but(names)

    def forget_all_but(self, names: Collection[str]) -> None:
        self._plans = {name: plan for name, plan in self._plans.items() if name in names}
        self._changes = {pair: change for pair, change in self._changes.items() if {*pair} <= self._plans.keys()}

    @no_collection()
    def compare(self, name: str) -> None:
        """Compute the differences between a plan and each other plan. It may take seconds."""
        for other in self._plans:
            self._change(other, name)
            self._change(name, other)

    def _change(self, old: str, new: str) -> _Change:
        if (old, new) not in self._changes:
            self._changes[old, new] = _Change(self._plans[old].placed, self._plans[new].placed)
        return self._changes[old, new]

    def moves(self, old: str, new: str) -> frozenset[str]:
        return self._change(old, new).moves

    def changes(self, old: str, new: str) -> frozenset[str]:
        return self._change(old, new).changes

    def relied_on(self, old: str, new: str) -> tuple[str, ...]:
        """The destinations whose NetworkPolicies have to be in force before the move from one plan to another begins;
        empty if no policy moves."""
        return self._change(old, new).relied_on

    def guards(self, old: str, new: str) -> frozenset[Guard]:
        return self._change(old, new).guards

    @no_collection()
    def step(self, label: Label, key: bytes) -> Step:
        """Return the step of a label. Raises `CommandError` if no step is safe."""
        assert label.goal is not None  # noqa: S101 - the caller looked
        assert label.step is not None  # noqa: S101
        try:
            return self._change(label.base, label.goal).steps(key)[label.step]
        except EmitError as error:
            raise refused(self._plans[label.goal].state, error) from error

    def try_steps(self, label: Label, key: bytes) -> None:
        """Build the steps of a move, if the move needs steps. Raises `CommandError` if no steps are safe."""
        change = self._change(label.base, label.goal or label.base)
        if change.moves:
            change.is_safe = False
            for step in (STEPS[0], STEPS[-1]):
                self.content(replace(label, step=step), key)
        change.is_safe = True

    def has_steps(self, old: str, new: str) -> bool:
        """Whether safe steps lead from one plan to another, or none are needed."""
        change = self._change(old, new)
        if change.is_safe is None:
            try:
                change.is_safe = not change.moves or bool(change.steps(b""))
            except EmitError:
                change.is_safe = False
        return change.is_safe

    def state(self, label: Label) -> State:
        """The state at whose addresses a label is published."""
        base = self._plans[label.base].state
        return base if label.goal is None else during(base, self._plans[label.goal].state)

    @no_collection()
    def content(self, label: Label, key: bytes) -> SnapshotSet:
        """Return the snapshots of a label. A service without an ADM gets the passthrough snapshot, if connections are
        redirected. In a cluster, each has the probes of its pods, too: a pod keeps the probes that ask its ADM for as
        long as it exists, whatever the plan is. Raises `CommandError` if Envoy cannot express the snapshots."""
        snapshots = self._of_adms(label, key)
        if snapshots.passthrough is None:
            return snapshots
        services = (self._plans[name].state.program.services for name in label.plans)
        passed = dict.fromkeys((name for of_program in services for name in of_program), snapshots.passthrough)
        by_service = {**passed, **snapshots.by_service}
        probes = self.state(label).addresses.probes
        answering = {
            name: self._answering(name, by_service.get(name, snapshots.passthrough), document)
            for name, document in probes.items()
        }
        self._with_probes = answering
        by_service |= {name: answered for name, (_, _, answered) in answering.items()}
        return snapshots._replace(by_service=by_service)

    def _answering(self, name: str, own: Snapshot, document: str) -> tuple[Snapshot, str, Snapshot]:
        before = self._with_probes.get(name)
        if before is not None and before[0] is own and before[1] == document:
            return before
        made = with_probes(own, document)
        made.check()
        _ = made.version  # computed here: for 10,000 snapshots it would block the server
        return own, document, made

    def _of_adms(self, label: Label, key: bytes) -> SnapshotSet:
        base = self._made(label.base)
        if label.goal is None:
            return base
        step, state = self.step(label, key), self.state(label)
        made = self._emitted(self._change(label.base, label.goal), step, state).at(step)
        rest = base.by_service
        if not state.source.mode.redirected:
            # Without redirection each program has other addresses, and no two ADMs can listen at one.
            rest = {**rest, **self._made(label.goal).by_service}
        others = {name: item for name, item in rest.items() if name not in step.services}
        return SnapshotSet(others | {name: snapshot(resources) for name, resources in made.items()}, base.passthrough)

    def _emitted(self, change: _Change, step: Step, state: State) -> Emitted:
        """Return the resources that all steps between two plans share. Addresses may change between two steps."""
        if change.emitted is None or change.emitted[0] != state.addresses:
            try:
                emitted = Emitted(step, state.addresses, state.source.mode, only=step.services)
            except EmitError as error:
                raise refused(state, error) from error
            change.emitted = state.addresses, emitted
        return change.emitted[1]

    def _made(self, name: str) -> SnapshotSet:
        planned = self._plans[name]
        if planned.groups is None:
            planned = planned._replace(groups=snapshots(planned.state))
            self._plans[name] = planned
        assert planned.groups is not None  # noqa: S101 - just made
        return planned.groups

    def relocate(self, new: Planned) -> None:
        """Apply the new addresses of a plan to all other plans, too. `new` has the changed snapshots of that plan,
        which may be forgotten already."""
        for name, planned in self._plans.items():
            if name == new.digest:
                made = planned.groups and new.groups and planned.groups.updated(new.groups)
                self._plans[name] = new._replace(groups=made)
            elif is_elsewhere(planned.state, new.state):
                self._plans[name] = _moved(planned, new.state)

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {name: plan.recipe for name, plan in self._plans.items() if plan.recipe is not None}


def _moved(planned: Planned, newer: State) -> Planned:
    state = elsewhere(planned.state, newer)
    made = planned.groups
    if made is not None:
        made = made.updated(changed(planned.state, state))
        if state.source.mode.redirected:
            made = made._replace(passthrough=without_adm(state))
    recipe = planned.recipe
    if recipe is not None:
        recipe = recipe._replace(endpoints=listed(state))  # the newer program may know others
    return Planned(state, recipe, made)


def without_adm(state: State) -> Snapshot | None:
    """The snapshot of a service without an ADM, which passes redirected connections on."""
    if not state.source.mode.redirected:
        return None
    resources = passthrough(state.program, state.addresses, state.source.mode)
    return None if resources is None else snapshot(resources)


def hosts(label: Label, plans: Plans) -> frozenset[str]:
    """The services that have an ADM with a label."""
    named = (plans[name].state.placement for name in label.plans)
    return frozenset(adm.service for placement in named for adm in placement.adms)


def replicas(state: State, name: str) -> int:
    """Return how many proxies a service should have: the number of its known pods, or else of its declared replicas;
    without redirection 1."""
    known = len(state.addresses.replicas(name))
    return known or (state.program.services[name].replicas if state.source.mode.redirected else 1)


def refused(state: State, error: EmitError) -> CommandError:
    return CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder_of(state.source.path))
