"""The plan: the placement with its reasons and input digests, the file that people review.

    program, placement -> [Plan] -> emit | diff | explain

Everything in it is in canonical order, and nothing in it depends on the machine, the clock or the working directory:
two runs on one program give the same bytes. `plan.schema.json` is the published form; `docs/plan.md` says what each
field means. Rows are plain tuples of names and numbers, since a large application has 150,000 of them.
"""

from __future__ import annotations

from typing import Final, Literal

from admc.overhead.rows import AdmRow, OverheadRow, ProfileRow
from dsl.documents import Amount, Count, Plain, document
from dsl.program import Element, Protocol, Side, Verb, Weaker
from solver.placement import Status

SCHEMA_VERSION: Final = 4
"""The form that admc writes, and the only one that it reads: an older plan is compiled again."""
FREE = "free"
"""The reason of a side that no rule forbids: the objective chose the other side."""


@document
class SourceLine:
    """A line of an input; `path` is relative to the program's folder."""

    path: str
    line: Count


@document
class InputFile:
    path: str
    sha256: str


@document
class Objective:
    metric: str
    value: Count | None
    """None for a metric of which no profile has a figure."""
    bound: Count | None


@document
class Solver:
    name: str
    version: str
    status: Status
    objectives: tuple[Objective, ...]


@document
class PortRow:
    number: Count
    protocol: Protocol
    target: Count
    name: str | None


@document
class LabelRow:
    name: str
    value: str


@document
class ServiceRow:
    name: str
    namespace: str
    replicas: Count
    ports: tuple[PortRow, ...]
    labels: tuple[LabelRow, ...] | None
    """By name; None if the program gives none, which is another thing than an empty list."""
    hosts_adm: bool
    trusted: bool
    host_network: bool
    capacity: Amount | None
    """CPU cores of one sidecar."""
    line: SourceLine

    @property
    def can_host(self) -> bool:
        """Whether an ADM can be here (R8)."""
        return self.hosts_adm and not self.host_network


@document
class ExternalRow:
    name: str
    ports: tuple[PortRow, ...]
    hosts: tuple[str, ...]
    cidrs: tuple[str, ...]
    line: SourceLine


@document
class CallRow:
    source: str
    destination: str
    port: Count
    rate: Amount | None
    """Requests (tcp: connections) per second."""
    size: Count | None
    line: SourceLine


@document
class ArgumentRow:
    """One argument with its default filled in. Durations are microseconds, sizes are bytes, percents are 0 to 100."""

    name: str
    type: str
    """As the kind declares it, without bounds: `int`, `duration`, `[caller]`."""
    value: Plain
    """Of a file, its path; `sha256` then has its digest."""
    sha256: str | None
    weaker: Weaker | None
    """Which way a change of it makes a policy weaker; None: nothing is known of that."""


@document
class EffectRow:
    verb: Verb
    element: Element | None
    names: tuple[str, ...] | None
    """Headers in lower case; None means every header."""


@document
class PolicyRow:
    """A policy with what it does, and the line that declares it. The line of its kind is left out: one of the prelude
    says nothing about the program, and would make every plan stale where the prelude is only worded anew."""

    name: str
    kind: str
    line: SourceLine
    content: PolicyContent


@document
class PolicyContent:
    """What a policy does to which requests. Calls in scope are the plan's enforcements."""

    arguments: tuple[ArgumentRow, ...]
    """In the kind's order."""
    open: bool
    """The sources are `*`: every caller that can reach a destination, but for `excluded`."""
    sources: tuple[str, ...]
    """Selected services and externals; empty if the scope is open, since a large application has thousands of them."""
    excluded: tuple[str, ...]
    """Services and externals that an open scope leaves out."""
    destinations: tuple[str, ...]
    ports: tuple[Count, ...] | None
    """Of the scope; None: every port."""
    when: str | None
    """The match in canonical form, as it could stand in a program."""
    sides: tuple[Side, ...]
    """Those that the kind and the policy's own annotations allow."""
    guard: bool
    state: bool
    per_replica: bool
    both: bool
    idempotent: bool
    judges_caller_alone: bool
    protocols: tuple[Protocol, ...]
    effects: tuple[EffectRow, ...] | None
    """None: no effects are declared, so nothing is known."""
    template_sha256: str | None
    """Of the file of a user's own kind."""


@document
class AdmPort:
    """A port that the ADM works on: its own service's at ingress, a destination's at egress."""

    direction: Side
    service: str
    port: Count


@document
class AdmPolicy:
    policy: str
    side: Side
    destinations: tuple[str, ...]
    line: SourceLine


@document
class Because:
    """Why a policy is at this ADM. `rule` is the one that ruled out the other side, or `free`."""

    policy: str
    side: Side
    destinations: tuple[str, ...]
    rule: str
    text: str
    lines: tuple[SourceLine, ...]


@document
class AdmPlan:
    """The middlebox of one service. Policies are in the order in which they are declared, ingress before egress."""

    service: str
    dataplane: str
    directions: tuple[Side, ...]
    ports: tuple[AdmPort, ...]
    policies: tuple[AdmPolicy, ...]
    replicas: Count
    because: tuple[Because, ...]
    overhead: AdmRow | None
    """None without a profile."""


@document
class Enforcement:
    """One policy on one call. Source `*`: a guard that applies to undeclared callers only."""

    policy: str
    source: str
    destination: str
    port: Count
    side: Side
    service: str


@document
class NotTaken:
    """A side that a decision did not take. `reason` is a rule (`R1` to `R10`), or `free`."""

    side: Side
    reason: str
    message: str | None
    lines: tuple[SourceLine, ...]


@document
class DecisionPlan:
    """One policy at one destination. `open`: it also applies to callers that the program does not declare. `closes`:
    it is enforced for all callers only because the destination is closed to undeclared ones."""

    policy: str
    destination: str
    sides: tuple[Side, ...]
    ports: tuple[Count, ...]
    open: bool
    closes: bool
    not_taken: tuple[NotTaken, ...]
    line: SourceLine


@document
class Closed:
    """A destination that only its declared senders may reach, the policies that need it, and those senders."""

    destination: str
    policies: tuple[str, ...]
    senders: tuple[str, ...]


@document
class Assumption:
    """A condition outside admc's control on which the plan relies, and the services that it is about."""

    about: tuple[str, ...]
    text: str


@document
class Warned:
    code: str
    message: str
    line: SourceLine | None


@document
class Plan:
    schema_version: Literal[4]
    app: str
    inputs: tuple[InputFile, ...]
    solver: Solver
    services: tuple[ServiceRow, ...]
    """By name; so also `externals`."""
    externals: tuple[ExternalRow, ...]
    calls: tuple[CallRow, ...]
    """By destination, source and port."""
    policies: tuple[PolicyRow, ...]
    """In declared order, which is the order of rule R6."""
    adms: tuple[AdmPlan, ...]
    enforcements: tuple[Enforcement, ...]
    decisions: tuple[DecisionPlan, ...]
    closed: tuple[Closed, ...]
    assumptions: tuple[Assumption, ...]
    warnings: tuple[Warned, ...]
    overhead: OverheadRow | None
    """Totals, and what is missing in them; None without a profile, never invented."""
    profile: ProfileRow | None = None
    """By which costs are estimated. A plan without one has no such field."""
