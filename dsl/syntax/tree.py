"""The syntax tree: the statements as written, before any name is resolved.

Statements and names keep their span. Numbers keep their text, because the allowed units depend on the place of the
number, which the resolver knows.
"""

from __future__ import annotations

from typing import NamedTuple

from dsl.text import SourceText, Span


class Word(NamedTuple):
    """A name, or a word in the place of a name."""

    text: str
    span: Span


class Number(NamedTuple):
    """A number with its unit, as written: `5000`, `250ms`, `800/s`, `10%`."""

    text: str
    span: Span


class String(NamedTuple):
    """A string with its escapes replaced; the span includes the quotes."""

    value: str
    span: Span


class Reference(NamedTuple):
    """`name` or `name:port`: one end of a call, or an argument that names a callee."""

    name: Word
    port: Word | Number | None
    span: Span


class ListValue(NamedTuple):
    items: tuple[Value, ...]
    span: Span


Value = Number | String | Reference | ListValue


# ---- bodies of services, externals, calls and requests ----


class PortItem(NamedTuple):
    protocol: Word
    name: Word | None
    number: Number
    target: Number | None
    span: Span


class Attribute(NamedTuple):
    """`replicas 2`, `namespace shop`, `rate 800/s`, `chance 10%`: a keyword and its value."""

    name: str
    value: Number | String | Word
    span: Span


class Flag(NamedTuple):
    """`no adm`, `untrusted`, `host_network` of a service; `accept drop` of a policy."""

    name: str
    span: Span


class Label(NamedTuple):
    key: str
    value: str
    span: Span


class OwnLabel(NamedTuple):
    """A label without a value; its value is the name of the service."""

    key: str
    span: Span


class Labels(NamedTuple):
    labels: tuple[Label | OwnLabel, ...]
    span: Span


BodyItem = PortItem | Attribute | Flag | Labels


# ---- selectors ----


class NameAtom(NamedTuple):
    name: Word
    span: Span


class GlobAtom(NamedTuple):
    """A name with `*` in it; `*` alone selects all names."""

    pattern: str
    span: Span


class LabelAtom(NamedTuple):
    labels: tuple[Label, ...]
    span: Span


class SetAtom(NamedTuple):
    terms: tuple[Term, ...]
    span: Span


Atom = NameAtom | GlobAtom | LabelAtom | SetAtom


class Term(NamedTuple):
    atom: Atom
    port: Word | Number | None
    span: Span


class Selection(NamedTuple):
    terms: tuple[Term, ...]
    without: tuple[Term, ...]
    span: Span


class Scope(NamedTuple):
    sources: Selection
    destinations: Selection
    span: Span


# ---- matches ----


class Comparison(NamedTuple):
    field: Word
    argument: String | None
    operator: str
    value: String
    span: Span


class Negation(NamedTuple):
    operand: Condition
    span: Span


class Conjunction(NamedTuple):
    operands: tuple[Condition, ...]
    span: Span


class Disjunction(NamedTuple):
    operands: tuple[Condition, ...]
    span: Span


Condition = Comparison | Negation | Conjunction | Disjunction


def side_by_side(condition: Conjunction | Disjunction) -> list[Condition]:
    """The operands of an `and`, with each nested `and` replaced by its own operands; for `or` in the same way."""
    operands: list[Condition] = []
    left = list(reversed(condition.operands))
    while left:
        operand = left.pop()
        if isinstance(operand, Conjunction | Disjunction) and type(operand) is type(condition):
            left.extend(reversed(operand.operands))
        else:
            operands.append(operand)
    return operands


# ---- statements ----


class App(NamedTuple):
    name: Word
    span: Span


class Use(NamedTuple):
    path: String
    span: Span


class Topology(NamedTuple):
    path: String
    span: Span


class Service(NamedTuple):
    names: tuple[Word, ...]
    items: tuple[BodyItem, ...]
    span: Span


class External(NamedTuple):
    names: tuple[Word, ...]
    items: tuple[BodyItem, ...]
    span: Span


class Call(NamedTuple):
    sources: tuple[Word, ...]
    destinations: tuple[Reference, ...]
    items: tuple[Attribute, ...]
    span: Span


class Step(NamedTuple):
    """`call geo { chance 10%  call db }` in the braces of a request."""

    callee: Reference
    items: tuple[RequestItem, ...]
    span: Span


class Together(NamedTuple):
    steps: tuple[Step, ...]
    span: Span


