"""The resolved program: every name resolved, every unit converted, every default filled in.

The solver and the emitters read no text of a program. They use this module, and only helpers of other parts of the
language, such as `dsl.checks.disjoint`. Nothing changes a program, and declarations keep the span of the line that a
user would change.

    text -> syntax tree -> [Program] -> placement -> plan -> emit

Units: durations are microseconds (`work` of a request's step: nanoseconds), sizes are bytes, rates are requests (tcp:
connections) per second, percents are 0..100, capacity is CPU cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic
from dsl.match import Match
from dsl.requests import Request
from dsl.text import SourceText, Span


class Protocol(StrEnum):
    TCP = "tcp"
    HTTP = "http"
    GRPC = "grpc"


class Side(StrEnum):
    """The side of an ADM that a hop is on: `ingress` towards the ADM's own service, `egress` towards a destination."""

    INGRESS = "ingress"
    EGRESS = "egress"

    @property
    def other(self) -> Side:
        return Side.EGRESS if self is Side.INGRESS else Side.INGRESS


class Reliance(StrEnum):
    """A fact outside of the ADM on which an enforcement relies."""

    ADDRESSES = "addresses"
    """A caller that the policy tells apart has an address of its own."""
    CLOSED = "closed"
    """A NetworkPolicy refuses callers that the program does not declare, if these are in scope too (R7)."""
    SENDERS = "senders"
    """No sender bypasses its own ADM."""


class Place(StrEnum):
    """Where a decision is enforced. Each decision has exactly one place (R1, R2)."""

    INGRESS = "ingress"
    EGRESS = "egress"
    NETWORK = "network"
    """The NetworkPolicy of the destination, without an ADM."""
    BOTH = "both"
    """Both ends of each call, for kinds that need both."""

    position: int
    """The position on the way of a request, from 0 at the sender. `BOTH` has that of its outermost end."""
    sides: tuple[Side, ...]
    """The sides of ADMs that enforce the policy: `egress` of each sender's ADM, `ingress` of the destination's;
    none for the network."""
    sees_undeclared: bool
    """Whether callers that the program does not declare meet the policy there."""
    relies_on: frozenset[Reliance]
    """Facts on which an enforcement there relies."""

    @property
    def ends(self) -> tuple[Place, ...]:
        """The places at each of which the policy is met: the place itself, or both ends."""
        return (Place.INGRESS, Place.EGRESS) if self is Place.BOTH else (self,)

    def _has(
        self, position: int, sides: tuple[Side, ...], relies_on: Iterable[Reliance], *, sees_undeclared: bool
    ) -> None:
        """Sets the facts of a place, which are plain attributes: a large program asks for them a million times."""
        self.position, self.sides, self.relies_on = position, sides, frozenset(relies_on)
        self.sees_undeclared = sees_undeclared


Place.EGRESS._has(0, (Side.EGRESS,), (Reliance.SENDERS, Reliance.CLOSED), sees_undeclared=False)
Place.NETWORK._has(1, (), (Reliance.CLOSED,), sees_undeclared=True)
Place.INGRESS._has(2, (Side.INGRESS,), (Reliance.ADDRESSES,), sees_undeclared=True)
Place.BOTH._has(0, (Side.INGRESS, Side.EGRESS), Reliance, sees_undeclared=True)


class Stage(IntEnum):
    """The place inside an ADM at which a kind works, outermost first (rule R6)."""

    FILTER = 0
    ROUTING = 1
    UPSTREAM = 2
    CLUSTER = 3


class Port(NamedTuple):
    """A port of a service or external. Callers dial `number`; the process listens on `target`."""

    number: int
    protocol: Protocol
    target: int
    name: str | None = None


class Mark(StrEnum):
    """A word of the language by which a service can be relied on less."""

    NO_ADM = "no adm"
    UNTRUSTED = "untrusted"
    HOST_NETWORK = "host_network"


