"""The plan: the placement with its reasons and input digests, the file that people review.

    program, placement -> [Plan] -> emit | diff | explain

Everything in it is in canonical order, and nothing in it depends on the machine, the clock or the working directory:
two runs on one program give the same bytes. `plan.schema.json` is the published form; `docs/plan.md` says what each
field means. Rows are plain tuples of names and numbers, since a large application has 150,000 of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from admc.overhead.rows import AdmRow, OverheadRow, ProfileRow
from dsl.program import Side
from solver.placement import Status

SCHEMA_VERSION = 2
"""The form that admc writes. It reads version 1 too, whose objective has only the levels that the program names."""
FREE = "free"
"""The reason of a side that no rule forbids: the objective chose the other side."""


class SourceLine(NamedTuple):
    """A line of an input; `path` is relative to the program's folder."""

    path: str
    line: int


class InputFile(NamedTuple):
    path: str
    sha256: str


class Objective(NamedTuple):
    metric: str
    value: int | None
    """None for a metric of which no profile has a figure."""
    bound: int | None


class Solver(NamedTuple):
    name: str
    version: str
    status: Status
    objectives: tuple[Objective, ...]


class PolicyLine(NamedTuple):
    """A policy, and the lines that declare it and its kind."""

    name: str
    kind: str
    line: SourceLine
    kind_line: SourceLine


class AdmPort(NamedTuple):
    """A port that the ADM works on: its own service's at ingress, a destination's at egress."""

    direction: Side
    service: str
    port: int


class AdmPolicy(NamedTuple):
    policy: str
    side: Side
    destinations: tuple[str, ...]
    line: SourceLine


class Because(NamedTuple):
    """Why a policy is at this ADM. `rule` is the one that ruled out the other side, or `free`."""

    policy: str
    side: Side
    destinations: tuple[str, ...]
    rule: str
    text: str
    lines: tuple[SourceLine, ...]


class AdmPlan(NamedTuple):
    """The middlebox of one service. Policies are in the order in which they are declared, ingress before egress."""

    service: str
    dataplane: str
    directions: tuple[Side, ...]
    ports: tuple[AdmPort, ...]
    policies: tuple[AdmPolicy, ...]
    replicas: int
    because: tuple[Because, ...]
    overhead: AdmRow | None = None
    """None without a profile."""


class Enforcement(NamedTuple):
    """One policy on one call. Source `*`: a guard that applies to undeclared callers only."""

    policy: str
    source: str
    destination: str
    port: int
    side: Side
    service: str


class NotTaken(NamedTuple):
    """A side that a decision did not take. `reason` is a rule (`R1` to `R10`), or `free`."""

    side: Side
    reason: str
    message: str | None
    lines: tuple[SourceLine, ...]


class DecisionPlan(NamedTuple):
    """One policy at one destination. `open`: it also applies to callers that the program does not declare. `closes`:
    it is enforced for all callers only because the destination is closed to undeclared ones."""

    policy: str
    destination: str
    sides: tuple[Side, ...]
    ports: tuple[int, ...]
    open: bool
    closes: bool
    not_taken: tuple[NotTaken, ...]
    line: SourceLine


class Closed(NamedTuple):
    """A destination that only its declared senders may reach, the policies that need it, and those senders."""

    destination: str
    policies: tuple[str, ...]
    senders: tuple[str, ...]


class Assumption(NamedTuple):
    """A condition outside admc's control on which the plan relies, and the services that it is about."""

    about: tuple[str, ...]
    text: str


class Warned(NamedTuple):
    code: str
    message: str
    line: SourceLine | None


@dataclass(frozen=True, slots=True)
class Plan:
    app: str
    inputs: tuple[InputFile, ...]
    solver: Solver
    policies: tuple[PolicyLine, ...]
    """In declared order, which is the order of rule R6."""
    adms: tuple[AdmPlan, ...]
    enforcements: tuple[Enforcement, ...]
    decisions: tuple[DecisionPlan, ...]
    closed: tuple[Closed, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[Warned, ...]
    overhead: OverheadRow | None = None
    """Totals, and what is missing in them; None without a profile, never invented."""
    schema_version: int = SCHEMA_VERSION
    profile: ProfileRow | None = None
    """By which costs are estimated. A plan without one has no such field."""
