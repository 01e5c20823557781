"""What the solver hands on: every decision with its reason, and so every ADM.

    program -> [Placement] -> plan

A *decision* is one policy at one destination (rule R2 makes that the unit of choice); the enforcements, one for each
call, follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from dsl.program import Side
from dsl.text import Span


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
    """Why a side was not open: the rule, a sentence, and the lines that it rests on (first the most telling)."""

    rule: Rule
    message: str
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """One policy at one destination.

    `calls` are indices into `Program.calls`. It is empty where no declared call is in scope: a guard then stands at
    ingress against undeclared callers, and any other policy holds because the destination is closed to everyone.
    """

    policy: str
    destination: str
    sides: tuple[Side, ...]
    """One side, or both for kinds that need both ends; canonical order is ingress, egress."""
    calls: tuple[int, ...]
    ruled_out: Mapping[Side, Reason | None]
    """For each side not taken: the reason, or None where it was free and the objective chose against it."""
    open: bool = False
    """Undeclared callers are in scope too (rule R7), so at ingress every port of `ports` is enforced for everybody."""
    ports: tuple[int, ...] = ()
    """Port numbers of the destination that the decision covers, ascending: for an open decision every port in scope
    whose protocol the kind carries, otherwise the ports of `calls`."""
    closes: bool = False
    """This decision is open and at egress: it holds only if all but the destination's declared senders are kept out."""


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
    """One level of the lexicographic objective: integers in the metric's unit (`cpu` micro-cores, `latency` ns)."""

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


class Cost(NamedTuple):
    """Predicted load of one thing: CPU in micro-cores, latency in nanoseconds."""

    cpu: int = 0
    latency: int = 0


@dataclass(frozen=True, slots=True)
class Costs:
    """Plain coefficients, handed in by the application. Missing entries cost nothing."""

    adm: Mapping[str, Cost] = field(default_factory=dict)
    """What it costs that a service hosts an ADM at all."""
    enforcement: Mapping[tuple[str, Side, str, str], Cost] = field(default_factory=dict)
    """(hosting service, side, policy, destination) -> what that share of the work costs there."""
    known: bool = False
    """False until profiles exist: the plan's overhead is then null, and R9 cannot be judged."""


class ConflictPart(NamedTuple):
    """A line that takes part in a conflict, and what freeing it would mean."""

    span: Span
    message: str
    remedy: str


class PlacementError(Exception):
    """No correct placement exists. `parts` is irreducible: without any one of them a placement exists."""

    def __init__(self, parts: tuple[ConflictPart, ...], reasons: tuple[Reason, ...]) -> None:
        self.parts = parts
        self.reasons = reasons
        super().__init__("no correct placement exists")


class Violation(NamedTuple):
    """What the verifier found wrong with a placement."""

    rule: Rule | None
    """None where the placement contradicts itself (an objective value that it does not have), not one of the rules."""
    message: str
    policy: str | None = None
    destination: str | None = None
