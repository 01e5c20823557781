"""Builds syntax nodes from the reductions of the LALR parser.

Each method has the name of its rule in grammar.lark and receives the rule's children: nodes, tokens, and None for an
absent optional part. lark calls the methods while it parses, so it builds no tree of its own.
"""

from __future__ import annotations

from typing import Any, cast

from lark import Token, Transformer

from dsl.syntax import tree
from dsl.text import Span


class SpannedToken(Token):
    """A token of lark with its place in the source."""

    __slots__ = ("span",)
    span: Span


Children = list[Any]
"""The children of a rule: their types follow from the grammar, which the type checker does not know."""


def word(token: SpannedToken) -> tree.Word:
    return tree.Word(token.value, token.span)


def _operand(token: SpannedToken) -> tree.Word | tree.Number | tree.String:
    if token.type == "NUMBER":
        return tree.Number(token.value, token.span)
    if token.type == "STRING":
        return tree.String(token.value, token.span)
    return tree.Word(token.value, token.span)


def _port(token: SpannedToken | None) -> tree.Word | tree.Number | None:
    return None if token is None else cast("tree.Word | tree.Number", _operand(token))


def _number(token: SpannedToken | None) -> tree.Number | None:
    return None if token is None else tree.Number(token.value, token.span)


def _string(token: SpannedToken | None) -> tree.String | None:
    return None if token is None else tree.String(token.value, token.span)


def _value(child: SpannedToken | tree.Value) -> tree.Value:
    if isinstance(child, SpannedToken):
        operand = _operand(child)
        return tree.Reference(operand, None, operand.span) if isinstance(operand, tree.Word) else operand
    return child


def _to(first: Span, last: Span) -> Span:
    return Span(first.source, first.start, last.end)


def _present(children: Children) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


