"""Which program an installation serves (`admc.serve.environment.Programs`): one whose services fit the cluster.

    Programs --oldest--> spec --read--> content --resolve--> Program --follow--> findings --no error--> Source

A program that cannot be read or resolved, or that does not fit, is reported, and the last servable program stays. After
a restart that one comes from the stored plan.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError
from admc.base.unexpected import describe
from admc.compile.facts import FACTS
from admc.compile.pipeline import load_program
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.facts import FactState
from admc.kubernetes.cluster.follow import services_of
from admc.kubernetes.cluster.program import choice, reader
from admc.kubernetes.cluster.program.conditions import finding_text
from admc.kubernetes.cluster.program.content import Content, served_file
from admc.kubernetes.cluster.program.owner import Owner
from admc.kubernetes.cluster.program.spec import Mode as ProgramMode
from admc.kubernetes.cluster.program.spec import check_services
from admc.serve.compiling.source import Source
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.envoy.context import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.kubernetes.cluster.follow import Cluster, Followed
    from admc.kubernetes.cluster.program.reader import ProgramRead
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.serve.file_watch import Signature
    from admc.serve.storage.position import Recipe
    from dsl.program import Program

NAMES: Final = "/spec.services"
"""The path of `spec.services` beside the files of a stored program. No file can have this path."""
LOG: Final = logging.getLogger("admc.cluster")
REFUSED_SHOWN: Final = 3
"""Findings in one line of the log; the status has ten."""
RETRY_SECONDS: Final = 2.0
"""The time between attempts if a ConfigMap is missing, or the API server does not answer."""


class Candidate(NamedTuple):
    """The `Program` of the cluster that is to be served, as it was read."""

    object: ProgramObject
    read: ProgramRead
    followed: Followed | None
    """None if the program has errors."""
    findings: tuple[Diagnostic, ...]
    """The errors because of which the program cannot be followed."""


class ServableProgram(NamedTuple):
    """The last program that could be served."""

    object: ProgramObject | None
    """None if it is the program of the stored plan, and no known `Program` has the same content."""
    content: Content
    followed: Followed


class ClusterPrograms:
    """`Programs` of a cluster. `run` has to run beside it."""

    def __init__(self, cluster: Cluster, effort: float | None) -> None:
        """`current` returns nothing before `restore` was called."""
        self._cluster = cluster
        self._effort = effort
        self._facts = FactState({})
        """The facts that the newest stored plan relies on."""
        self._stored: tuple[tuple[Recipe, Followed], ...] = ()
        """The stored plans that can be read, the newest one first."""
        self.candidate: Candidate | None = None
        """The program of the cluster that is to be served; the status is about it."""
        self.servable: ServableProgram | None = None
        """The last program that could be served."""
        self._earlier: tuple[Followed, ...] = ()
        """The records for programs that proxies may have, the newest one first; then those for earlier servable
        programs."""
        self._known: tuple[tuple[Program, Followed], ...] = ()
        """The last calls of `followed_for`: programs and answers."""
        self._in_force: tuple[object, ...] = ()
        """The programs of the last call of `in_force`: the same programs again change nothing."""
        self.restored = asyncio.Event()
        """Set once the cluster has been read, and `restore` has the stored plans."""
        self._cluster_read = asyncio.Event()
        self._turn = asyncio.Lock()
        self._source: Source | None = None  # the present one
        self._given: Source | None = None  # the one that `current` returned last
        self._compiled: Source | None = None
        """The source that was compiled last, with or without errors."""
        self._changed = asyncio.Event()

    # ---- Programs ----

    async def current(self) -> Source | None:
        await self.restored.wait()
        self._changed.clear()
        self._given = self._source
        return self._given

    def compiled(self, files: Signature) -> None:
        self._compiled = self._given

    async def changed(self) -> None:
        while self._source == self._given:
            await self._changed.wait()
            self._changed.clear()

    # ---- the candidate, and the programs that are followed ----

    @property
    def followed(self) -> tuple[Followed, ...]:
        """The programs whose addresses are published: those in force, the newest one first, and the servable one. A
        candidate that cannot be served concerns no proxy."""
        return tuple(dict.fromkeys((*self._earlier, *self._latest)))

    @property
    def _latest(self) -> tuple[Followed, ...]:
        return () if self.servable is None else (self.servable.followed,)

    def followed_for(self, program: Program) -> Followed:
        """Return the cluster's view of a program that is served. The program stays followed until a call of `in_force`
        leaves it out."""
        for known, followed in self._known:
            if known is program and followed in self.followed:
                return followed
        services = services_of(program)
        same = (followed for followed in (*self._latest, *self._earlier) if services_of(followed.program) == services)
        followed = next(same, None) or self._follow(program)
        self._known = ((program, followed), *self._known[:3])
        return followed

    def _follow(self, program: Program) -> Followed:
        spec = None if self.candidate is None else self.candidate.read.spec
        followed = self._cluster.follow(program, {} if spec is None else spec.services, self._facts)
        self._earlier = (*self._earlier, followed)
        self._cluster.changed.send()
        return followed

    def in_force(self, programs: Sequence[Program], published: Sequence[Program]) -> None:
        """Follow the programs that proxies may have, the newest one first, beside the servable one; forget all others.
        `published` are the programs of which something is published at present."""
        if not programs:
            return  # the programs of the stored plans follow later
        now, last = (*programs, *published, *self._earlier), self._in_force
        if len(now) == len(last) and all(one is other for one, other in zip(now, last, strict=True)):
            return
        kept = tuple(dict.fromkeys(self.followed_for(program) for program in programs))
        before, self._earlier = self.followed, kept
        differs = before != self.followed
        for followed in kept:
            differs |= followed.rest_on_published(published)
        for followed in before:
            if followed not in self.followed:
                self._forget(followed)
        self._in_force = (*programs, *published, *self._earlier)
        if differs:
            self._cluster.changed.send()

    def is_compiled(self, candidate: Candidate) -> bool:
        """Whether the last compile was of this candidate, with any facts."""
        servable, last, source = self.servable, self._compiled, self._source
        if servable is None or servable.followed is not candidate.followed or last is None or source is None:
            return False
        return last._replace(facts=None) == source._replace(facts=None)

    @property
    def owner(self) -> Owner | None:
        """The Program that owns the objects written for the plan in force. None while there is no such Program: the
        cluster removes the objects of a Program that is gone."""
        servable, candidate = self.servable, self.candidate
        there = {program.uid for program in self._cluster.programs.items.values()}
        if servable is not None and servable.object is not None and servable.object.uid in there:
            return Owner(servable.object.name, servable.object.uid)
        if servable is None or candidate is None or self.is_audit or candidate.object.uid not in there:
            return None
        return Owner(candidate.object.name, candidate.object.uid)

    @property
    def mismatches(self) -> tuple[Diagnostic, ...]:
        """Where the cluster does not fit the candidate."""
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
        """Read the candidate whenever something changes, until cancelled."""
        await self._cluster.synced()
        while True:
            changes = self._cluster.programs_changed.next, self._cluster.changed.next
            try:
                async with self._turn:
                    again = await self._refresh()
            except ApiError:
                again = RETRY_SECONDS  # a watch reports it
            self._cluster_read.set()
            await _wait_for_any(changes, again)

    async def restore(self, facts: FactState, stored: Sequence[Recipe]) -> None:
        """Begin with the programs of the stored plans, the newest one first, and the facts that the newest plan relies
        on.

        The newest program is served until the cluster has a candidate that can be served. Programs that were followed
        before are not in force any more.
        """
        recipes = [recipe._replace(endpoints=None) for recipe in stored]
        if recipes != [recipe for recipe, _ in self._stored]:
            self.restored.clear()
        await self._cluster_read.wait()
        async with self._turn:
            self._facts = facts
            before = self.followed
            candidate = None if self.candidate is None else self.candidate.followed
            for followed in (*before, *(() if candidate is None else (candidate,))):
                followed.replace_facts(facts)
            restored = [(recipe, await self._restored(recipe)) for recipe in recipes]
            self._stored = tuple((recipe, followed) for recipe, followed in restored if followed is not None)
            self._earlier = tuple(dict.fromkeys(followed for _, followed in self._stored))
            for followed in before:
                if followed not in self.followed:
                    self._forget(followed)
            self._update_source()
            self.restored.set()
        self._cluster.changed.send()

    async def _restored(self, recipe: Recipe) -> Followed | None:
        """Return the cluster's view of the program of a stored plan; None if the program cannot be read."""
        for known, followed in self._stored:
            if known == recipe:
                return followed
        content, names = _stored(recipe)
        try:
            program = await asyncio.to_thread(_program, recipe.main, content)
        except CommandError:
            return None  # the server says that the stored state cannot be used
        if self.servable is None:
            self.servable = self._as_stored(content, names)
        same = (followed for followed in self.followed if followed.is_for(program, names))
        followed = next(same, None) or self._cluster.follow(program, names, self._facts)
        if self.servable is None:
            self.servable = ServableProgram(None, content, followed)
        return followed

    def _as_stored(self, content: Content, names: Mapping[str, str]) -> ServableProgram | None:
        """Return the candidate if it has the stored content: then it could be served before, even if it does not fit
        any more."""
        candidate = self.candidate
        if candidate is None or candidate.followed is None or candidate.read.content is None:
            return None
        own = candidate.read.content
        is_same = own.main == content.main and all(own.files.get(path) == text for path, text in content.files.items())
        return (
            ServableProgram(candidate.object, own, candidate.followed)
            if is_same and candidate.followed.names == names
            else None
        )

    async def _refresh(self) -> float | None:
        """Read the candidate. Returns after how many seconds to read again if nothing changes."""
        object_ = choice.served(self._cluster.programs.items.values(), self._cluster.controller)
        if object_ is None:
            self._replace_candidate(None)
            return self._update_source()
        candidate = self.candidate
        if candidate is None or not _is_same(candidate, object_):
            before, candidate = candidate, await self._read(object_)
            if candidate.findings and (before is None or before.findings != candidate.findings):
                reasons = [finding_text(item) for item in candidate.findings[:REFUSED_SHOWN]]
                LOG.warning("program_refused", extra={"program": object_.name, "why": reasons})
            self._replace_candidate(candidate)
        elif candidate.object is not object_:
            self.candidate = candidate = candidate._replace(object=object_)  # its status has changed
        self._make_servable(candidate)
        again = self._update_source()
        return min(RETRY_SECONDS, again or RETRY_SECONDS) if candidate.read.waits else again

    async def _read(self, object_: ProgramObject) -> Candidate:
        before = self.candidate
        earlier = None if before is None or before.object.uid != object_.uid else before.read
        read = await reader.read(self._cluster.api, object_, self._cluster.namespace, earlier)
        if read.spec is None or read.content is None:
            return Candidate(object_, read, None, read.findings)
        if before is not None and before.read.spec == read.spec and before.read.content == read.content:
            return before._replace(object=object_, read=read)
        try:
            program = await asyncio.to_thread(_program, read.spec.main, read.content)
        except CommandError as error:
            return Candidate(object_, read, None, error.diagnostics)
        except Exception as error:  # a bug that this program meets would end this server, and the next one
            return Candidate(object_, read, None, (_unexpected(error),))
        if unknown := check_services(read.spec, program.services):
            return Candidate(object_, read, None, unknown)
        servable = self.servable
        facts = self._facts if servable is None else servable.followed.facts
        return Candidate(object_, read, self._cluster.follow(program, read.spec.services, facts), ())

    def _replace_candidate(self, candidate: Candidate | None) -> None:
        before, self.candidate = self.candidate, candidate
        if before is not None and before.followed is not None and before.followed not in self.followed:
            self._forget(before.followed)

    def _forget(self, followed: Followed) -> None:
        if self.candidate is None or self.candidate.followed is not followed:
            self._cluster.forget(followed)

    def _make_servable(self, candidate: Candidate) -> None:
        """Serve the candidate, unless it has errors."""
        followed, content = candidate.followed, candidate.read.content
        if followed is None or content is None or self.is_audit:
            return
        if self.servable is not None and self.servable.followed is followed:
            self.servable = self.servable._replace(object=candidate.object)
            return
        if any(item.severity is Severity.ERROR for item in self.mismatches):
            return
        before, self.servable = self.servable, ServableProgram(candidate.object, content, followed)
        if before is not None:
            self._earlier = tuple(dict.fromkeys((*self._earlier, before.followed)))
        self._cluster.changed.send()  # the addresses of another program are needed

    def _update_source(self) -> float | None:
        """Let `changed` return if the source differs from the last one. Returns in how many seconds facts may change by
        themselves."""
        servable = self.servable
        if servable is None:
            return None
        source = self.source_of(servable.content, servable.followed)
        if source != self._source:
            self._source = source
            self._changed.set()
        due = servable.followed.facts.next_change
        return None if due is None else max(0.0, due - time.monotonic()) + 0.01

    def source_of(self, content: Content, followed: Followed) -> Source:
        return Source(
            Path(content.main),
            Mode.POD,
            self._effort,
            files=content.files,
            facts=followed.facts_document(),
            notes=((NAMES, json.dumps(followed.names, sort_keys=True).encode()),) if followed.names else (),
        )


def _stored(recipe: Recipe) -> tuple[Content, Mapping[str, str]]:
    """Return the program of a stored plan, and the names of its Services."""
    files = {path: content for path, content in recipe.inputs.items() if path not in (FACTS, NAMES)}
    names: Mapping[str, str] = json.loads(recipe.inputs.get(NAMES, b"{}"))
    return Content(served_file(recipe.main, files), files, ""), names


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


def _unexpected(error: Exception) -> Diagnostic:
    return Diagnostic("ADM901", Severity.ERROR, "admc met an unexpected error", None, describe(error))


async def _wait_for_any(events: tuple[asyncio.Event, ...], seconds: float | None) -> None:
    """Wait for one of the events, at most for so many seconds."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
