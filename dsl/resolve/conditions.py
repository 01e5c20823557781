"""Resolves the conditions of policies (`when`) to matches."""

from __future__ import annotations

import re

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.match import HOST, And, Comparison, Field, Match, Not, Operator, Or, comparisons, elements_of
from dsl.program import Effect, Element, Verb
from dsl.syntax import tree
from dsl.values.headers import header_name
from dsl.values.patterns import wrong_pattern
from dsl.vocabulary import other_meshes

MAX_COMPARISONS = 1000
MAX_LEVELS = 16
"""Most nested levels of `and`, `or` and `not`: Envoy accepts JSON of 100 levels, and each level of a condition takes
three of them."""
FIELDS = ("path", "method", "host", "header")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


def resolve_condition(condition: tree.Condition, diagnostics: Diagnostics) -> Match | None:
    """The match, or None after an error. Too many comparisons are reported, and the match is returned all the same."""
    return _Resolver(diagnostics).match(condition, 0)


class _Resolver:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.comparisons = 0

    def match(self, condition: tree.Condition, depth: int) -> Match | None:
        if depth == MAX_LEVELS and not isinstance(condition, tree.Comparison):
            self.diagnostics.error(
                "ADM006",
                f"this match is nested deeper than {MAX_LEVELS} levels",
                condition.span,
                cause="each `and` in an `or`, `or` in an `and`, and `not` is a level, and Envoy accepts no more levels",
                hint="write it as a list of alternatives: `a and b or a and c`",
            )
            return None
        if isinstance(condition, tree.Comparison):
            self.comparisons += 1
            if self.comparisons == MAX_COMPARISONS + 1:
                text = f"a match makes at most {MAX_COMPARISONS} comparisons"
                self.diagnostics.error("ADM414", text, condition.span, hint="use `matches` with one expression")
            return self._comparison(condition)
        if isinstance(condition, tree.Negation):
            operand = self.match(condition.operand, depth + 1)
            return None if operand is None else Not(operand)
        operands = [self.match(operand, depth + 1) for operand in tree.side_by_side(condition)]
        known = tuple(operand for operand in operands if operand is not None)
        if len(known) < len(operands):
            return None
        return And(known) if isinstance(condition, tree.Conjunction) else Or(known)

    def _comparison(self, comparison: tree.Comparison) -> Match | None:
        field = self._field(comparison)
        if field is None:
            return None
        operator = Operator(comparison.operator)
        wrong = wrong_pattern(comparison.value.value) if operator is Operator.MATCHES else None
        if wrong is not None:
            message, hint = wrong
            self.diagnostics.error("ADM407", message, comparison.value.span, hint=hint)
            return None
        if operator is Operator.MATCHES and field.name == "method" and not comparison.value.value.isascii():
            hint = "leave out letters that are not ASCII"
            self.diagnostics.error("ADM414", "a method contains only ASCII letters", comparison.value.span, hint=hint)
            return None
        if operator is not Operator.MATCHES and not self._value(comparison, field):
            return None
        value = comparison.value.value
        return Comparison(field, operator, value.lower() if _in_any_case(field, operator) else value)

    def _field(self, comparison: tree.Comparison) -> Field | None:
        name = comparison.field.text
        error = self.diagnostics.error
        if name not in FIELDS:
            hint = (
                other_meshes.field(name)
                or self.diagnostics.did_you_mean(name, FIELDS)
                or 'write `path`, `method`, `host` or `header("x-name")`'
            )
            error("ADM408", f"a request has no `{name}` to compare", comparison.field.span, hint=hint)
            return None
        if name != "header":
            if comparison.argument is not None:
                error("ADM408", f"`{name}` takes nothing in parentheses", comparison.span, hint=f"write `{name}`")
                return None
            return Field(name)
        if comparison.argument is None:
            error("ADM408", "the header has no name", comparison.field.span, hint='write `header("x-name")`')
            return None
        header = header_name(comparison.argument, self.diagnostics)
        return None if header is None else Field("header", header)

    def _value(self, comparison: tree.Comparison, field: Field) -> bool:
        text = comparison.value.value
        problem = None
        if field.name == "path":
            if not text.startswith("/") and text != "*":
                problem = "a path starts with `/`", f'write `"/{text[:60]}"`'
            elif "?" in text or "#" in text:
                problem = "a path is compared without its query", "leave out the part from `?` on"
        elif field.name == "method" and not _METHOD.fullmatch(text):
            problem = f"`{text[:40]}` is not a method", 'methods are words such as `"GET"`'
        if problem is None and not text.isprintable():
            problem = "no request has such a value", "leave out line breaks and control characters"
        if field.header is not None and problem is None and not _may_be_part(field.header, text):
            problem = (
                "a cookie contains neither `;` nor `,`",
                "compare with one cookie; combine several comparisons with `and`",
            )
        if field == HOST and problem is None and not text:
            problem = "a request without a host satisfies no comparison of `host`", 'write a name, `"api.example.com"`'
        if problem is None and not text and comparison.operator == "starts_with":
            problem = "every value starts with an empty string", "write how the value begins"
        if problem is None:
            return True
        self.diagnostics.error("ADM414", problem[0], comparison.value.span, hint=problem[1])
        return False


def _in_any_case(field: Field, operator: Operator) -> bool:
    return field == HOST and operator is not Operator.MATCHES


def _may_be_part(header: str, text: str) -> bool:
    """Whether a literal can equal, or begin, an element of the header's value."""
    of = elements_of(header)
    return of.whole or not set(of.separators) & set(text)


def what_it_reads(match: Match) -> set[Effect]:
    """The effects of a match: it reads the fields that it compares (rule R6)."""
    return {
        Effect(Verb.READS, Element(field.name))
        if field.carrier is None
        else Effect(Verb.READS, Element.HEADER, frozenset((field.carrier,)))
        for field, *_ in comparisons(match)
    }
