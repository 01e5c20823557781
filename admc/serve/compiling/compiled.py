"""Holds the result of a compile, together with the worker that has compiled it and that holds the state.

    BuildState --Worker--> Built --addresses--> Built at other addresses

A standby replica compiles before it serves. When it becomes the active server, that server takes over the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.base.exits import CommandError
from admc.serve.compiling.source import digest
from admc.serve.compiling.worker import Worker

if TYPE_CHECKING:
    from admc.serve.compiling.snapshots import SnapshotSet
    from admc.serve.compiling.source import ReadResult, State
    from admc.serve.compiling.worker import BuildState


class Built(NamedTuple):
    worker: Worker
    read: ReadResult
    snapshots: SnapshotSet

    @property
    def state(self) -> State:
        """The state of a compile without errors."""
        assert self.read.state is not None  # noqa: S101 - the caller has checked it
        return self.read.state

    async def at(self, endpoints: bytes) -> Built:
        """Return the result at these addresses. Raises `CommandError` if they do not fit the program, and
        `WorkerError`."""
        if digest(endpoints) == self.state.endpoints_digest:
            return self
        update, changed = await self.worker.update_addresses(endpoints)
        state = update.applied_to(self.state)
        recipe = self.read.recipe and self.read.recipe._replace(endpoints=endpoints)
        read = self.read._replace(state=state, recipe=recipe, unlisted=update.unlisted)
        return self._replace(read=read, snapshots=self.snapshots.updated(changed))


class CompileAhead:
    """The last compile of a standby replica. All calls belong on the event loop, one after the other."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._kept: tuple[BuildState, Built] | None = None
        """What was asked last, and the result, with errors or without."""

    async def prepare(self, request: BuildState) -> None:
        """Compile, unless the result is there. Raises `WorkerError`. After that or a cancellation there is no result. A
        program with errors has one, with its findings."""
        kept, self._kept = self._kept, None
        try:
            if kept is not None and _answers(kept, request):
                built = kept[1]
                built = built if built.read.state is None else await built.at(request.endpoints[0])
            else:
                worker = self._worker = await self.take_worker() or Worker()
                built = Built(worker, *await worker.build(request))
            self._kept = request, built
        except CommandError:
            pass  # the addresses do not fit: the next call compiles at these, and its result says why
        except BaseException:
            await self.close()
            raise

    def take(self, request: BuildState) -> Built | None:
        """Return the result of this compile, if it is there, perhaps at other addresses. The caller then owns it."""
        if self._kept is None or not _answers(self._kept, request):
            return None
        (_, built), self._kept, self._worker = self._kept, None, None
        return built

    async def take_worker(self) -> Worker | None:
        """Return the worker without its result."""
        worker, self._worker, self._kept = self._worker, None, None
        if worker is not None and not worker.alive:
            await worker.end()
            worker = None
        return worker

    async def close(self) -> None:
        worker = await self.take_worker()
        if worker is not None:
            await worker.end()


def _answers(kept: tuple[BuildState, Built], request: BuildState) -> bool:
    """Whether a compile of `request` would have this result, perhaps at other addresses. If the result has errors, the
    addresses have to be equal, because the errors may concern them."""
    before, built = kept
    same = before == request if built.read.state is None else before.source == request.source
    return same and built.worker.alive
