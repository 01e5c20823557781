"""What history decides for the programs of an installation, what comes in, and what comes out.

    Program of the cluster --read--> candidate --fits--> servable program --compiled, published--> programs in force
                                                         stored plans ---------------------------->

The *candidate* is the Program that the installation should serve; its status is about it. The *servable* program is the
last candidate whose services fit the cluster; the server compiles it. Programs *in force* are those that proxies may
have; after a start these are the programs of the stored plans. All three are followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rpds import HashTrieMap, HashTrieSet

from admc.kubernetes.cluster.core.facts import FactState
from admc.kubernetes.cluster.core.located import Located
from admc.kubernetes.cluster.program.spec import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.kubernetes.cluster.core.followed import FollowedProgram
    from admc.kubernetes.cluster.core.view import Change
    from admc.kubernetes.cluster.program.content import Content
    from admc.kubernetes.cluster.program.owner import Owner
    from admc.kubernetes.cluster.program.reader import ProgramRead
    from admc.kubernetes.cluster.program.spec import ProgramObject
    from admc.serve.storage.position import Recipe
    from dsl.diagnostics.diagnostic import Diagnostic
    from dsl.program import Program

REMEMBERED: Final = 10_000
"""How many pods that ended are remembered, at least."""

# ---- what comes in ----


class ProgramReading(NamedTuple):
    """A Program with its ConfigMaps, as the server read it."""

    object: ProgramObject
    read: ProgramRead
    program: Program | None
    """The same object as in the reading before, if spec and files are the same; None if the program has errors."""
    findings: tuple[Diagnostic, ...]
    """Those errors."""


class StoredProgram(NamedTuple):
    """The program of a stored plan."""

    recipe: Recipe
    content: Content
    names: Mapping[str, str]
    """The `spec.services` that the plan was made with."""
    program: Program


class Stored(NamedTuple):
    """The stored state with which a server begins. Another object begins anew."""

    facts: FactState
    """The facts that the newest plan relies on."""
    programs: tuple[StoredProgram, ...]
    """Those of the stored plans that can be read, the newest one first."""


class InForce(NamedTuple):
    """The programs that proxies may have. Another object is looked at anew."""

    programs: tuple[Program, ...] = ()
    """The newest one first; empty before the first plan is in force."""
    published: tuple[Program, ...] = ()
    """The programs of which something is published at present."""
    given: int | None = None
    """The number of the servable program that the server was given last. It may come into force, although another one
    is servable by now."""


class Inputs(NamedTuple):
    """All that a step looks at, besides the state."""

    change: Change
    """The present picture, and where it differs from that of the step before."""
    reading: ProgramReading | None = None
    """The last one."""
    stored: Stored | None = None
    """None before the stored state was read."""
    in_force: InForce = InForce()


# ---- what stays from one step to the next ----


class Candidate(NamedTuple):
    """The Program that is to be served, as it was read."""

    object: ProgramObject
    read: ProgramRead
    followed: int | None
    """The number of its `FollowedProgram`; None if it has errors."""
    findings: tuple[Diagnostic, ...]
    """Those errors."""

    @property
    def is_audit(self) -> bool:
        return self.read.spec is not None and self.read.spec.mode is Mode.AUDIT


class ServableProgram(NamedTuple):
    """The last program that could be served."""

    object: ProgramObject | None
    """None if it is the program of the stored plan, and no known Program has the same content."""
    content: Content
    followed: int


class EndedPods(NamedTuple):
    """The uids of the last pods that ended, in two parts. A full first part takes the place of the second."""

    recent: HashTrieSet[str] = HashTrieSet()
    earlier: HashTrieSet[str] = HashTrieSet()

    def has(self, uid: str) -> bool:
        return uid in self.recent or uid in self.earlier

    def with_uids(self, uids: Iterable[str]) -> EndedPods:
        recent, earlier = self.recent.update(uids), self.earlier
        return EndedPods(recent, earlier) if len(recent) < REMEMBERED else EndedPods(HashTrieSet(), recent)


class State(NamedTuple):
    """Everything that a later step needs of the earlier ones."""

    followed: Mapping[int, FollowedProgram] = HashTrieMap()
    """All programs that are followed, by number."""
    numbers: int = 0
    """How many programs have been followed so far."""
    candidate: Candidate | None = None
    servable: ServableProgram | None = None
    earlier: tuple[int, ...] = ()
    """The programs that proxies may have, the newest one first; then earlier servable programs, which may come into
    force."""
    facts: FactState = FactState(HashTrieMap())
    """The facts that the newest stored plan relies on."""
    read_again: float = 0.0
    """When a reading is to be repeated that waits for ConfigMaps."""
    looks: int = 0
    """How many pictures have been taken over in which a Service may have lost a pod, and how often a program that came
    into force was not followed before."""
    clients: HashTrieMap[str, int] = HashTrieMap()
    """Service -> the last look (`looks`) at which it may have lost a pod, or began to be followed. After that, its
    clients have to be checked again."""
    ended: EndedPods = EndedPods()
    located: Located = Located()
    reading: ProgramReading | None = None
    stored: Stored | None = None
    in_force: InForce = InForce()
    """The last ones that a step has taken over."""
    kept: tuple[int, ...] = ()
    """The numbers of the programs of `in_force`, one for each."""

    @property
    def published(self) -> tuple[FollowedProgram, ...]:
        """The programs whose addresses are published: those in force, and the servable one. A candidate that cannot be
        served concerns no proxy."""
        latest = () if self.servable is None else (self.servable.followed,)
        return tuple(self.followed[number] for number in dict.fromkeys((*self.earlier, *latest)))

    @property
    def settled(self) -> tuple[int, ...]:
        """`earlier`, as `in_force` asks for it: these programs, and the one that the server was given."""
        given = self.in_force.given
        return tuple(dict.fromkeys((*self.kept, *(() if given is None or given not in self.followed else (given,)))))

    def number_in_force(self, program: Program) -> int | None:
        """The number of a program in force (the same object); None if it is not in force, or not yet."""
        numbers = zip(self.in_force.programs, self.kept, strict=False)
        return next((number for known, number in numbers if known is program), None)

    @property
    def of_candidate(self) -> FollowedProgram | None:
        candidate = self.candidate
        return None if candidate is None or candidate.followed is None else self.followed[candidate.followed]

    @property
    def of_servable(self) -> FollowedProgram | None:
        return None if self.servable is None else self.followed[self.servable.followed]

    @property
    def is_audit(self) -> bool:
        return self.candidate is not None and self.candidate.is_audit


# ---- what comes out ----


class Wanted(NamedTuple):
    """The program that the server should compile, and what the plan relies on."""

    main: str
    """The file that is served."""
    files: Mapping[str, bytes]
    names: Mapping[str, str]
    facts: bytes


class Outputs(NamedTuple):
    """What the server has to do and to show."""

    to_read: ProgramObject | None = None
    """The Program that has to be read, with its ConfigMaps."""
    wanted: Wanted | None = None
    """None while there is no servable program."""
    owner: Owner | None = None
    """The Program that owns the objects written for the plan in force. None while there is no such Program: the cluster
    removes the objects of a Program that is gone."""
    addresses: Located = Located()


class Step(NamedTuple):
    state: State
    outputs: Outputs
    deadline: float | None
    """When to step again although nothing changes; None: never."""
