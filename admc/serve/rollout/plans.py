"""The plans that a rollout names, by digest: what differs between two of them, and what each publishes.

Label -> {service: Snapshot}, without what older connections need besides
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.compile.pipeline import folder_of
from admc.exits import CommandError, Exit
from admc.rollout.diff import Diff, version
from admc.rollout.model import Placed
from admc.rollout.resources import Emitted
from admc.rollout.retention import steady_guards
from admc.rollout.rollout_state import STEPS
from admc.rollout.steps import steps
from admc.serve.build.snapshots import SnapshotSet, snapshot, snapshots
from admc.serve.rollout.addresses import changed, during, elsewhere, is_elsewhere, listed
from dsl.collector import no_collection
from emitters.envoy import Mode, passthrough
from emitters.errors import EmitError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.rollout.model import Step, StepName
    from admc.rollout.retention import Guard
    from admc.rollout.rollout_state import Label
    from admc.serve.build.source import State
    from admc.serve.state_dir.store import Recipe
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


class _Between(NamedTuple):
    """What differs between two plans."""

    moves: frozenset[str]
    changes: frozenset[str]
    guards: frozenset[Guard]


class _Steps(NamedTuple):
    """What all steps between two plans have in common, at some addresses."""

    addresses: Addresses
    emitted: Emitted


class Plans:
    """Safe to read on the event loop; what takes its time belongs in a thread."""

    def __init__(self) -> None:
        self._plans: dict[str, Planned] = {}
        self._between: dict[tuple[str, str], _Between] = {}
        self._steps: dict[tuple[str, str, bytes], Mapping[StepName, Step]] = {}
        self._emitted: dict[tuple[str, str], _Steps] = {}
        self._safe: dict[tuple[str, str], bool] = {}

    def __getitem__(self, name: str) -> Planned:
        return self._plans[name]

    def __contains__(self, name: str) -> bool:
        return name in self._plans

    def put(self, planned: Planned) -> str:
        name = planned.digest
        self._plans[name] = planned
        return name

    def forget_all_but(self, names: Collection[str]) -> None:
        self._plans = {name: plan for name, plan in self._plans.items() if name in names}
        self._between = {pair: each for pair, each in self._between.items() if {*pair} <= self._plans.keys()}
        self._steps = {key: each for key, each in self._steps.items() if {*key[:2]} <= self._plans.keys()}
        self._emitted = {pair: each for pair, each in self._emitted.items() if {*pair} <= self._plans.keys()}
        self._safe = {pair: each for pair, each in self._safe.items() if {*pair} <= self._plans.keys()}

    @no_collection()
    def compare(self, name: str) -> None:
        """Find what differs between a plan and each other one. It may take seconds."""
        for other in self._plans:
            self._compare(other, name)
            self._compare(name, other)

    def _compare(self, old: str, new: str) -> _Between:
        if (old, new) not in self._between:
            pair = self._plans[old].placed, self._plans[new].placed
            diff = Diff(*pair)
            self._between[old, new] = _Between(diff.moved, diff.concerned, steady_guards(*pair))
        return self._between[old, new]

    def moves(self, old: str, new: str) -> frozenset[str]:
        return self._compare(old, new).moves

    def changes(self, old: str, new: str) -> frozenset[str]:
        return self._compare(old, new).changes

    def guards(self, old: str, new: str) -> frozenset[Guard]:
        return self._compare(old, new).guards

    @no_collection()
    def step(self, label: Label, key: bytes) -> Step:
        """Raises `CommandError` where no step is safe."""
        assert label.goal is not None  # noqa: S101 - the caller looked
        assert label.step is not None  # noqa: S101
        at = (label.base, label.goal, key)
        if at not in self._steps:
            old, new = self._plans[label.base], self._plans[label.goal]
            try:
                self._steps[at] = steps(old.placed, new.placed, key)
            except EmitError as error:
                raise refused(new.state, error) from error
        return self._steps[at][label.step]

    def try_steps(self, label: Label, key: bytes) -> None:
        """Build the steps of a move, if one is needed. Raises `CommandError` where none are safe."""
        if label.goal is None or not self.moves(label.base, label.goal):
            return
        pair = label.base, label.goal
        try:
            for step in (STEPS[0], STEPS[-1]):
                self.content(label._replace(step=step), key)
        except CommandError:
            self._safe[pair] = False
            raise
        self._safe[pair] = True

    def has_steps(self, old: str, new: str) -> bool:
        """Whether safe steps lead from one plan to another, or none are needed."""
        if (old, new) not in self._safe:
            try:
                if self.moves(old, new):
                    steps(self._plans[old].placed, self._plans[new].placed, b"")
                self._safe[old, new] = True
            except EmitError:
                self._safe[old, new] = False
        return self._safe[old, new]

    def state(self, label: Label) -> State:
        """The state at whose addresses a label is published."""
        base = self._plans[label.base].state
        return base if label.goal is None else during(base, self._plans[label.goal].state)

    @no_collection()
    def content(self, label: Label, key: bytes) -> SnapshotSet:
        """The snapshots of a label. A service of its programs without an ADM gets the passthrough snapshot. Raises
        `CommandError` if Envoy cannot express them."""
        found = self._of_adms(label, key)
        if found.passthrough is None:
            return found
        services = (self._plans[name].state.program.services for name in label.plans)
        passed = dict.fromkeys((name for each in services for name in each), found.passthrough)
        return found._replace(by_service={**passed, **found.by_service})

    def _of_adms(self, label: Label, key: bytes) -> SnapshotSet:
        base = self._made(label.base)
        if label.goal is None:
            self._emitted.clear()
            return base
        step, state = self.step(label, key), self.state(label)
        made = self._emit(label.base, label.goal, step, state).at(step)
        rest = base.by_service
        if state.source.mode is Mode.EXPLICIT:
            # Without redirection each program has other addresses, and no two ADMs can listen at one.
            rest = {**rest, **self._made(label.goal).by_service}
        others = {name: item for name, item in rest.items() if name not in step.services}
        return SnapshotSet(others | {name: snapshot(each) for name, each in made.items()}, base.passthrough)

    def _emit(self, old: str, new: str, step: Step, state: State) -> Emitted:
        """What all steps between two plans have in common. Addresses may change between two steps."""
        found = self._emitted.get((old, new))
        if found is None or found.addresses != state.addresses:
            try:
                emitted = Emitted(step, state.addresses, state.source.mode, only=step.services)
            except EmitError as error:
                raise refused(state, error) from error
            found = self._emitted[old, new] = _Steps(state.addresses, emitted)
        return found.emitted

    def _made(self, name: str) -> SnapshotSet:
        planned = self._plans[name]
        if planned.groups is None:
            planned = planned._replace(groups=snapshots(planned.state))
            self._plans[name] = planned
        assert planned.groups is not None  # noqa: S101 - just made
        return planned.groups

    def relocate(self, name: str, new: Planned) -> None:
        """Other addresses came with a plan: they hold for the others, too. `new` has what they change of that plan."""
        before = self._plans[name]
        made = before.groups
        if made is not None and new.groups is not None:
            made = SnapshotSet({**made.by_service, **new.groups.by_service}, new.groups.passthrough or made.passthrough)
        self._plans[name] = new._replace(groups=made)
        for other, planned in self._plans.items():
            if other != name and is_elsewhere(planned.state, new.state):
                self._plans[other] = _moved(planned, new.state)

    @property
    def recipes(self) -> dict[str, Recipe]:
        return {name: plan.recipe for name, plan in self._plans.items() if plan.recipe is not None}


def _moved(planned: Planned, newer: State) -> Planned:
    state = elsewhere(planned.state, newer)
    made = planned.groups
    if made is not None:
        different = changed(planned.state, state)
        made = SnapshotSet({**made.by_service, **different.by_service}, different.passthrough or made.passthrough)
        if state.source.mode is Mode.REDIRECT:
            made = made._replace(passthrough=without_adm(state))
    recipe = planned.recipe
    if recipe is not None:
        recipe = recipe._replace(endpoints=listed(state))  # the newer program may know others
    return Planned(state, recipe, made)


def without_adm(state: State) -> Snapshot | None:
    """The snapshot of a service without an ADM, which passes redirected connections on."""
    if state.source.mode is not Mode.REDIRECT:
        return None
    found = passthrough(state.program, state.addresses)
    return None if found is None else snapshot(found)


def hosts(label: Label, plans: Plans) -> frozenset[str]:
    """The services that have an ADM with a label."""
    named = (plans[name].state.placement for name in label.plans)
    return frozenset(adm.service for placement in named for adm in placement.adms)


def replicas(state: State, name: str) -> int:
    """How many proxies a service has to have: those that are known to run, or else those that are declared."""
    known = len(state.addresses.replicas(name))
    service = state.program.services.get(name)
    if service is None:
        return 0  # the newer program dropped it: its proxies are not let in any more
    return known or (1 if state.source.mode is Mode.EXPLICIT else service.replicas)


def refused(state: State, error: EmitError) -> CommandError:
    return CommandError(Exit.NO_PLACEMENT, error.diagnostics, folder_of(state.source.path))
