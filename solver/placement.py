"""The solver's result: every decision with the reasons against other places, and the ADMs that follow.

    program -> [Placement] -> plan

A *decision* is one policy at one destination (rule R2 makes that the unit of choice); the enforcements, one for each
call, follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dsl.program import Place, Side
from dsl.text import Span

if TYPE_CHECKING:
    from dsl.program import Program

NANO = 10**9


class Rule(StrEnum):
    """The rules of a correct placement (docs/rules.md)."""

    COVERAGE = "R1"
    ATOMICITY = "R2"
    OUTSIDE = "R3"
    CAPABILITY = "R4"
    STATE = "R5"
    ORDER = "R6"
    CLOSED = "R7"
    HOST = "R8"
    CAPACITY = "R9"
    PIN = "R10"


class Reason(NamedTuple):
    """Why a place is excluded: the rule, a sentence, and the lines that cause it, the most specific line first."""

    rule: Rule
    message: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One policy at one destination.

    `calls` are indices into `Program.calls`. They are empty if no declared call is in scope. The policy is then at
    ingress or in the network, for undeclared callers; or (no guard) it holds because the destination is closed to such
    callers; or the destination is an external, and no ADM enforces the policy.
    """

    policy: str
    destination: str
    place: Place
    calls: tuple[int, ...]
    ruled_out: Mapping[Place, Reason | None]
    """For each place not taken: the reason, or None if no rule excluded the place and the objective decided. Empty for
    kinds that need both ends."""
    open: bool = False
    """Undeclared callers are in scope too (R7), so the policy at ingress is enforced at `ports` for all callers."""
    ports: tuple[int, ...] = ()
    """Port numbers of the destination that the decision covers, ascending: for an open decision every port in scope
    on which the policy can be enforced, otherwise the ports of `calls`."""
    closes: bool = False
    """The decision is open, about a service, and at egress, in the network or at both ends. So it holds only if the
    destination is closed to undeclared callers."""


@dataclass(frozen=True, slots=True)
class Adm:
    """The middlebox of one service. Policies are names in declared order."""

    service: str
    ingress: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


class Status(StrEnum):
    OPTIMAL = "optimal"
    FEASIBLE = "feasible"


class ObjectiveValue(NamedTuple):
    """One level of the lexicographic objective: integers in the metric's unit (`cpu` nano-cores, `latency` ns)."""

    metric: str
    value: int
    bound: int
    """Proven lower bound; equal to `value` where the level is proven optimal."""


@dataclass(frozen=True, slots=True)
class Placement:
    decisions: tuple[Decision, ...]
    """Sorted by (policy position, destination)."""
    adms: tuple[Adm, ...]
    """Sorted by service name."""
    closed: tuple[str, ...]
    """Destinations that a NetworkPolicy must close, sorted."""
    status: Status
    objectives: tuple[ObjectiveValue, ...]
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time of the solver's stages, for benchmarks only: never part of a plan."""

    def closed_targets(self, program: Program) -> dict[str, frozenset[int]]:
        """The target ports at which each closed destination is closed: those of the ports of all decisions that need
        it closed. At every other port it admits all callers."""
        numbers: dict[str, set[int]] = {name: set() for name in self.closed}
        for decision in self.decisions:
            if decision.closes:
                numbers.setdefault(decision.destination, set()).update(decision.ports)
        return {
            name: frozenset(port.target for port in program.services[name].ports if port.number in its)
            for name, its in numbers.items()
        }


def admitted_parties(program: Program, placement: Placement) -> dict[tuple[str, int], frozenset[str]]:
    """(destination, closed target) -> the parties that its NetworkPolicy admits there.

    The guards of the network admit the callers that all of them name, with or without a declared call. If another
    decision needs the target closed, its policy is at the senders: then only parties with a declared call are admitted.
    """
    named: dict[tuple[str, int], frozenset[str]] = {}
    relying: set[tuple[str, int]] = set()
    for decision in placement.decisions:
        if not decision.closes:
            continue
        ports = program.services[decision.destination].ports
        for target in {port.target for port in ports if port.number in decision.ports}:
            key = decision.destination, target
            if decision.place is Place.NETWORK:
                callers = frozenset(program.policy_by_name[decision.policy].named("caller"))
                named[key] = named[key] & callers if key in named else callers
            else:
                relying.add(key)
    declared: dict[tuple[str, int], set[str]] = {key: set() for key in relying}
    for call in program.calls:
        key = call.destination, call.port.target
        if key in relying:
            declared[key].add(call.source)
    return {
        key: frozenset(declared[key]) & named.get(key, frozenset(declared[key])) if key in relying else named[key]
        for key in named.keys() | relying
    }


class Cost(NamedTuple):
    """Predicted cost of an ADM, a hop or an enforcement: CPU in nano-cores, latency in nanoseconds."""

    cpu: int = 0
    latency: int = 0


class Hop(NamedTuple):
    """One direction and port of the ADM of `service`. At ingress the destination is the service itself."""

    service: str
    side: Side
    destination: str
    port: int


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost coefficients from the application. A missing entry costs nothing."""

    adm: Mapping[str, Cost] = field(default_factory=dict)
    """Service -> cost of an ADM without any policy and hop."""
    enforcement: Mapping[tuple[str, Side, str, str], Cost] = field(default_factory=dict)
    """(hosting service, side, policy, destination) -> cost of that share of the work."""
    known: bool = False
    """False without a profile: the plan's overhead is then null, and R9 is not checked."""
    hop: Mapping[Hop, Cost] = field(default_factory=dict)
    """Cost of a hop, which counts once if any policy is enforced there."""

    @property
    def given(self) -> bool:
        """Whether there are costs to minimize."""
        return self.known or bool(self.adm or self.hop or self.enforcement)


class ConflictPart(NamedTuple):
    """A line that takes part in a conflict, and a change of it that resolves the conflict."""

    span: Span
    message: str
    remedy: str


class Previous(NamedTuple):
    """An earlier plan. Of equally good placements, the solver takes the placement that changes this plan least."""

    places: Mapping[tuple[str, str], Place]
    """(policy, destination) -> place."""
    hosts: frozenset[str]
    """Services that have an ADM."""
    objectives: tuple[ObjectiveValue, ...] = ()
    """The levels of the plan if it was compiled from the same program, else empty."""


class Conflict(NamedTuple):
    """Lines that allow no placement together. `parts` is irreducible: without any one of them there is no conflict."""

    parts: tuple[ConflictPart, ...]
    reasons: tuple[Reason, ...]


class PlacementError(Exception):
    """No correct placement exists. Each of `conflicts` remains when the others are resolved."""

    def __init__(self, conflicts: tuple[Conflict, ...], *, more: bool = False) -> None:
        """`more`: there are further conflicts, for which the solver did not search."""
        self.conflicts = conflicts
        self.more = more
        super().__init__("no correct placement exists")

    @property
    def parts(self) -> tuple[ConflictPart, ...]:
        """The parts of the first conflict."""
        return self.conflicts[0].parts

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """The reasons of the first conflict, the most specific rule first."""
        return self.conflicts[0].reasons


class Violation(NamedTuple):
    """A fault that the verifier found in a placement."""

    rule: Rule | None
    """None if the placement breaks no rule but contradicts itself, such as by a wrong objective value."""
    message: str
    policy: str | None = None
    destination: str | None = None
