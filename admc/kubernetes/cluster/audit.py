"""Mode `Audit`: compiles a program as the server would serve it, and changes nothing.

Source, addresses --Worker--> plan, findings
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.kubernetes.cluster.core.step import wanted_of
from admc.serve.compiling.worker import BuildState, Worker, WorkerError
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from admc.kubernetes.cluster.core.state import Candidate
    from admc.kubernetes.cluster.program_source import ClusterPrograms
    from admc.serve.compiling.source import Source


LOOK_SECONDS: Final = 1.0
"""How long changes are collected before the next compile."""
AGAIN_SECONDS: Final = 10.0
"""The least time to the next compile if a worker failed."""


class Audited(NamedTuple):
    plan: bytes
    adms: frozenset[str]
    facts: bytes | None


class Audit:
    """Compiles the candidate of `ClusterPrograms` while its mode is `Audit`."""

    def __init__(self, programs: ClusterPrograms) -> None:
        self._programs = programs
        self._compiled_source: Source | None = None
        self._followed: int | None = None
        """The number of the candidate's `FollowedProgram`."""
        self._findings: tuple[Diagnostic, ...] = ()
        self.result: Audited | None = None

    def findings_of(self, candidate: Candidate) -> tuple[Diagnostic, ...] | None:
        """Return the findings of the candidate's compile; None until it has been compiled."""
        return self._findings if candidate.followed is not None and candidate.followed == self._followed else None

    async def run(self) -> None:
        """Compile the candidate whenever it changes, until cancelled."""
        await self._programs.restored.wait()
        while True:
            stepped = self._programs.stepped.next
            has_failed = await self._compile()
            await stepped.wait()
            await asyncio.sleep(AGAIN_SECONDS if has_failed else LOOK_SECONDS)

    async def _compile(self) -> bool:
        """Compile the candidate if it differs from the last one. Returns whether the worker failed."""
        state = self._programs.state
        candidate, program = state.candidate, state.of_candidate
        if candidate is None or not candidate.is_audit or program is None or candidate.read.content is None:
            self._compiled_source, self._followed, self.result, self._findings = None, None, None, ()
            return False
        source = self._programs.source_of(wanted_of(candidate.read.content, program))
        if source == self._compiled_source:
            return False
        worker = Worker()
        try:
            read, _ = await worker.build(BuildState(source, (program.endpoints.document,), True))
        except WorkerError as error:
            self._followed, self._findings = program.number, (Diagnostic("ADM901", Severity.ERROR, str(error), None),)
            return True
        finally:
            await worker.end()
        self._compiled_source, self._followed, self._findings = source, program.number, read.findings
        if read.state is None or read.recipe is None:
            self.result = None
        else:
            adms = frozenset(adm.service for adm in read.state.placement.adms)
            self.result = Audited(read.recipe.plan, adms, source.facts)
        return False
