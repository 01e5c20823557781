"""The active configuration: one state, the identities of its services, and how the next state replaces it.

    StateUpdate --apply--> Rollout --publish--> SnapshotCache --> XdsServer
                           identities ------------------------------^

All calls belong on the server's event loop, and do not block it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, Exit
from admc.serve import file_descriptors
from admc.serve.publication.controller import Rollout
from admc.serve.publication.plans import Planned
from admc.serve.rollout.model import Placed
from xds_server.limits.limits import Limits
from xds_server.resources.cache import SnapshotCache
from xds_server.transport.client import Admission
from xds_server.transport.server import XdsServer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from admc.serve.compiling.snapshots import SnapshotSet
    from admc.serve.compiling.source import State
    from admc.serve.environment import BegunStep, Environment, Identifier
    from admc.serve.observe.problems import Problems
    from admc.serve.publication.plans import Plans
    from admc.serve.storage.position import Position, Recipe
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program
    from xds_server.resources.snapshot import Snapshot
    from xds_server.transport.client import Caller

LOG: Final = logging.getLogger("admc.serve")


class StateUpdate(NamedTuple):
    """The change from the active state to the wanted state."""

    old: State | None
    new: State
    snapshots: SnapshotSet
    """The snapshots of `new`. If only addresses have changed, only those that the change affects."""
    recipe: Recipe | None = None
    """The inputs from which `new` can be built again."""

    @property
    def only_addresses(self) -> bool:
        old = self.old
        return old is not None and old.program is self.new.program and old.placement is self.new.placement


class StateNotSavedError(Exception):
    """The state cannot be stored now. A state that is not stored is not published either, but for the first one: a
    restarted server would not know it."""

    def __init__(self, diagnostics: Iterable[Diagnostic], storage: str) -> None:
        hint = f"the active state stays; the server tries again until it can write to {storage}"
        self.diagnostics = tuple(replace(item, hint=_joined(item.hint, hint)) for item in diagnostics)
        super().__init__("; ".join(item.message for item in self.diagnostics))


def _joined(own: str | None, hint: str) -> str:
    return hint if own is None else f"{own}; {hint}"


@contextlib.contextmanager
def _not_saved_in(storage: str) -> Iterator[None]:
    """Raises `StateNotSavedError` for a `CommandError` after which a later attempt may succeed."""
    try:
        yield
    except CommandError as error:
        if error.exit_code is Exit.NO_PLACEMENT:
            raise
        raise StateNotSavedError(error.diagnostics, storage) from error


class ActiveConfig:
    """The state that is served, and the xDS server that serves it."""

    def __init__(self, environment: Environment, problems: Problems, plans: Plans | None = None) -> None:
        self.environment = environment
        self.problems = problems
        self.store = SnapshotCache()
        limits = Limits(connections=file_descriptors.connections(Limits().connections))
        self.server = XdsServer(self.store, self.identify, limits)
        self.rollout = Rollout(
            self.server,
            self._save_position,
            environment.redirection,
            self._step_failed,
            closing=environment.closing,
            may_publish=environment.may_publish,
            plans=plans,
        )
        self.state: State | None = None
        self.recipe: Recipe | None = None
        """The inputs from which the state can be built again."""
        self.identities: Identifier | None = None
        self.startup_hold = False
        """Whether the stored state of an earlier server waits for the first compile before it is served. It may be
        slightly older than the configuration of proxies, which they keep while they wait."""
        self._identities_lock = asyncio.Lock()

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""
        return bool(self.store.groups) and not self.startup_hold

    @property
    def placed(self) -> tuple[Placed, ...]:
        """All plans of which a proxy may enforce a part; the last one is the newest plan."""
        return self.rollout.placed

    @property
    def published(self) -> tuple[Placed, ...]:
        """The plans of which a part is published now."""
        return self.rollout.published

    @property
    def rollout_text(self) -> str:
        return self.rollout.text

    @property
    def rollout_steps(self) -> Iterable[BegunStep]:
        return self.rollout.steps

    def identify(self, caller: Caller) -> Admission:
        """Return the service of a client. Before there is a program, and during the startup hold, it is the empty name.
        No snapshot exists for that, so the server asks the client to connect again. Raises `DeniedError`."""
        known = None if self.startup_hold else self.identities
        admission = Admission("") if known is None else known.identify(caller)
        self.rollout.publisher.serve(admission.group)
        return admission

    def may_administer(self, caller: Caller) -> bool:
        """Whether a client may read the configuration of every other one."""
        return self.identities is not None and self.identities.may_administer(caller)

    async def reload_identities(self) -> bool:
        """Read the identities of the active program's services again. The server ends the streams of clients whose
        service changes. Returns whether everything in the files is in use.

        A file with errors is reported, and the identities of the last good file stay in use. A name in the file that is
        no service of the active program is such an error. In two states the name may belong to a newer program, which
        is not active; then the rest of the file is used, so that the revocation of an identity does not wait:

            the newer program was rejected        the name is reported, too
            the first compile is not done yet     the name is ignored
        """
        async with self._identities_lock:
            if self.state is None:
                return False  # the first program is applied with its identities
            try:
                self._use_identities(await self._identities(self.state.program, ignore_unknown=self.startup_hold))
            except CommandError as error:
                self.problems.report_if_new("identities", error.diagnostics, error.folder)
                if "program" in self.problems.current:
                    with contextlib.suppress(CommandError):  # the file has other errors, which are reported already
                        self._use_identities(await self._identities(self.state.program, ignore_unknown=True))
                return False
            self.problems.clear("identities")
            return True

    def recheck(self, services: Collection[str]) -> None:
        """End the streams of clients of these services whose admission has changed."""
        self.server.recheck_identities(services)

    async def _identities(self, program: Program, *, ignore_unknown: bool = False) -> Identifier:
        return await self.environment.identities.of(program, ignore_unknown=ignore_unknown)

    def _use_identities(self, identities: Identifier) -> None:
        self.identities = identities
        self.server.recheck_identities()

    def restore(self, state: State, recipe: Recipe | None) -> None:
        """Begin with the state of an earlier server. Nothing is published yet."""
        self.startup_hold = True
        self.state, self.recipe, self.problems.active_version = state, recipe, state.version

    def release_startup_hold(self) -> None:
        """Serve the active state from now on: the first compile is done, or takes too long."""
        self.startup_hold = False

    async def apply(self, update: StateUpdate) -> None:
        """Make a state the active one.

        Raises `SnapshotError` or `CommandError` if that is impossible, and `StateNotSavedError` if a later attempt may
        succeed. After each of these errors the previous state and its identities stay active.

        A program and its identities are applied together: an identities file that does not fit the new program rejects
        the program. `reload_identities` reads the files again at the end, because they may have changed meanwhile.
        """
        fitting = None if update.only_addresses else await self._identities(update.new.program)
        async with contextlib.AsyncExitStack() as announced:
            if not update.only_addresses:
                await self._announce(announced, update)
            storage = self.environment.storage
            with _not_saved_in("the folder" if storage is None else storage.kind):
                await self._start(update)
        self.state, self.recipe, self.problems.active_version = update.new, update.recipe, update.new.version
        self.problems.counts.changed_at = time.time()
        if fitting is not None:
            self.problems.clear("program")
            self.identities = self.identities or fitting
            await self.reload_identities()

    async def _announce(self, announced: contextlib.AsyncExitStack, update: StateUpdate) -> None:
        """Pods that start from now on get what they need of the new plan, too. Raises as `apply` does."""
        plans = (*self.placed, Placed(update.new.program, update.new.placement))
        with _not_saved_in("the cluster"):
            await announced.enter_async_context(self.environment.announced(plans, update.recipe))

    async def _start(self, update: StateUpdate) -> None:
        planned = Planned(update.new, update.recipe, update.snapshots)
        if update.old is not None and update.only_addresses:
            await self.rollout.relocate(planned)
        else:
            await self.rollout.accept(planned)

    @property
    def acknowledged(self) -> dict[str, Snapshot]:
        """Service -> the configuration in force: for each type, the resources that its proxies acknowledged last. A
        service is absent before a proxy has acknowledged a whole snapshot."""
        last_acknowledged = {name: self.store.last_acked(name) for name in self.store.groups}
        return {name: snapshot for name, snapshot in last_acknowledged.items() if snapshot is not None}

    @property
    def refusing(self) -> frozenset[str]:
        """The services of which a proxy refuses the published snapshot."""
        store = self.store
        return frozenset(name for name in store.groups if store.initial(name) is not store.current(name))

    async def _save_position(self, position: Position | None) -> None:
        storage = self.environment.storage
        if storage is not None:
            await asyncio.to_thread(storage.save_as_owner, position, self.acknowledged, self.refusing)

    def _step_failed(self) -> None:
        self.problems.counts.rollout_errors += 1
