"""Turns reductions of the LALR parser into syntax nodes.

Each method is named after its rule in grammar.lark and gets the rule's children: nodes, tokens, and None for an
optional part that is not there. lark calls them while it parses, so no second tree is ever built.
"""

from __future__ import annotations

from typing import Any, cast

from lark import Token, Transformer

from dsl import syntax
from dsl.text import Span


class Located(Token):
    """A token that knows its source."""

    __slots__ = ("span",)
    span: Span


Children = list[Any]


def word(token: Located) -> syntax.Word:
    return syntax.Word(token.value, token.span)


def _operand(token: Located) -> syntax.Word | syntax.Number | syntax.String:
    if token.type == "NUMBER":
        return syntax.Number(token.value, token.span)
    if token.type == "STRING":
        return syntax.String(token.value, token.span)
    return syntax.Word(token.value, token.span)


def _port(token: Located | None) -> syntax.Word | syntax.Number | None:
    return None if token is None else cast("syntax.Word | syntax.Number", _operand(token))


def _number(token: Located | None) -> syntax.Number | None:
    return None if token is None else syntax.Number(token.value, token.span)


def _string(token: Located | None) -> syntax.String | None:
    return None if token is None else syntax.String(token.value, token.span)


def _value(child: Located | syntax.Value) -> syntax.Value:
    if isinstance(child, Located):
        operand = _operand(child)
        return syntax.Reference(operand, None, operand.span) if isinstance(operand, syntax.Word) else operand
    return child


def _to(first: Span, last: Span) -> Span:
    return Span(first.source, first.start, last.end)


def _present(children: Children) -> tuple[Any, ...]:
    return tuple(child for child in children if child is not None)


