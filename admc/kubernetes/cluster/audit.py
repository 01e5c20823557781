"""Mode `Audit`: compiles a program as the server would serve it, and changes nothing.

Source, addresses --Worker--> plan, findings
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from admc.kubernetes.cluster.address_source import document
from admc.serve.compiling.worker import BuildState, Worker, WorkerError
from dsl.diagnostics.diagnostic import Diagnostic, Severity

if TYPE_CHECKING:
    from admc.kubernetes.cluster.follow import Cluster, Followed
    from admc.kubernetes.cluster.program_source import Candidate, ClusterPrograms
    from admc.serve.compiling.source import Source


class Audited(NamedTuple):
    plan: bytes
    adms: frozenset[str]
    facts: bytes | None


class Audit:
    """Compiles the candidate of `ClusterPrograms` while its mode is `Audit`."""

    def __init__(self, cluster: Cluster, programs: ClusterPrograms) -> None:
        self._cluster = cluster
        self._programs = programs
        self._compiled_source: Source | None = None
        self._followed: Followed | None = None
        self._findings: tuple[Diagnostic, ...] = ()
        self.result: Audited | None = None

    def findings_of(self, candidate: Candidate) -> tuple[Diagnostic, ...] | None:
        """Return the findings of the candidate's compile; None until it has been compiled."""
        return self._findings if candidate.followed is not None and candidate.followed is self._followed else None

    async def run(self) -> None:
        """Compile the candidate whenever it changes, until cancelled."""
        await self._programs.restored.wait()
        while True:
            changed = self._cluster.changed.next, self._cluster.programs_changed.next
            await self._compile()
            tasks = [asyncio.create_task(event.wait()) for event in changed]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
            await asyncio.sleep(1.0)  # `ClusterPrograms` reads the candidate first

    async def _compile(self) -> None:
        candidate = self._programs.candidate
        followed = None if candidate is None else candidate.followed
        if not self._programs.is_audit or candidate is None or followed is None or candidate.read.content is None:
            self._compiled_source, self._followed, self.result, self._findings = None, None, None, ()
            return
        source = self._programs.source_of(candidate.read.content, followed)
        if source == self._compiled_source:
            return
        worker = Worker()
        try:
            read, _ = await worker.build(BuildState(source, (document((followed,)),), True))
        except WorkerError as error:
            self._followed, self._findings = followed, (Diagnostic("ADM901", Severity.ERROR, str(error), None),)
            return
        finally:
            await worker.end()
        self._compiled_source, self._followed, self._findings = source, followed, read.findings
        if read.state is None or read.recipe is None:
            self.result = None
        else:
            adms = frozenset(adm.service for adm in read.state.placement.adms)
            self.result = Audited(read.recipe.plan, adms, source.facts)