@dataclass(frozen=True, slots=True)
class Service:
    """A workload of the application. `hosts_adm` is False for `no adm` (rule R8)."""

    name: str
    ports: tuple[Port, ...]
    span: Span
    replicas: int = 1
    labels: Mapping[str, str] | None = None
    namespace: str = "default"
    capacity: float | None = None
    hosts_adm: bool = True
    trusted: bool = True
    host_network: bool = False
    note: Span | None = None
    """The place of `no adm`, `untrusted` or `host_network` in the program, at which conflicts point; None without
    one."""
    observed: Mapping[Mark, str] | None = None
    """The marks that a cluster shows and the program lacks, each with the reason."""

    @property
    def can_host(self) -> bool:
        """Whether the service can host an ADM (R8). A full mesh has a sidecar in each service that can."""
        return self.hosts_adm and not self.host_network

    def place(self, mark: Mark) -> Span:
        """The place of a mark in the program; if only the cluster shows the mark, that of the service's declaration."""
        return self.span if self.note is None or mark in (self.observed or ()) else self.note

    def shown(self, mark: Mark) -> str | None:
        """The reason for a mark that the cluster shows; None for a mark of the program."""
        return (self.observed or {}).get(mark)


@dataclass(frozen=True, slots=True)
class External:
    """A party outside the mesh: a client (its address ranges, if known), or a host that services call."""

    name: str
    span: Span
    ports: tuple[Port, ...] = ()
    hosts: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = ()


class Call(NamedTuple):
    """A directed edge on one port. Identity is (source, destination, port.number); there are no duplicates."""

    source: str
    destination: str
    port: Port
    span: Span
    rate: float | None = None
    """The declared rate; without one, the sum over the program's requests, if all that make the call have a rate."""
    size: int | None = None


class Verb(StrEnum):
    """What a kind does to a request or a response, if the order of policies can depend on it."""

    READS = "reads"
    WRITES = "writes"
    REJECTS = "rejects"
    DELAYS = "delays"
    REPEATS = "repeats"
    COUNTS = "counts"
    TIMES_OUT = "times_out"
    ROUTES = "routes"
    COPIES = "copies"


class Element(StrEnum):
    """The part of a request or response that `reads` and `writes` name."""

    HEADER = "header"
    PATH = "path"
    METHOD = "method"
    BODY = "body"
    STATUS = "status"
    RESPONSE_HEADER = "response_header"
    RESPONSE_BODY = "response_body"

    @property
    def on_response(self) -> bool:
        return self in (Element.STATUS, Element.RESPONSE_HEADER, Element.RESPONSE_BODY)


class Effect(NamedTuple):
    """One effect of one policy. `names` are headers in lower case, for the elements that are headers; None means every
    header."""

    verb: Verb
    element: Element | None = None
    names: frozenset[str] | None = None


class Template(NamedTuple):
    """A user's own Envoy filter: typed configuration in YAML with `${parameter}`, and the path of its file."""

    path: str
    text: str
    span: Span


class FileArgument(NamedTuple):
    """Value of a `file` parameter: the path from the program's folder, and the content at the time the program was
    loaded."""

    path: str
    content: bytes


Value = int | float | str | bool | FileArgument | tuple["Value", ...] | None
"""The value of a `service` parameter is `NAME`, or `NAME:NUMBER` if the program names the port (see `callee`)."""


def callee(value: Value) -> tuple[str, int | None]:
    """Name and port number of a `service` argument; the number is None if the argument names no port."""
    name, _, port = str(value).partition(":")
    return name, int(port) if port else None


class ParameterType(NamedTuple):
    """Type of a kind's parameter. `items` are the words of `one_of`, or the format of a `file`; `element` is the item
    type of a list."""

    name: str
    """int, float, bool, string, duration, size, percent, header, path, service, caller, file, one_of or list."""
    element: ParameterType | None = None
    items: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    """Least and largest value, if declared: `int(1..100)`, `duration(1ms..)`. For a `string`, its length in bytes."""
    step: float | None = None
    """Every value is a whole multiple of this: `duration(1ms.. by 1ms)`."""