class AsyncCall(NamedTuple):
    step: Step
    span: Span


RequestItem = Attribute | Step | Together | AsyncCall


class Request(NamedTuple):
    name: Word
    source: Word
    callee: Reference
    items: tuple[RequestItem, ...]
    span: Span


class AnnotationArgument(NamedTuple):
    """`counts`, `reads(header)` or `requests: more`."""

    name: Word
    inner: tuple[Word, ...]
    span: Span
    after: Word | None = None
    """The word after `:`."""


class Annotation(NamedTuple):
    name: Word
    arguments: tuple[AnnotationArgument, ...]
    span: Span


class AnnotationLine(NamedTuple):
    """Annotations on a line of their own. They belong to the kind or policy that follows."""

    annotations: tuple[Annotation, ...]
    span: Span


class TypeName(NamedTuple):
    """`int`, `one_of(a, b)`, `[string]`, each perhaps with `?`. A list has an `element` and the name `list`."""

    name: Word
    items: tuple[Word, ...]
    element: TypeName | None
    optional: bool
    span: Span
    low: Number | None = None
    high: Number | None = None
    step: Number | None = None


class Parameter(NamedTuple):
    name: Word
    type: TypeName
    default: Value | None
    span: Span


class Kind(NamedTuple):
    annotations: tuple[Annotation, ...]
    name: Word
    parameters: tuple[Parameter, ...]
    protocols: tuple[Word, ...]
    template: String | None
    span: Span


class Argument(NamedTuple):
    name: Word | None
    value: Value
    span: Span


class Policy(NamedTuple):
    annotations: tuple[Annotation, ...]
    name: Word
    kind: Word
    arguments: tuple[Argument, ...]
    scope: Scope
    condition: Condition | None
    accept_drop: Flag | None
    span: Span


class Pin(NamedTuple):
    policy: Word
    place: Word
    scope: Scope | None
    span: Span


class Objective(NamedTuple):
    metrics: tuple[Word, ...]
    span: Span


class Profile(NamedTuple):
    """`profile "node.json"`, or `profile meshinsight` for a built-in one."""

    named: String | Word
    span: Span


class NetworkPolicies(NamedTuple):
    """`network_policies enforced`."""

    span: Span


class Accept(NamedTuple):
    """`accept host_network`."""

    span: Span


# ---- tests ----


class TestItem(NamedTuple):
    """`path "/a"`, `method "GET"`, `header("x") "1"`, `no header("x")`, `passes POLICY`; `word` is the first keyword
    that is not `no`."""

    word: str
    absent: bool
    name: String | Word | None
    """The header's name, or the policy of `passes`."""
    value: String | None
    span: Span


class ExpectedOutcome(NamedTuple):
    """`is refused by P`, `is admitted`, `meets P, Q`, `meets only P`; `word` is `refused`, `admitted` or `meets`."""

    word: str
    only: bool
    policies: tuple[Word, ...]
    span: Span


class ExpectedCall(NamedTuple):
    source: Word
    callee: Reference
    items: tuple[TestItem, ...]
    outcome: ExpectedOutcome


class ExpectedAdm(NamedTuple):
    """`adm at SELECTOR`, or `no adm at SELECTOR`."""

    present: bool
    at: Selection


class ExpectedNumber(NamedTuple):
    """`adms <= 4`."""

    measure: str
    operator: str
    number: Number


class Test(NamedTuple):
    name: Word
    expectation: ExpectedCall | ExpectedAdm | ExpectedNumber
    span: Span


# ---- gates ----


class Gate(NamedTuple):
    """`gate NAME = fail when MEASURE > +10%`."""

    name: Word
    fails: bool
    measure: Word
    added: bool
    """Whether the limit begins with `+`, and so limits the change instead of the new amount."""
    limit: Number | None
    span: Span


Statement = (
    App
    | Use
    | Topology
    | Service
    | External
    | Call
    | Kind
    | Policy
    | Pin
    | Objective
    | Profile
    | Request
    | NetworkPolicies
    | Accept
    | Test
    | Gate
)


class Broken(NamedTuple):
    """A statement that does not parse. It keeps the names that it declares, so that uses of them are no errors."""

    keyword: str
    names: tuple[str, ...]
    span: Span


Declared = Statement | Broken


class Module(NamedTuple):
    """One parsed file."""

    source: SourceText
    statements: tuple[Declared, ...]
