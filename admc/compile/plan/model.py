"""The plan: the placement with its reasons and input digests, the file that people review.

    program, placement -> [Plan] -> emit | diff | explain

Everything in it is in canonical order, and nothing in it depends on the machine, the clock or the working directory:
two runs of one release on the same inputs give the same bytes. `plan.schema.json` is the published form; `docs/plan.md`
says what each field means. Rows are small objects of names and numbers, since a large application has 150,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from admc.cost.rows import AdmRow, OverheadRow, ProfileRow
from dsl.documents import (
    Amount,
    Count,
    Digest,
    Distinct,
    Filled,
    Form,
    LineNumber,
    Name,
    OneOf,
    Plain,
    PortNumber,
    Published,
    document,
)
from dsl.program import Element, Metric, Place, Protocol, Side, Verb, Weaker
from solver.placement import Status

SCHEMA_VERSION: Final = 5
"""The form that admc writes, and the only one that it reads: an older plan is compiled again."""
FREE: Final = "free"
"""The reason of a place that no rule forbids: the objective chose another place."""
_REASONS: Final = OneOf((FREE, *(f"R{number}" for number in range(1, 11))))
_HAS_LAST_LEVELS: Final = Published(
    {"allOf": [{"contains": {"properties": {"metric": {"const": metric}}}} for metric in ("closed", "hops")]}
)
"""Every objective ends with these."""


@document
class SourceLine:
    """A line of an input; `path` is relative to the program's folder."""

    path: Name
    line: LineNumber


@document
class InputFile:
    path: Name
    sha256: Digest


@document
class Objective:
    metric: Annotated[str, OneOf(tuple(metric.value for metric in Metric))]
    value: Count | None
    """None for a metric of which no profile has a figure."""
    bound: Count | None


@document
class Solver:
    name: Name
    version: Name
    status: Status
    objectives: Annotated[tuple[Objective, ...], _HAS_LAST_LEVELS]


@document
class PortRow:
    number: PortNumber
    protocol: Protocol
    target: PortNumber
    name: Name | None


@document
class LabelRow:
    name: Name
    value: str


@document
class ServiceRow:
    name: Name
    namespace: Name
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
    name: Name
    ports: tuple[PortRow, ...]
    hosts: tuple[Name, ...]
    cidrs: tuple[Name, ...]
    line: SourceLine


@document
class CallRow:
    source: Name
    destination: Name
    port: PortNumber
    rate: Amount | None
    """Requests (tcp: connections) per second."""
    size: Count | None
    line: SourceLine


@document
class ArgumentRow:
    """One argument with its default filled in. Durations are microseconds, sizes are bytes, percents are 0 to 100."""

    name: Name
    type: Name
    """As the kind declares it, without bounds: `int`, `duration`, `[caller]`."""
    value: Plain
    """Of a file, its path; `sha256` then has its digest."""
    sha256: Digest | None
    weaker: Weaker | None
    """Which way a change of it makes a policy weaker; None: nothing is known of that."""


@document
class EffectRow:
    verb: Verb
    element: Element | None
    names: tuple[Name, ...] | None
    """Headers in lower case; None means every header."""


@document
class PolicyRow:
    """A policy with what it does, and the line that declares it. The line of its kind is left out: one of the prelude
    says nothing about the program, and would make every plan stale where the prelude is only worded anew."""

    name: Name
    kind: Name
    line: SourceLine
    content: PolicyContent