class Builder(Transformer[Located, Any]):
    """Spans of whole statements are set by the caller, who knows where a statement starts and ends."""

    def __init__(self, nowhere: Span) -> None:
        super().__init__()
        self._nowhere = nowhere

    def app(self, children: Children) -> syntax.App:
        return syntax.App(word(children[0]), self._nowhere)

    def use(self, children: Children) -> syntax.Use:
        return syntax.Use(syntax.String(children[0].value, children[0].span), self._nowhere)

    def topology(self, children: Children) -> syntax.Topology:
        return syntax.Topology(syntax.String(children[0].value, children[0].span), self._nowhere)

    def service(self, children: Children) -> syntax.Service:
        return syntax.Service(children[0], _present(children[1:]), self._nowhere)

    def external(self, children: Children) -> syntax.External:
        return syntax.External(children[0], _present(children[1:]), self._nowhere)

    def names(self, children: Children) -> tuple[syntax.Word, ...]:
        return tuple(word(child) for child in children)

    def attribute(self, children: Children) -> syntax.Attribute:
        keyword, value = children
        return syntax.Attribute(str(keyword), _operand(value), _to(keyword.span, value.span))

    def flag(self, children: Children) -> syntax.Flag:
        return syntax.Flag(" ".join(children), _to(children[0].span, children[-1].span))

    def labels(self, children: Children) -> syntax.Labels:
        return syntax.Labels(tuple(children[1:-1]), _to(children[0].span, children[-1].span))

    def port(self, children: Children) -> syntax.PortItem:
        protocol, name, number, target = children
        last = number if target is None else target
        return syntax.PortItem(
            word(protocol),
            None if name is None else word(name),
            syntax.Number(number.value, number.span),
            _number(target),
            _to(protocol.span, last.span),
        )

    def label(self, children: Children) -> syntax.Label:
        key, value = children
        return syntax.Label(key.value, value.value, _to(key.span, value.span))

    def own(self, children: Children) -> syntax.OwnLabel:
        return syntax.OwnLabel(children[0].value, children[0].span)

    def call(self, children: Children) -> syntax.Call:
        sources, destinations, *items = children
        return syntax.Call(sources, destinations, _present(items), self._nowhere)

    def callers(self, children: Children) -> tuple[syntax.Word, ...]:
        return self.names(children)

    def callees(self, children: Children) -> tuple[syntax.Reference, ...]:
        return tuple(children)

    def target(self, children: Children) -> syntax.Reference:
        name, port = children
        last = name if port is None else port
        return syntax.Reference(word(name), _port(port), _to(name.span, last.span))

    def annotations(self, children: Children) -> tuple[syntax.Annotation, ...]:
        return tuple(children)

    def annotation(self, children: Children) -> syntax.Annotation:
        at, name, *rest = children
        last = next((child for child in reversed(rest) if isinstance(child, Located)), name)
        arguments = tuple(child for child in rest if isinstance(child, syntax.AnnotationArgument))
        return syntax.Annotation(word(name), arguments, _to(at.span, last.span))

    def annotation_argument(self, children: Children) -> syntax.AnnotationArgument:
        given = [child for child in children if child is not None]
        inner = tuple(word(child) for child in given[1:-1])
        return syntax.AnnotationArgument(word(given[0]), inner, _to(given[0].span, given[-1].span))

    def kind(self, children: Children) -> syntax.Kind:
        annotations, name, parameters, protocols, template = children
        return syntax.Kind(annotations or (), word(name), parameters or (), protocols, _string(template), self._nowhere)

    def parameters(self, children: Children) -> tuple[syntax.Parameter, ...]:
        return tuple(children)

    def parameter(self, children: Children) -> syntax.Parameter:
        name, type_, default = children
        value = None if default is None else _value(default)
        last = type_.span if value is None else value.span
        return syntax.Parameter(word(name), type_, value, _to(name.span, last))

    def type(self, children: Children) -> syntax.TypeName:
        name, inner, closing, optional = children
        last = next(child for child in (optional, closing, name) if child is not None)
        bounds = inner[1:] if inner and inner[0] is None else ()
        items = inner if inner and inner[0] is not None else ()
        return syntax.TypeName(word(name), items, None, optional is not None, _to(name.span, last.span), *bounds)

    def range(
        self, children: Children
    ) -> tuple[None, syntax.Number | None, syntax.Number | None, syntax.Number | None]:
        low, high, step = children
        return None, _number(low), _number(high), _number(step)

    def list_type(self, children: Children) -> syntax.TypeName:
        opening, element, closing, optional = children
        span = _to(opening.span, (closing if optional is None else optional).span)
        return syntax.TypeName(syntax.Word("list", span), (), element, optional is not None, span)

    def list(self, children: Children) -> syntax.ListValue:
        items = tuple(_value(child) for child in children[1:-1] if child is not None)
        return syntax.ListValue(items, _to(children[0].span, children[-1].span))

    def policy(self, children: Children) -> syntax.Policy:
        annotations, name, kind, arguments, scope, condition = children
        return syntax.Policy(
            annotations or (), word(name), word(kind), arguments or (), scope, condition, self._nowhere
        )

    def arguments(self, children: Children) -> tuple[syntax.Argument, ...]:
        return tuple(children)

    def named(self, children: Children) -> syntax.Argument:
        value = _value(children[1])
        return syntax.Argument(word(children[0]), value, _to(children[0].span, value.span))

    def positional(self, children: Children) -> syntax.Argument:
        value = _value(children[0])
        return syntax.Argument(None, value, value.span)

    def scope(self, children: Children) -> syntax.Scope:
        sources, destinations = children
        return syntax.Scope(sources, destinations, _to(sources.span, destinations.span))

    def selection(self, children: Children) -> syntax.Selection:
        terms, without = children
        last = terms[-1] if without is None else without[-1]
        return syntax.Selection(terms, without or (), _to(terms[0].span, last.span))

    def terms(self, children: Children) -> tuple[syntax.Term, ...]:
        return tuple(children)

    def term(self, children: Children) -> syntax.Term:
        child, port = children
        atom: syntax.Atom
        if not isinstance(child, Located):
            atom = child
        elif child.type == "GLOB":
            atom = syntax.GlobAtom(child.value, child.span)
        else:
            atom = syntax.NameAtom(word(child), child.span)
        return syntax.Term(atom, _port(port), _to(atom.span, (atom if port is None else port).span))

    def set(self, children: Children) -> syntax.SetAtom:
        return syntax.SetAtom(children[1], _to(children[0].span, children[-1].span))

    def labels_atom(self, children: Children) -> syntax.LabelAtom:
        return syntax.LabelAtom(tuple(children[1:-1]), _to(children[0].span, children[-1].span))

    def disjunction(self, children: Children) -> syntax.Condition:
        if len(children) == 1:
            return cast("syntax.Condition", children[0])
        return syntax.Disjunction(tuple(children), _to(children[0].span, children[-1].span))

    def conjunction(self, children: Children) -> syntax.Condition:
        return syntax.Conjunction(tuple(children), _to(children[0].span, children[-1].span))

    def negation(self, children: Children) -> syntax.Negation:
        return syntax.Negation(children[1], _to(children[0].span, children[1].span))

    def comparison(self, children: Children) -> syntax.Comparison:
        field, argument, operator, value = children
        return syntax.Comparison(
            word(field),
            _string(argument),
            str(operator),
            syntax.String(value.value, value.span),
            _to(field.span, value.span),
        )

    def pin(self, children: Children) -> syntax.Pin:
        policy, side, scope = children
        return syntax.Pin(word(policy), word(side), scope, self._nowhere)

    def objective(self, children: Children) -> syntax.Objective:
        return syntax.Objective(tuple(word(child) for child in children), self._nowhere)
