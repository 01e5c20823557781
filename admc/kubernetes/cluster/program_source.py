"""Which program an installation serves, once its services fit what the cluster has: `admc.serve.environment.Programs`.

    Programs --oldest--> spec --read--> content --resolve--> Program --follow--> findings --none--> Source

A program that cannot be read, resolved or fitted is reported, and the last one that could stays: also after a restart,
which has it from the stored plan.
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
"""Of `spec.services` beside the files of a stored program: a path that no file can have."""
LOG: Final = logging.getLogger("admc.cluster")
REFUSED_SHOWN: Final = 3
"""Findings in one line of the log; the status has ten."""
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


class ServableProgram(NamedTuple):
    """The program that is wanted."""

    object: ProgramObject | None
    """None: it is the one of the stored plan, and no `Program` is known to say the same."""
    content: Content
    followed: Followed


class ClusterPrograms:
    """`Programs` of a cluster. `run` has to run beside it."""

    def __init__(self, cluster: Cluster, effort: float | None) -> None:
        """Nothing is given out before `restore`."""
        self._cluster = cluster
        self._effort = effort
        self._facts = FactState({})
        """Those that the newest stored plan rests on."""
        self._stored: tuple[tuple[Recipe, Followed], ...] = ()
        """The stored plans that can be read, the newest one first."""
        self.candidate: Candidate | None = None
        """What the cluster asks for; the status is about it."""
        self.servable: ServableProgram | None = None
        """The last one that can be served."""
        self._earlier: tuple[Followed, ...] = ()
        """Of programs of which proxies may have something, the newest one first; then of those wanted before."""
        self._known: tuple[tuple[Program, Followed], ...] = ()
        """What `about` found last."""
        self._in_force: tuple[object, ...] = ()
        """The objects of the last look at what is in force."""
        self.restored = asyncio.Event()
        """The cluster has been looked at, and the stored plans are known."""
        self._cluster_read = asyncio.Event()
        self._turn = asyncio.Lock()
        self._source: Source | None = None
        self._given: Source | None = None
        self._compiled: Source | None = None
        """What was compiled last, with whatever result."""
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

    # ---- what the cluster asks for ----

    @property
    def followed(self) -> tuple[Followed, ...]:
        """The programs that addresses are about: those in force, the newest one first, and the wanted one. One that is
        only asked for, and cannot be served, concerns no proxy."""
        return tuple(dict.fromkeys((*self._earlier, *self._latest)))

    @property
    def _latest(self) -> tuple[Followed, ...]:
        return () if self.servable is None else (self.servable.followed,)

    def followed_for(self, program: Program) -> Followed:
        """What the cluster says about the services of a program that is served. It stays followed until `in_force`."""
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
        """Of these programs, the newest one first, proxies may have something: what others said is needed no longer.
        `published`: those of which something is published now."""
        if not programs:
            return  # those of the stored plans are yet to come
        now, last = (*programs, *published, *self._earlier), self._in_force
        if len(now) == len(last) and all(one is other for one, other in zip(now, last, strict=True)):
            return
        kept = tuple(dict.fromkeys(self.followed_for(program) for program in programs))
        before, self._earlier = self.followed, kept
        differs = before != self.followed
        for followed in kept:
            if names := followed.selection.set_published(published):
                followed.update(names)
                differs = True
        for followed in before:
            if followed not in self.followed:
                self._forget(followed)
        self._in_force = (*programs, *published, *self._earlier)
        if differs:
            self._cluster.changed.send()

    def is_compiled(self, candidate: Candidate) -> bool:
        """Whether the last compile was of this candidate, with whatever facts."""
        servable, last, source = self.servable, self._compiled, self._source
        if servable is None or servable.followed is not candidate.followed or last is None or source is None:
            return False
        return last._replace(facts=None) == source._replace(facts=None)

    @property
    def owner(self) -> Owner | None:
        """The Program that owns what is written for the plan in force; None while there is none: what a Program that is
        gone owns is removed by the cluster."""
        servable, candidate = self.servable, self.candidate
        there = {program.uid for program in self._cluster.programs.items.values()}
        if servable is not None and servable.object is not None and servable.object.uid in there:
            return Owner(servable.object.name, servable.object.uid)
        if servable is None or candidate is None or self.is_audit or candidate.object.uid not in there:
            return None
        return Owner(candidate.object.name, candidate.object.uid)

    @property
    def mismatches(self) -> tuple[Diagnostic, ...]:
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
                async with self._turn:
                    again = await self._look()
            except ApiError:
                again = RETRY_SECONDS  # a watch reports it
            self._cluster_read.set()
            await _any(changes, again)

    async def restore(self, facts: FactState, stored: Sequence[Recipe]) -> None:
        """Begin with the programs of the stored plans, the newest one first, and the facts that it rests on. The newest
        one is wanted as long as the cluster asks for none that can be served. Of others nothing is in force."""
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
            self._renewed()
            self.restored.set()
        self._cluster.changed.send()

    async def _restored(self, recipe: Recipe) -> Followed | None:
        """What the cluster says about the program of a stored plan; None where the program cannot be read."""
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
        """The candidate, if it says what is stored: then it was adopted before, whatever does not fit by now."""
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

    async def _look(self) -> float | None:
        """Returns after how many seconds to look again, if nothing changes."""
        object_ = choice.served(self._cluster.programs.items.values(), self._cluster.controller)
        if object_ is None:
            self._replace_candidate(None)
            return self._renewed()
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
        again = self._renewed()
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
        except Exception as error:  # a bug that this program meets must not end the server: it would, again and again
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
        """Want the candidate, unless something of it has errors."""
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
        self._cluster.changed.send()  # addresses are about another program, too

    def _renewed(self) -> float | None:
        """Hand out another source if something of it differs; returns when facts may differ by themselves."""
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
    """The program of a stored plan, and the names of its Services."""
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


async def _any(events: tuple[asyncio.Event, ...], seconds: float | None) -> None:
    """Wait for one of the events, or for so many seconds."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
