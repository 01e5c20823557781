"""Builds the parts that a server needs at its start. A replica that stands by builds them ahead, and keeps them up to
date.

    stored state --StoredPlans--> Plans    a plan with the same digest is not built again
    program --CompileAhead--> Built        a program with the same files is not compiled again
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.serve.compiling.compiled import CompileAhead
from admc.serve.compiling.worker import BuildState
from admc.serve.publication.plans import Plans
from admc.serve.stored_plans import StoredPlans

if TYPE_CHECKING:
    from admc.serve.compiling.source import Source
    from admc.serve.environment import AddressSource
    from admc.serve.storage.position import StoredState
    from admc.serve.stored_plans import Restored


class WarmStart:
    """Two workers, and the plans that the stored state names: as much as a server has in the middle of a rollout. All
    calls belong on the event loop, one after the other."""

    def __init__(self) -> None:
        self.plans = Plans()
        self.stored = StoredPlans(self.plans)
        self.compile = CompileAhead()

    async def prepare(
        self, stored_state: StoredState | None, source: Source | None, addresses: AddressSource
    ) -> Restored | None:
        """Build the parts that a server would need if it began now with this stored state and this source. Returns the
        stored plans. Raises `CommandError` if these cannot be built or the addresses cannot be read, and `WorkerError`
        if the worker of the program fails. Errors in the program are kept as the result of its compile."""
        if source is not None:
            await self.compile.prepare(BuildState(source, (await addresses.current(),), with_recipe=True))
        return None if stored_state is None else await self.stored.build(stored_state, source, addresses)

    async def close(self) -> None:
        await self.stored.close()
        await self.compile.close()
