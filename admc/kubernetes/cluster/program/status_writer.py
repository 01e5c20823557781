"""Writes the status of a `Program` and its events, if they differ from those in the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.names import GROUP, PROGRAMS, VERSION
from admc.kubernetes.cluster.program.events import Happening, Limiter, event, transitions
from admc.kubernetes.cluster.program.owner import KIND, Owner
from admc.kubernetes.cluster.program.status import Report, status

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.program.spec import ProgramObject

SPACING_SECONDS: Final = 10.0
"""The time between two writes of one status that differ in counts of pods alone: pods come and go all the time."""


class _Written(NamedTuple):
    seen: str
    """The version of the Program that the watch had when this was written."""
    status: Mapping[str, Any]
    at: float


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(eq=False)
class StatusWriter:
    """Writes the status of all Programs of one installation."""

    api: Api
    controller: str
    instance: str
    """This replica, for events."""
    now: Callable[[], datetime] = _now
    clock: Callable[[], float] = time.monotonic
    limiter: Limiter = field(default_factory=Limiter)
    _written: dict[str, _Written] = field(default_factory=dict)

    async def write(self, program: ProgramObject, report: Report) -> bool:
        """Apply the status if it differs, with an event for each transition. Returns whether it was applied: a
        difference in counts of pods alone waits for a while.

        Raises `ApiError`; the caller tries again with a newer report.
        """
        former = self._former(program)
        wanted = status(report, former, self.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        if wanted == former or (self._is_recent(program) and _without_counts(wanted) == _without_counts(former)):
            return False
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND,
            "metadata": {"name": program.name, "uid": program.uid},
            "status": wanted,
        }
        answer = await self.api.apply(f"{PROGRAMS}/{program.name}", body, subresource="status")
        self._written[program.uid] = _Written(program.version, answer.get("status") or {}, self.clock())
        for happening in transitions(former, wanted):
            await self.event(program, happening)
        return True

    async def event(self, program: ProgramObject, happening: Happening) -> None:
        """Write an event, unless there are too many. Raises `ApiError`."""
        if not self.limiter.admits(happening):
            return
        now = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        path, body = event(Owner(program.name, program.uid), happening, self.controller, self.instance, now)
        await self.api.apply(path, body)

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Forget the Programs that are gone. `uids` are those of the Programs that are there."""
        for uid in self._written.keys() - uids:
            del self._written[uid]

    def _is_recent(self, program: ProgramObject) -> bool:
        written = self._written.get(program.uid)
        return written is not None and self.clock() < written.at + SPACING_SECONDS

    def _former(self, program: ProgramObject) -> Mapping[str, Any]:
        """Return the status that the cluster has. The watch may be behind the last write."""
        written = self._written.get(program.uid)
        return written.status if written is not None and written.seen == program.version else program.status


def _without_counts(status: Mapping[str, Any]) -> dict[str, Any]:
    return {**status, "pods": None}
