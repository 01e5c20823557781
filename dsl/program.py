"""The resolved program: every name looked up, every unit converted, every default filled in.

This is the only thing that the solver and the emitters know of the language. All of it is immutable, and every
element keeps the span of the line that a user would change.

    text -> syntax tree -> [Program] -> placement -> plan -> emit

Units: durations are microseconds, sizes are bytes, rates are requests (tcp: connections) per second, percents are
0..100, capacity is CPU cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import NamedTuple

from dsl.diagnostics.diagnostic import Diagnostic
from dsl.match import Match
from dsl.text import SourceText, Span


class Protocol(StrEnum):
    TCP = "tcp"
    HTTP = "http"
    GRPC = "grpc"


class Side(StrEnum):
    """`ingress` is at the destination, `egress` at the source."""

    INGRESS = "ingress"
    EGRESS = "egress"

    @property
    def other(self) -> Side:
        return Side.EGRESS if self is Side.INGRESS else Side.INGRESS


class Stage(IntEnum):
    """Where inside one ADM a kind works, outermost first (rule R6)."""

    FILTER = 0
    ROUTING = 1
    UPSTREAM = 2
    CLUSTER = 3


class Port(NamedTuple):
    """A port of a service. `number` is dialled by callers, `target` is where the process listens."""

    number: int
    protocol: Protocol
    target: int
    name: str | None = None


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
    """Where `no adm`, `untrusted` or `host_network` is written, if anywhere: what a conflict points at."""


@dataclass(frozen=True, slots=True)
class External:
    """A party outside the mesh: a client of it (cidrs, possibly unknown) or a host that it calls."""

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
    size: int | None = None


class Verb(StrEnum):
    """What a kind does to a request or a response, as far as order can matter."""

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
    """What `reads` and `writes` are about."""

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
    """One effect of one policy. `names` are the lower-case headers meant; None means every header."""

    verb: Verb
    element: Element | None = None
    names: frozenset[str] | None = None


class Template(NamedTuple):
    """A user's own Envoy filter: YAML typed config with `${param}` places, and where it came from."""

    path: str
    text: str
    span: Span


class FileArgument(NamedTuple):
    """Value of a `file` parameter: the path as written and the content, read when the program was loaded."""

    path: str
    content: bytes


Value = int | float | str | bool | FileArgument | tuple["Value", ...] | None
"""Of a `service` parameter: `NAME`, or `NAME:NUMBER` where the program says which port (see `callee`)."""


def callee(value: Value) -> tuple[str, int | None]:
    """Name and port number of a `service` argument; None where the callee has one port only."""
    name, _, port = str(value).partition(":")
    return name, int(port) if port else None


class ParameterType(NamedTuple):
    """Type of a kind's parameter. `items` are the words of `one_of`; `element` is the item type of a list."""

    name: str
    """int, float, bool, string, duration, size, percent, header, path, service, caller, file, one_of or list."""
    element: ParameterType | None = None
    items: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    """Least and largest value, where the kind says so: `int(1..100)`, `duration(1ms..)`. Of a `string`, its bytes."""
    step: float | None = None
    """What every value is a whole multiple of: `duration(1ms.. by 1ms)`."""


class Parameter(NamedTuple):
    name: str
    type: ParameterType
    optional: bool
    """True where the argument may be left out and is then None."""


class Traits(NamedTuple):
    """Facts about a built-in kind that other layers ask for, and that the language has no annotation for.

    A kind of a user has the defaults, since nothing is known of its template. `dsl/kinds/built_in.py` has the table.
    """

    idempotent: bool = False
    """A request that meets the policy twice leaves it as a request that meets it once."""
    judges_caller_alone: bool = False
    """A guard that admits the callers in its argument of type `[caller]` (without one: no caller) and that looks at
    nothing else of a request."""
    needs_argument: bool = False
    """Every parameter may be left out, but not all of them in one policy."""
    ejected_share: str | None = None
    """Name of the parameter with the share of a service's replicas, in percent, that the policy may eject."""
    grpc_method: str | None = None
    """Path of the gRPC method that an ADM calls at the service in the policy's arguments."""
    formats: tuple[tuple[str, str], ...] = ()
    """Parameters, each with the format of its text (`dsl/values/formats.py`), where the type alone allows too much."""


NO_TRAITS = Traits()


@dataclass(frozen=True, slots=True)
class Kind:
    """A type of policy with its capability annotations."""

    name: str
    parameters: tuple[Parameter, ...]
    protocols: frozenset[Protocol]
    sides: Mapping[Side, Stage]
    """The sides that the annotations allow, and the stage at which the kind works there."""
    span: Span
    both: bool = False
    """Needs both ends (rule R1); `sides` then has both."""
    guard: bool = False
    state: bool = False
    """Keeps state per destination (rule R5)."""
    per_replica: bool = False
    exclusive: bool = False
    """At most one policy of this kind on one call and match."""
    effects: tuple[Effect, ...] | None = None
    """None: nothing is declared, so nothing is proven to commute with it."""
    component: str | None = None
    template: Template | None = None
    prelude: bool = False
    traits: Traits = NO_TRAITS


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A kind with arguments, a scope and a match. Position in `Program.policies` is declared order."""

    name: str
    kind: Kind
    arguments: Mapping[str, Value]
    """Every parameter of the kind, defaults filled in, in the kind's order."""
    sides: frozenset[Side]
    """Sides that the kind and the policy's own narrowing both allow; never empty."""
    sources: frozenset[str]
    """Selected services and externals, declared to call or not."""
    open_sources: bool
    """The sources were written with `*`: every caller able to reach the destination is meant (rule R7)."""
    destinations: tuple[str, ...]
    """Selected destinations in canonical (name) order. Never holds one that has no port."""
    calls: tuple[int, ...]
    """Indices into `Program.calls` of the declared calls in scope, ascending."""
    effects: tuple[Effect, ...] | None
    """The kind's effects with header names filled in, plus what `match` reads."""
    span: Span
    ports: frozenset[int] | None = None
    """Port numbers the scope is narrowed to (`on * -> b:admin`); None: every port."""
    match: Match | None = None
    narrowing: Span | None = None
    """The policy's own `@ingress` or `@egress`, if it has one."""
    home: Program | None = field(default=None, compare=False, repr=False)
    """Where its callers are to be looked up; None: in the program that it stands in."""


class Pin(NamedTuple):
    """`pin POLICY at SIDE [on SOURCES -> DESTINATIONS]` (rule R10), one entry for each destination meant.

    Receiver atomicity (R2) makes a pin on one call a pin of all the policy's calls to that destination.
    """

    policy: str
    destination: str
    side: Side
    span: Span


class Metric(StrEnum):
    """`adms` counts ADMs, `sidecars` weighs them by replicas, `cpu` and `latency` come from profiles."""

    ADMS = "adms"
    SIDECARS = "sidecars"
    CPU = "cpu"
    LATENCY = "latency"
    OVERHEAD = "overhead"
    """CPU cores, like `cpu`; the name the default objective uses."""


class Input(NamedTuple):
    """A file that the program was read from: the main file first, then all others by path."""

    path: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Program:
    """A whole application with its policies. `services`, `externals`, `calls` and `pins` are in canonical order."""

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
    source: SourceText
    """The main file."""
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    """What is worth knowing and not wrong. Apart from the warnings, since no exit code may depend on it."""

    @cached_property
    def policy_by_name(self) -> Mapping[str, Policy]:
        return {policy.name: policy for policy in self.policies}