class Weaker(StrEnum):
    """Which way a change of an argument makes a policy weaker: `@weaker(requests: more, per: less)`."""

    MORE = "more"
    LESS = "less"
    ADDED = "added"
    """Items that are added to a list."""
    REMOVED = "removed"


class Parameter(NamedTuple):
    name: str
    type: ParameterType
    optional: bool
    """The type ends in `?`: without an argument and a default, the value is None."""
    weaker: Weaker | None = None
    """None: whether a change of the argument makes a policy weaker is unknown."""


class Traits(NamedTuple):
    """Facts about a built-in kind for which the language has no annotation, and which other layers need.

    A user's kind has the defaults, since nothing is known of its template. `dsl/kinds/built_in.py` has the table.
    """

    idempotent: bool = False
    """A request that meets the policy twice leaves it as a request that meets it once."""
    judges_caller_alone: bool = False
    """A guard that admits the callers in its argument of type `[caller]` (without one: no caller) and that looks at
    nothing else of a request."""
    refuses_spellings: bool = False
    """A guard that refuses each path with another spelling (`dsl/values/spelling.py`)."""
    needs_argument: bool = False
    """Every parameter may be left out, but not all of them in one policy."""
    ejected_share: str | None = None
    """Name of the parameter with the share of a service's replicas, in percent, that the policy may eject."""
    counts_refused_connections: bool = False
    """At the egress of a `tcp` call, the policy acts on connections that the destination refuses. An ADM at the
    destination would accept all connections, and the policy would see no refusal."""
    repeats_dropped: tuple[str, ...] = ()
    """Words of the parameter `on` with which the policy repeats a request whose connection is never answered."""
    counts_dropped: bool = False
    """The policy counts a request whose connection is never answered as a failure of the destination."""
    grpc_method: str | None = None
    """Path of the gRPC method that an ADM calls at the service in the policy's arguments."""
    formats: tuple[tuple[str, str], ...] = ()
    """Parameters, each with the format of its text (`dsl/values/formats.py`), where the type alone allows too much."""
    no_stars_with: str | None = None
    """Name of the flag that, where it is true, makes clients take a `*` in the policy's lists for an ordinary name."""


NO_TRAITS = Traits()


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of policy with its capability annotations."""

    name: str
    parameters: tuple[Parameter, ...]
    protocols: frozenset[Protocol]
    sides: Mapping[Side, Stage]
    """The sides that the annotations allow, each with the stage at which the kind works there."""
    span: Span
    both: bool = False
    """The kind works at both ends together (rule R1); `sides` then has both."""
    guard: bool = False
    state: bool = False
    """The kind keeps state per destination (rule R5)."""
    per_replica: bool = False
    exclusive: bool = False
    """At most one policy of this kind may apply to a request."""
    effects: tuple[Effect, ...] | None = None
    """None if no effects are declared: then no proof shows that a policy of this kind commutes with another one."""
    component: str | None = None
    template: Template | None = None
    prelude: bool = False
    traits: Traits = NO_TRAITS
    network: bool = False
    """A NetworkPolicy alone can do what the kind does, if the policy judges every caller and has no match."""

    @property
    def places(self) -> frozenset[Place]:
        """The places that the annotations allow."""
        if self.both:
            return frozenset({Place.BOTH})
        return frozenset((*map(Place, self.sides), *((Place.NETWORK,) if self.network else ())))

    @property
    def declaration(self) -> tuple[Span, ...]:
        """The place at which the program declares the kind; empty for a built-in kind. A user cannot open the prelude,
        and files that are committed or compared must not name its lines."""
        return () if self.prelude else (self.span,)


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A kind with arguments, a scope and a match. Position in `Program.policies` is declared order."""

    name: str
    kind: Kind
    arguments: Mapping[str, Value]
    """Every parameter of the kind with its value, in the kind's order."""
    places: frozenset[Place]
    """Places that both the kind and the policy's own annotations allow; never empty. `NETWORK` is one of them only in
    a program with `network_policies enforced`, and only if a NetworkPolicy can say what the policy says."""
    sources: frozenset[str]
    """Selected services and externals, with or without a declared call."""
    open_sources: bool
    """The sources include `*`: every caller that can reach the destination (rule R7)."""
    destinations: tuple[str, ...]
    """Selected destinations with a port, by name."""
    calls: tuple[int, ...]
    """Indices into `Program.calls` of the declared calls in scope, ascending."""
    effects: tuple[Effect, ...] | None
    """The kind's effects with header names filled in, and the reads of `match`; None if the kind declares none."""
    span: Span
    ports: frozenset[int] | None = None
    """Port numbers of the scope (`on * -> b:admin`); None for every port."""
    match: Match | None = None
    narrowing: Span | None = None
    """The policy's own `@ingress` or `@egress`, if it has one."""
    accepts_drop: Span | None = None
    """The policy's `accept drop`: in the network, it may drop a declared call that it refuses."""
    home: Program | None = field(default=None, compare=False, repr=False)
    """The program that declares the callers of the policy, if another program holds the policy itself."""

    def named(self, type_name: str) -> tuple[str, ...]:
        """The values of the arguments of one type, such as `caller`, alone or in lists."""
        values: list[str] = []
        for parameter in self.kind.parameters:
            listed = parameter.type.element is not None and parameter.type.element.name == type_name
            value = self.arguments.get(parameter.name)
            if parameter.type.name == type_name and isinstance(value, str):
                values.append(value)
            elif listed and isinstance(value, tuple):
                values += (item for item in value if isinstance(item, str))
        return tuple(values)

    @property
    def sides(self) -> frozenset[Side]:
        """The sides of ADMs that may enforce the policy."""
        return frozenset(side for place in self.places for side in place.sides)