class Builder(Transformer[SpannedToken, Any]):
    """Builds the nodes. The parser sets the spans of whole statements, since it knows where these begin and end."""

    def __init__(self, nowhere: Span) -> None:
        super().__init__()
        self._nowhere = nowhere

    def app(self, children: Children) -> tree.App:
        return tree.App(word(children[0]), self._nowhere)

    def use(self, children: Children) -> tree.Use:
        return tree.Use(tree.String(children[0].value, children[0].span), self._nowhere)

    def topology(self, children: Children) -> tree.Topology:
        return tree.Topology(tree.String(children[0].value, children[0].span), self._nowhere)

    def service(self, children: Children) -> tree.Service:
        return tree.Service(children[0], _present(children[1:]), self._nowhere)

    def external(self, children: Children) -> tree.External:
        return tree.External(children[0], _present(children[1:]), self._nowhere)

    def names(self, children: Children) -> tuple[tree.Word, ...]:
        return tuple(word(child) for child in children)

    def attribute(self, children: Children) -> tree.Attribute:
        keyword, value = children
        return tree.Attribute(str(keyword), _operand(value), _to(keyword.span, value.span))

    def flag(self, children: Children) -> tree.Flag:
        return tree.Flag(" ".join(children), _to(children[0].span, children[-1].span))

    def labels(self, children: Children) -> tree.Labels:
        return tree.Labels(tuple(children[1:-1]), _to(children[0].span, children[-1].span))

    def port(self, children: Children) -> tree.PortItem:
        protocol, name, number, target = children
        last = number if target is None else target
        return tree.PortItem(
            word(protocol),
            None if name is None else word(name),
            tree.Number(number.value, number.span),
            _number(target),
            _to(protocol.span, last.span),
        )

    def label(self, children: Children) -> tree.Label:
        key, value = children
        return tree.Label(key.value, value.value, _to(key.span, value.span))

    def own(self, children: Children) -> tree.OwnLabel:
        return tree.OwnLabel(children[0].value, children[0].span)

    def call(self, children: Children) -> tree.Call:
        sources, destinations, *items = children
        return tree.Call(sources, destinations, _present(items), self._nowhere)

    def callers(self, children: Children) -> tuple[tree.Word, ...]:
        return self.names(children)

    def callees(self, children: Children) -> tuple[tree.Reference, ...]:
        return tuple(children)

    def target(self, children: Children) -> tree.Reference:
        name, port = children
        last = name if port is None else port
        return tree.Reference(word(name), _port(port), _to(name.span, last.span))

    def annotations(self, children: Children) -> tuple[tree.Annotation, ...]:
        return tuple(children)

    def annotation_line(self, children: Children) -> tree.AnnotationLine:
        return tree.AnnotationLine(children[0], self._nowhere)

    def annotation(self, children: Children) -> tree.Annotation:
        at, name, *rest = children
        last = next((child for child in reversed(rest) if isinstance(child, SpannedToken)), name)
        arguments = tuple(child for child in rest if isinstance(child, tree.AnnotationArgument))
        return tree.Annotation(word(name), arguments, _to(at.span, last.span))

    def annotation_argument(self, children: Children) -> tree.AnnotationArgument:
        given = [child for child in children if child is not None]
        inner = tuple(word(child) for child in given[1:-1])
        return tree.AnnotationArgument(word(given[0]), inner, _to(given[0].span, given[-1].span))

    def annotation_pair(self, children: Children) -> tree.AnnotationArgument:
        name, after = children
        return tree.AnnotationArgument(word(name), (), _to(name.span, after.span), word(after))

    def kind(self, children: Children) -> tree.Kind:
        annotations, name, parameters, protocols, template = children
        return tree.Kind(annotations or (), word(name), parameters or (), protocols, _string(template), self._nowhere)

    def parameters(self, children: Children) -> tuple[tree.Parameter, ...]:
        return tuple(children)

    def parameter(self, children: Children) -> tree.Parameter:
        name, type_, default = children
        value = None if default is None else _value(default)
        last = type_.span if value is None else value.span
        return tree.Parameter(word(name), type_, value, _to(name.span, last))

    def type(self, children: Children) -> tree.TypeName:
        name, inner, closing, optional = children
        last = next(child for child in (optional, closing, name) if child is not None)
        bounds = inner[1:] if inner and inner[0] is None else ()
        items = inner if inner and inner[0] is not None else ()
        return tree.TypeName(word(name), items, None, optional is not None, _to(name.span, last.span), *bounds)

    def range(self, children: Children) -> tuple[None, tree.Number | None, tree.Number | None, tree.Number | None]:
        low, high, step = children
        return None, _number(low), _number(high), _number(step)

    def list_type(self, children: Children) -> tree.TypeName:
        opening, element, closing, optional = children
        span = _to(opening.span, (closing if optional is None else optional).span)
        return tree.TypeName(tree.Word("list", span), (), element, optional is not None, span)

    def list(self, children: Children) -> tree.ListValue:
        items = tuple(_value(child) for child in children[1:-1] if child is not None)
        return tree.ListValue(items, _to(children[0].span, children[-1].span))

    def policy(self, children: Children) -> tree.Policy:
        annotations, name, kind, arguments, scope, condition, accept_drop = children
        return tree.Policy(
            annotations or (), word(name), word(kind), arguments or (), scope, condition, accept_drop, self._nowhere
        )

    def arguments(self, children: Children) -> tuple[tree.Argument, ...]:
        return tuple(children)

    def named(self, children: Children) -> tree.Argument:
        value = _value(children[1])
        return tree.Argument(word(children[0]), value, _to(children[0].span, value.span))

    def positional(self, children: Children) -> tree.Argument:
        value = _value(children[0])
        return tree.Argument(None, value, value.span)

    def scope(self, children: Children) -> tree.Scope:
        sources, destinations = children
        return tree.Scope(sources, destinations, _to(sources.span, destinations.span))

    def selection(self, children: Children) -> tree.Selection:
        terms, without = children
        last = terms[-1] if without is None else without[-1]
        return tree.Selection(terms, without or (), _to(terms[0].span, last.span))

    def terms(self, children: Children) -> tuple[tree.Term, ...]:
        return tuple(children)

    def term(self, children: Children) -> tree.Term:
        child, port = children
        atom: tree.Atom
        if not isinstance(child, SpannedToken):
            atom = child
        elif child.type == "GLOB":
            atom = tree.GlobAtom(child.value, child.span)
        else:
            atom = tree.NameAtom(word(child), child.span)
        return tree.Term(atom, _port(port), _to(atom.span, (atom if port is None else port).span))

    def set(self, children: Children) -> tree.SetAtom:
        return tree.SetAtom(children[1], _to(children[0].span, children[-1].span))

    def labels_atom(self, children: Children) -> tree.LabelAtom:
        return tree.LabelAtom(tuple(children[1:-1]), _to(children[0].span, children[-1].span))

    def disjunction(self, children: Children) -> tree.Condition:
        if len(children) == 1:
            return cast("tree.Condition", children[0])
        return tree.Disjunction(tuple(children), _to(children[0].span, children[-1].span))

    def conjunction(self, children: Children) -> tree.Condition:
        return tree.Conjunction(tuple(children), _to(children[0].span, children[-1].span))

    def negation(self, children: Children) -> tree.Negation:
        return tree.Negation(children[1], _to(children[0].span, children[1].span))

    def comparison(self, children: Children) -> tree.Comparison:
        field, argument, operator, value = children
        return tree.Comparison(
            word(field),
            _string(argument),
            str(operator),
            tree.String(value.value, value.span),
            _to(field.span, value.span),
        )

    def pin(self, children: Children) -> tree.Pin:
        policy, place, scope = children
        return tree.Pin(word(policy), word(place), scope, self._nowhere)

    def objective(self, children: Children) -> tree.Objective:
        return tree.Objective(tuple(word(child) for child in children), self._nowhere)

    def profile(self, children: Children) -> tree.Profile:
        (named,) = children
        if named.type == "STRING":
            return tree.Profile(tree.String(named.value, named.span), self._nowhere)
        return tree.Profile(word(named), self._nowhere)

    def network_policies(self, _: Children) -> tree.NetworkPolicies:
        return tree.NetworkPolicies(self._nowhere)

    def accept(self, _: Children) -> tree.Accept:
        return tree.Accept(self._nowhere)

    def request(self, children: Children) -> tree.Request:
        name, source, callee, *items = children
        return tree.Request(word(name), word(source), callee, _present(items), self._nowhere)

    def test(self, children: Children) -> tree.Test:
        name, expectation = children
        return tree.Test(word(name), expectation, self._nowhere)

    def expected_call(self, children: Children) -> tree.ExpectedCall:
        source, callee, *items, outcome = children
        selected = tuple(item for item in items if isinstance(item, tree.TestItem))
        return tree.ExpectedCall(word(source), callee, selected, outcome)

    def expected_adm(self, children: Children) -> tree.ExpectedAdm:
        no, _adm, at = children
        return tree.ExpectedAdm(no is None, at)

    def expected_number(self, children: Children) -> tree.ExpectedNumber:
        measure, operator, number = children
        return tree.ExpectedNumber(str(measure), str(operator), tree.Number(number.value, number.span))

    def refused(self, children: Children) -> tree.ExpectedOutcome:
        first, refused, by = children
        policies = () if by is None else (word(by),)
        return tree.ExpectedOutcome("refused", False, policies, _to(first.span, (refused if by is None else by).span))

    def admitted(self, children: Children) -> tree.ExpectedOutcome:
        first, admitted = children
        return tree.ExpectedOutcome("admitted", False, (), _to(first.span, admitted.span))

    def meets(self, children: Children) -> tree.ExpectedOutcome:
        first, only, names = children
        return tree.ExpectedOutcome("meets", only is not None, names, _to(first.span, names[-1].span))

    def test_item(self, children: Children) -> tree.TestItem:
        given = _present(children)
        absent = given[0].type == "NO"
        first, *others = given[absent:]
        operands = [token for token in others if token.type in ("STRING", "NAME")]
        span = _to(given[0].span, given[-1].span)
        if first.type in ("PATH", "METHOD", "HOST"):
            return tree.TestItem(str(first), False, None, _string(operands[0]), span)
        name, value = (*operands, None)[:2]
        if name.type == "NAME":
            return tree.TestItem(str(first), False, word(name), None, span)
        return tree.TestItem(str(first), absent, _string(name), _string(value), span)

    def gate(self, children: Children) -> tree.Gate:
        name, action, measure, _above, plus, limit = children
        number = None if limit is None else tree.Number(limit.value, limit.span)
        return tree.Gate(word(name), action.type == "FAIL", word(measure), plus is not None, number, self._nowhere)

    def step(self, children: Children) -> tree.Step:
        keyword, callee, *items = _present(children)
        last = items.pop() if items else callee
        return tree.Step(callee, tuple(items), _to(keyword.span, last.span))

    def together(self, children: Children) -> tree.Together:
        return tree.Together(tuple(children[1:-1]), _to(children[0].span, children[-1].span))

    def async_call(self, children: Children) -> tree.AsyncCall:
        keyword, step = children
        return tree.AsyncCall(step, _to(keyword.span, step.span))
