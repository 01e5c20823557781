"""Which program an installation serves (`admc.serve.environment.Programs`): calls `step` of `core`, and carries out the
outputs.

    Cluster --Change--> step --to_read--> API server --ProgramReading--> step --wanted--> Source
                             --addresses, owner--> server

The decisions are those of `step`. This module reads Programs and stored plans, keeps the last state and outputs, and
wakes the tasks that depend on them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from admc.base.exits import CommandError
from admc.base.unexpected import describe
from admc.compile.facts import FACTS
from admc.compile.pipeline import load_program
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.core.mismatches import labels_without_effect
from admc.kubernetes.cluster.core.selection import selection_of
from admc.kubernetes.cluster.core.state import (
    InForce,
    Inputs,
    Outputs,
    ProgramReading,
    State,
    Stored,
    StoredProgram,
    Wanted,
)
from admc.kubernetes.cluster.core.step import mismatches, names_of_candidate, number_for, step
from admc.kubernetes.cluster.follow import Signal, wait_for_any
from admc.kubernetes.cluster.program import reader
from admc.kubernetes.cluster.program.conditions import finding_text
from admc.kubernetes.cluster.program.content import Content, served_file
from admc.kubernetes.cluster.program.spec import check_services
from admc.serve.compiling.source import Source
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from emitters.envoy.context import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.kubernetes.cluster.core.facts import FactState
    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.core.state import Candidate
    from admc.kubernetes.cluster.follow import Cluster
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
"""The time until a Program is read again if the API server does not answer."""
GATHER_SECONDS: Final = 0.05
"""How long changes are collected before the next step: ten pods that start at once are one change of addresses."""


class ClusterPrograms:
    """`Programs` of a cluster. `run` has to run beside it."""

    def __init__(self, cluster: Cluster, effort: float | None) -> None:
        """`current` waits until `restore` was called."""
        self._cluster = cluster
        self._effort = effort
        self.state = State()
        self.outputs = Outputs()
        """The state and the outputs of the last step."""
        self.stepped = Signal()
        """Sent after each step."""
        self._reading: ProgramReading | None = None
        self._stored: Stored | None = None
        self._in_force = InForce()
        """The inputs of the next step, besides the change of the picture."""
        self._deadline: float | None = None
        self.restored = asyncio.Event()
        """Set once the cluster has been read, and `restore` has the stored plans."""
        self._is_read = asyncio.Event()
        """Set once the Program has been read, or cannot be read."""
        self._restoring = asyncio.Lock()
        self._given: Wanted | None = None
        self._given_number: int | None = None
        """The program that `current` returned last, and the number of its `FollowedProgram`."""
        self._compiled: Wanted | None = None
        """The program that was compiled last, with or without errors."""

    # ---- Programs ----

    async def current(self) -> Source | None:
        await self.restored.wait()
        servable = self.state.servable
        wanted = self.outputs.wanted
        self._given, self._given_number = wanted, None if servable is None else servable.followed
        self.stepped.send()  # `in_force` is called again, before the program can come into force
        return None if wanted is None else self.source_of(wanted)

    def compiled(self, files: Signature) -> None:
        self._compiled = self._given

    async def changed(self) -> None:
        while True:
            stepped = self.stepped.next
            if self.restored.is_set() and self.outputs.wanted != self._given:
                return
            await stepped.wait()

    def source_of(self, wanted: Wanted) -> Source:
        return Source(
            Path(wanted.main),
            Mode.POD,
            self._effort,
            files=wanted.files,
            facts=wanted.facts,
            notes=((NAMES, json.dumps(dict(wanted.names), sort_keys=True).encode()),) if wanted.names else (),
        )

    def is_compiled(self, candidate: Candidate) -> bool:
        """Whether the last compile was of this candidate, with any facts."""
        servable, last, wanted = self.state.servable, self._compiled, self.outputs.wanted
        if servable is None or servable.followed != candidate.followed or last is None or wanted is None:
            return False
        return last._replace(facts=b"") == wanted._replace(facts=b"")

    # ---- what the cluster shows at present ----

    @property
    def mismatches(self) -> tuple[Diagnostic, ...]:
        """Where the cluster does not fit the candidate, and labels of namespaces that have no effect."""
        cluster = self._cluster
        fit = mismatches(self.state, cluster.view, cluster.controller)
        return (*fit, *labels_without_effect(cluster.reserved, cluster.controller))

    def selection_for(self, program: Program, number: int | None = None) -> tuple[int | None, Selection]:
        """Return the present pods of a program, and the number of the followed program that has them: `number`, while
        that one is followed. If there is none, the Program of the cluster has the names of Services."""
        if number is None or number not in self.state.followed:
            number = number_for(self.state, program)
        if number is None:
            return None, selection_of(program, names_of_candidate(self.state), self._cluster.view)
        return number, self.state.followed[number].selection.at(self._cluster.view)

    # ---- inputs ----

    def in_force(self, programs: Sequence[Program], published: Sequence[Program]) -> None:
        """Follow the programs that proxies may have, the newest one first, beside the candidate, the servable program
        and the one that `current` returned last; forget all others. Without `programs` nothing changes. `published` are
        the programs of which something is published at present."""
        given = InForce(tuple(programs), tuple(published), self._given_number)
        if given.programs and not (_is_same(given, self._in_force) and self.state.earlier == self.state.settled):
            self._in_force = given
            self.advance()

    async def restore(self, facts: FactState, recipes: Sequence[Recipe]) -> None:
        """Begin with the programs of the stored plans, the newest one first, and the facts that the newest plan relies
        on."""
        recipes = [recipe._replace(endpoints=None) for recipe in recipes]
        known = () if self._stored is None else self._stored.programs
        if recipes != [program.recipe for program in known]:
            self.restored.clear()
        await self._is_read.wait()
        async with self._restoring:
            programs = [await self._stored_program(recipe) for recipe in recipes]
            self._stored = Stored(facts, tuple(program for program in programs if program is not None))
            self.advance()
            self.restored.set()
        self.stepped.send()

    async def _stored_program(self, recipe: Recipe) -> StoredProgram | None:
        """Return the program of a stored plan; None if it cannot be read."""
        for known in () if self._stored is None else self._stored.programs:
            if known.recipe == recipe:
                return known
        files = {path: content for path, content in recipe.inputs.items() if path not in (FACTS, NAMES)}
        names: Mapping[str, str] = json.loads(recipe.inputs.get(NAMES, b"{}"))
        content = Content(served_file(recipe.main, files), files, "")
        try:
            program = await asyncio.to_thread(_program, recipe.main, content)
        except CommandError:
            return None  # the server says that the stored state cannot be used
        return StoredProgram(recipe, content, names, program)

    # ---- steps ----

    async def run(self) -> None:
        """Step whenever something changes, and read Programs, until cancelled."""
        await self._cluster.synced()
        self.advance()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._step())
            group.create_task(self._read())

    async def _step(self) -> None:
        """Step when the picture has changed, or when a deadline has passed. A step by another task may have set an
        earlier deadline."""
        while True:
            changed, stepped, due = self._cluster.changed.next, self.stepped.next, self._deadline
            seconds = None if due is None else max(0.0, due - time.monotonic()) + 0.01
            await wait_for_any(changed, stepped, seconds=seconds)
            if changed.is_set():
                await asyncio.sleep(GATHER_SECONDS)
                self.advance()
            elif due is not None and time.monotonic() >= due:
                self.advance()

    def advance(self) -> None:
        """Take one step from everything that is known by now."""
        inputs = Inputs(self._cluster.take(), self._reading, self._stored, self._in_force)
        before = self.state.candidate
        self.state, self.outputs, self._deadline = step(self.state, inputs, self._cluster.controller, time.monotonic())
        candidate = self.state.candidate
        if candidate is not None and candidate.findings and (before is None or before.findings != candidate.findings):
            reasons = [finding_text(finding) for finding in candidate.findings[:REFUSED_SHOWN]]
            LOG.warning("program_refused", extra={"program": candidate.object.name, "why": reasons})
        self.stepped.send()

    async def _read(self) -> None:
        """Read each Program that a step asks for."""
        while True:
            stepped = self.stepped.next
            if self.outputs.to_read is None:
                self._is_read.set()
                await stepped.wait()
                continue
            try:
                self._reading = await self._reading_of(self.outputs.to_read)
            except ApiError:
                self._is_read.set()
                await asyncio.sleep(RETRY_SECONDS)  # a watch reports it
            else:
                self.advance()

    async def _reading_of(self, object_: ProgramObject) -> ProgramReading:
        """Raises `ApiError`."""
        last = self._reading
        earlier = None if last is None or last.object.uid != object_.uid else last.read
        read = await reader.read(self._cluster.api, object_, self._cluster.namespace, earlier)
        if read.spec is None or read.content is None:
            return ProgramReading(object_, read, None, read.findings)
        if last is not None and last.read.spec == read.spec and last.read.content == read.content:
            return last._replace(object=object_, read=read)
        try:
            program = await asyncio.to_thread(_program, read.spec.main, read.content)
        except CommandError as error:
            return ProgramReading(object_, read, None, error.diagnostics)
        except Exception as error:  # a bug that this program meets would end this server, and the next one
            return ProgramReading(object_, read, None, (_unexpected(error),))
        if unknown := check_services(read.spec, program.services):
            return ProgramReading(object_, read, None, unknown)
        return ProgramReading(object_, read, program, ())


def _is_same(one: InForce, other: InForce) -> bool:
    """Whether these are the same objects: to compare programs takes long."""
    if one.given != other.given:
        return False
    mine, others = (*one.programs, None, *one.published), (*other.programs, None, *other.published)
    return len(mine) == len(others) and all(program is known for program, known in zip(mine, others, strict=True))


def _program(main: str, content: Content) -> Program:
    """Raises `CommandError`."""

    def read(path: str) -> bytes:
        if path not in content.files:
            raise FileNotFoundError(2, "there is no such file")
        return content.files[path]

    return load_program(Path(main), read)


def _unexpected(error: Exception) -> Diagnostic:
    return Diagnostic("ADM901", Severity.ERROR, "admc met an unexpected error", None, describe(error))
