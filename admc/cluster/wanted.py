"""Which program an installation serves, once its services fit what the cluster has: `admc.serve.environment.Programs`.

    Programs --oldest--> spec --read--> content --resolve--> Program --follow--> findings --none--> Source

A program that cannot be read, resolved or fitted is reported, and the last one that could stays.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.cluster.api.errors import ApiError
from admc.cluster.facts import FactState
from admc.cluster.program import choice, reader
from admc.cluster.program.spec import Mode as ProgramMode
from admc.compile.pipeline import load_program
from admc.exits import CommandError
from admc.serve.build.source import Source
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.envoy.context import Mode

if TYPE_CHECKING:
    from admc.cluster.follow import Cluster, Followed
    from admc.cluster.program.content import Content
    from admc.cluster.program.reader import ProgramRead
    from admc.cluster.program.spec import ProgramObject
    from admc.serve.file_watch import Signature
    from dsl.program import Program

RETRY_SECONDS: Final = 2.0
"""Between attempts where a ConfigMap is missing, or the API server does not answer."""


class Candidate(NamedTuple):
    """A `Program` with what it says."""

    object: ProgramObject
    read: ProgramRead
    followed: Followed | None
    """None: the program has errors."""
    findings: tuple[Diagnostic, ...]
    """Why there is nothing to follow."""


class Adopted(NamedTuple):
    """The program that is wanted."""

    object: ProgramObject
    content: Content
    followed: Followed


class Wanted:
    """`Programs` of a cluster. `run` has to run beside it."""

    def __init__(self, cluster: Cluster, effort: float | None) -> None:
        self._cluster = cluster
        self._effort = effort
        self._facts = FactState({})
        """Those that the stored plan rests on."""
        self.candidate: Candidate | None = None
        """What the cluster asks for; the status is about it."""
        self.adopted: Adopted | None = None
        """The last one that can be served."""
        self._earlier: tuple[Followed, ...] = ()
        """Of programs that were wanted before. The last of them may be in force, as long as the wanted one is not."""
        self.looked = asyncio.Event()
        """The cluster has been looked at once."""
        self._source: Source | None = None
        self._given: Source | None = None
        self._changed = asyncio.Event()

    # ---- Programs ----

    async def current(self) -> Source | None:
        await self.looked.wait()
        self._changed.clear()
        self._given = self._source
        return self._given

    def compiled(self, files: Signature) -> None:
        """Nothing is read from disk."""

    async def changed(self) -> None:
        while self._source == self._given:
            await self._changed.wait()
            self._changed.clear()

    # ---- what the cluster asks for ----

    @property
    def followed(self) -> tuple[Followed, ...]:
        """The programs that addresses are about."""
        found = [each.followed for each in (self.adopted, self.candidate) if each is not None]
        return tuple(dict.fromkeys(each for each in (*found, *self._earlier) if each is not None))

    def about(self, program: Program) -> Followed:
        """What the cluster says about the services of a program. One that is in force stays followed."""
        for each in self.followed:
            if _services(each.program) == _services(program):
                return each
        spec = None if self.candidate is None else self.candidate.read.spec
        names = {} if spec is None else {name: to for name, to in spec.services.items() if name in program.services}
        found = self._cluster.follow(program, names, self._facts)
        self._earlier = (found, *self._earlier)
        self._cluster.changed.send()
        return found

    def rest_on(self, facts: FactState) -> None:
        """The stored plan rests on these facts: this server may be the next one that serves it."""
        self._facts = facts
        for each in self.followed:
            each.rest_on(facts)
        if self._renewed() is not None:
            self._cluster.changed.send()  # `run` looks when they change next

    def in_force(self, program: Program) -> None:
        """The server serves it: what the ones before said is needed no longer."""
        kept = self.about(program)
        if names := kept.selection.rests_on(program):
            kept.update(names)
            self._cluster.changed.send()
        gone, self._earlier = self._earlier, tuple(each for each in self._earlier if each is kept)
        for each in gone:
            if each not in self.followed:
                self._cluster.forget(each)

    @property
    def fitting(self) -> tuple[Diagnostic, ...]:
        """What of the cluster does not fit the candidate."""
        candidate = self.candidate
        if candidate is None or candidate.followed is None:
            return ()
        services = candidate.followed.selection.keys
        claimed = choice.claimed(candidate.object, services, self._cluster.programs.items.values())
        return (*claimed, *candidate.followed.findings)

    @property
    def is_audit(self) -> bool:
        candidate = self.candidate
        return (
            candidate is not None
            and candidate.read.spec is not None
            and (candidate.read.spec.mode is ProgramMode.AUDIT)
        )

    async def run(self) -> None:
        """Look whenever something changes, until cancelled."""
        await self._cluster.synced()
        while True:
            changes = self._cluster.programs_changed.next, self._cluster.changed.next
            try:
                again = await self._look()
            except ApiError:
                again = RETRY_SECONDS  # a watch reports it
            self.looked.set()
            await _any(changes, again)

    async def _look(self) -> float | None:
        """Returns after how many seconds to look again, if nothing changes."""
        object_ = choice.served(self._cluster.programs.items.values(), self._cluster.controller)
        if object_ is None:
            self._replace_candidate(None)
            return self._renewed()
        candidate = self.candidate
        if candidate is None or not _is_same(candidate, object_):
            candidate = await self._read(object_)
            self._replace_candidate(candidate)
        elif candidate.object is not object_:
            self.candidate = candidate = candidate._replace(object=object_)  # its status has changed
        self._adopt(candidate)
        again = self._renewed()
        return min(RETRY_SECONDS, again or RETRY_SECONDS) if candidate.read.waits else again

    async def _read(self, object_: ProgramObject) -> Candidate:
        read = await reader.read(self._cluster.api, object_, self._cluster.namespace)
        if read.spec is None or read.content is None:
            return Candidate(object_, read, None, read.findings)
        before = self.candidate
        if before is not None and before.read.spec == read.spec and before.read.content == read.content:
            return before._replace(object=object_, read=read)
        try:
            program = await asyncio.to_thread(_program, read.spec.main, read.content)
        except CommandError as error:
            return Candidate(object_, read, None, error.diagnostics)
        adopted = self.adopted
        facts = self._facts if adopted is None else adopted.followed.facts
        return Candidate(object_, read, self._cluster.follow(program, read.spec.services, facts), ())

    def _replace_candidate(self, candidate: Candidate | None) -> None:
        before, self.candidate = self.candidate, candidate
        if before is not None and before.followed is not None and before.followed not in self.followed:
            self._cluster.forget(before.followed)

    def _adopt(self, candidate: Candidate) -> None:
        """Want the candidate, unless something of it has errors."""
        followed, content = candidate.followed, candidate.read.content
        if followed is None or content is None or self.is_audit:
            return
        if self.adopted is not None and self.adopted.followed is followed:
            self.adopted = self.adopted._replace(object=candidate.object)
            return
        if any(item.severity is Severity.ERROR for item in self.fitting):
            return
        before, self.adopted = self.adopted, Adopted(candidate.object, content, followed)
        if before is not None and before.followed is not followed:
            self._earlier = (before.followed, *self._earlier)

    def _renewed(self) -> float | None:
        """Hand out another source if something of it differs; returns when facts may differ by themselves."""
        adopted = self.adopted
        if adopted is None:
            return None
        source = self.source_of(adopted.content, adopted.followed)
        if source != self._source:
            self._source = source
            self._changed.set()
        due = adopted.followed.facts.next_change
        return None if due is None else max(0.0, due - time.monotonic()) + 0.01

    def source_of(self, content: Content, followed: Followed) -> Source:
        return Source(Path(content.main), Mode.POD, self._effort, files=content.files, facts=followed.facts_document())


def _services(program: Program) -> dict[str, tuple[str, object]]:
    """By what `Selection` finds pods, and judges their ports."""
    return {name: (service.namespace, service.ports) for name, service in program.services.items()}


def _is_same(candidate: Candidate, object_: ProgramObject) -> bool:
    same = candidate.object.uid == object_.uid and candidate.object.spec == object_.spec
    return same and not candidate.read.waits


def _program(main: str, content: Content) -> Program:
    """Raises `CommandError`."""

    def read(path: str) -> bytes:
        if path not in content.files:
            raise FileNotFoundError(2, "there is no such file")
        return content.files[path]

    return load_program(Path(main), read)


async def _any(events: tuple[asyncio.Event, ...], seconds: float | None) -> None:
    """Wait for one of the events, or for so many seconds."""
    tasks = [asyncio.create_task(each.wait()) for each in events]
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