class Pin(NamedTuple):
    """`pin POLICY at PLACE [on SOURCES -> DESTINATIONS]` (rule R10), as one entry for each destination.

    By receiver atomicity (R2), a pin of one call pins all calls of the policy to that destination.
    """

    policy: str
    destination: str
    place: Place
    span: Span


class Metric(StrEnum):
    """`adms` counts ADMs, `sidecars` weighs them by replicas; `cpu`, `latency` and `overhead` come from profiles."""

    ADMS = "adms"
    SIDECARS = "sidecars"
    CPU = "cpu"
    LATENCY = "latency"
    CLOSED = "closed"
    """Destinations that a NetworkPolicy has to close to undeclared callers."""
    OVERHEAD = "overhead"
    """CPU cores, as `cpu`; the name in the default objective."""
    HOPS = "hops"
    """Requests an hour that pass the ports of ADMs, by the declared rates of calls."""


class Input(NamedTuple):
    """A file of the program."""

    path: str
    sha256: str


class ProfileSource(NamedTuple):
    """`profile "node.json"` with the text of the file, or `profile meshinsight`: a built-in one, without a text."""

    name: str
    """The path of the file, relative to the program's folder, or the name of a built-in profile."""
    span: Span
    text: SourceText | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """A whole application with its policies, which are in declared order. `services`, `externals`, `calls`, `kinds` and
    `pins` are in canonical order."""

    app: str
    services: Mapping[str, Service]
    externals: Mapping[str, External]
    calls: tuple[Call, ...]
    """Sorted by (destination, source, port number)."""
    kinds: Mapping[str, Kind]
    policies: tuple[Policy, ...]
    pins: tuple[Pin, ...]
    objective: tuple[Metric, ...]
    inputs: tuple[Input, ...]
    """The main file first, then all others by path."""
    source: SourceText
    """The main file."""
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    """Findings that are not errors or likely mistakes. No exit code depends on them."""
    profile: ProfileSource | None = None
    requests: tuple[Request, ...] = ()
    """Sorted by name. The rates of `calls` include those of the requests."""
    network_policies: Span | None = None
    """`network_policies enforced`: an operator states that the cluster's network plugin enforces NetworkPolicies."""
    accepts_host_network: Span | None = None
    """`accept host_network`: an operator accepts that traffic of a node's own passes NetworkPolicies."""

    @cached_property
    def policy_by_name(self) -> Mapping[str, Policy]:
        return {policy.name: policy for policy in self.policies}