@document
class PolicyContent:
    """What a policy does to which requests. Calls in scope are the plan's enforcements."""

    arguments: tuple[ArgumentRow, ...]
    """In the kind's order."""
    open: bool
    """The sources are `*`: every caller that can reach a destination, but for `excluded`."""
    sources: tuple[Name, ...]
    """Selected services and externals; empty if the scope is open, since a large application has thousands of them."""
    excluded: tuple[Name, ...]
    """Services and externals that an open scope leaves out."""
    destinations: tuple[Name, ...]
    ports: tuple[PortNumber, ...] | None
    """Of the scope; None: every port."""
    when: Name | None
    """The match in canonical form, as it could stand in a program."""
    places: Annotated[tuple[Place, ...], Filled, *Distinct]
    """Those that the kind and the policy's own annotations allow, and `network` only where the program lets it be
    one."""
    guard: bool
    state: bool
    per_replica: bool
    both: bool
    idempotent: bool
    judges_caller_alone: bool
    protocols: Annotated[tuple[Protocol, ...], Filled, *Distinct]
    effects: tuple[EffectRow, ...] | None
    """None: no effects are declared, so nothing is known."""
    template_sha256: Digest | None
    """Of the file of a user's own kind."""


@document
class AdmPort:
    """A port that the ADM works on: its own service's at ingress, a destination's at egress."""

    direction: Side
    service: Name
    port: PortNumber


@document
class AdmPolicy:
    policy: Name
    side: Side
    destinations: Annotated[tuple[Name, ...], Filled]
    line: SourceLine


@document
class Because:
    """Why a policy is at this ADM. `rule` is the one that ruled out the other place, `R1` for a policy at both ends, or
    `free`."""

    policy: Name
    side: Side
    destinations: Annotated[tuple[Name, ...], Filled]
    rule: Annotated[str, _REASONS]
    text: Name
    lines: tuple[SourceLine, ...]


@document
class AdmPlan:
    """The middlebox of one service. Policies are in the order in which they are declared, ingress before egress."""

    service: Name
    dataplane: Annotated[str, OneOf(("envoy",))]
    directions: Annotated[tuple[Side, ...], Filled, *Distinct]
    ports: tuple[AdmPort, ...]
    policies: Annotated[tuple[AdmPolicy, ...], Filled]
    replicas: Count
    because: Annotated[tuple[Because, ...], Filled]
    overhead: AdmRow | None
    """None without a profile."""


@document
class Enforcement:
    """One policy on one call. Source `*`: a policy at ingress that no declared call meets, for undeclared callers."""

    policy: Name
    source: Name
    destination: Name
    port: PortNumber
    place: Place
    service: Name | None
    """The service whose ADM enforces it; None in the network."""


@document
class NotTaken:
    """A place that a decision did not take. `reason` is a rule (`R1` to `R10`), or `free`."""

    place: Place
    reason: Annotated[str, _REASONS]
    message: str | None
    lines: tuple[SourceLine, ...]


@document
class DecisionPlan:
    """One policy at one destination. `open`: it also applies to callers that the program does not declare. `closes`:
    it is enforced for all callers only because the destination is closed to undeclared ones."""

    policy: Name
    destination: Name
    place: Place
    ports: tuple[PortNumber, ...]
    open: bool
    closes: bool
    not_taken: tuple[NotTaken, ...]
    line: SourceLine


@document
class Closed:
    """A destination that only its declared senders may reach, the policies that need it, and those senders."""

    destination: Name
    policies: tuple[Name, ...]
    senders: tuple[Name, ...]


@document
class Assumption:
    """A condition outside admc's control on which the plan relies, and the services that it is about."""

    about: Annotated[tuple[Name, ...], Filled]
    text: Name


@document
class Warned:
    code: Annotated[str, Form("ADM[0-9]{3}", "must be a code of a finding")]
    message: Name
    line: SourceLine | None


@document
class Plan:
    """The placement of an application's policies with its reasons (docs/plan.md)."""

    schema_version: Literal[5]
    app: Name
    inputs: Annotated[tuple[InputFile, ...], Filled]
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


RULES: Final[Mapping[str, object]] = {
    "if": {"required": ["profile"]},
    "then": {"properties": {"overhead": {"type": "object"}}},
    "else": {
        "properties": {
            "overhead": {"type": "null"},
            "adms": {"items": {"properties": {"overhead": {"type": "null"}}}},
        }
    },
}
"""What the JSON Schema of a plan says of several fields together."""
