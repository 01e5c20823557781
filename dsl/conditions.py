"""`when`: the syntax of a match against what requests have."""

from __future__ import annotations

import re
import warnings

from dsl import syntax
from dsl.diagnostics import Diagnostics, did_you_mean
from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from dsl.program import Effect, Element, Verb
from dsl.scan import MAX_DEPTH
from dsl.values import Bad, header_name

MAX_PATTERN = 1024
MAX_COMPARISONS = 1000
FIELDS = ("path", "method", "header")
_METHOD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")


def resolve_condition(condition: syntax.Condition, diagnostics: Diagnostics) -> Match | None:
    """The match, or None after an error."""
    return _Resolver(diagnostics).match(condition, 0)


class _Resolver:
    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.comparisons = 0

    def match(self, condition: syntax.Condition, depth: int) -> Match | None:
        if depth > MAX_DEPTH:
            self.diagnostics.error(
                "ADM006", f"this match is nested deeper than {MAX_DEPTH} levels", condition.span, hint="simplify it"
            )
            return None
        if isinstance(condition, syntax.Comparison):
            self.comparisons += 1
            if self.comparisons == MAX_COMPARISONS:
                text = f"a match makes at most {MAX_COMPARISONS} comparisons"
                self.diagnostics.error("ADM414", text, condition.span, hint="use `matches` with one expression")
            return self._comparison(condition)
        if isinstance(condition, syntax.Negation):
            operand = self.match(condition.operand, depth + 1)
            return None if operand is None else Not(operand)
        operands = [self.match(operand, depth + 1) for operand in condition.operands]
        known = tuple(operand for operand in operands if operand is not None)
        if len(known) < len(operands):
            return None
        return And(known) if isinstance(condition, syntax.Conjunction) else Or(known)

    def _comparison(self, comparison: syntax.Comparison) -> Match | None:
        field = self._field(comparison)
        if field is None:
            return None
        operator = Operator(comparison.operator)
        wrong = _pattern(comparison.value.value) if operator is Operator.MATCHES else None
        if wrong is not None:
            message, hint = wrong
            self.diagnostics.error("ADM407", message, comparison.value.span, hint=hint)
            return None
        if operator is not Operator.MATCHES and not self._value(comparison, field):
            return None
        return Comparison(field, operator, comparison.value.value)

    def _field(self, comparison: syntax.Comparison) -> Field | None:
        name = comparison.field.text
        error = self.diagnostics.error
        if name not in FIELDS:
            hint = did_you_mean(name, FIELDS) or 'write `path`, `method` or `header("x-name")`'
            error("ADM408", f"a request has no `{name}` to compare", comparison.field.span, hint=hint)
            return None
        if name != "header":
            if comparison.argument is not None:
                error("ADM408", f"`{name}` takes nothing in parentheses", comparison.span, hint=f"write `{name}`")
                return None
            return Field(name)
        if comparison.argument is None:
            error("ADM408", "this does not say which header", comparison.field.span, hint='write `header("x-name")`')
            return None
        header = header_name(comparison.argument, self.diagnostics)
        return None if isinstance(header, Bad) else Field("header", header)

    def _value(self, comparison: syntax.Comparison, field: Field) -> bool:
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
        if problem is None and not text and comparison.operator == "starts_with":
            problem = "every value starts with an empty string", "write how the value begins"
        if problem is None:
            return True
        self.diagnostics.error("ADM414", problem[0], comparison.value.span, hint=problem[1])
        return False


_FORBIDDEN = (
    ("(?=", "a lookahead"),
    ("(?!", "a lookahead"),
    ("(?<=", "a lookbehind"),
    ("(?<!", "a lookbehind"),
    ("(?P=", "a backreference"),
    ("(?(", "a condition"),
    ("(?>", "an atomic group"),
    ("(?#", "a comment"),
)
_POSSESSIVE = re.compile(r"[*+?}]\+")
_REPEAT = re.compile(r"\{(\d*)(?:,(\d*))?\}")
MAX_REPEAT = 1000


def _pattern(text: str) -> tuple[str, str | None] | None:
    """What is wrong with a regular expression, as (message, hint). Envoy runs it with RE2."""
    if len(text) > MAX_PATTERN:
        return f"a regular expression has at most {MAX_PATTERN} characters", "use several comparisons with `or`"
    if not text.isprintable():
        return "a regular expression has no control characters in it", "write `\\\\n` for the two characters of `\\n`"
    found = _unsupported(text)
    if found is not None:
        return f"a regular expression cannot have {found}", "RE2, which runs it, keeps linear time by leaving that out"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(text)
    except re.error as error:
        place = "" if error.pos is None else f" at character {error.pos + 1}"
        hint = "a backslash is written `\\\\` in a string" if "escape" in error.msg else None
        return f"this is not a regular expression: {error.msg}{place}", hint
    except (OverflowError, RecursionError):
        return "this regular expression is too large", None
    return None


def _unsupported(text: str) -> str | None:
    """What Python's syntax has and RE2's has not. Classes and escapes are skipped: inside them all of it is plain."""
    index = 0
    in_class = False
    while index < len(text):
        letter = text[index]
        if letter == "\\":
            following = text[index + 1 : index + 2]
            if following.isdigit() and following != "0" and not in_class:
                return f"a backreference (`\\{following}`)"
            if following == "Z":
                return "`\\Z`; the whole value has to match in any case"
            index += 2
            continue
        if in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
            # A bracket that comes first in a class is plain.
            index += len(re.match(r"\^?\]?", text[index + 1 :])[0])  # type: ignore[index]
        else:
            for start, what in _FORBIDDEN:
                if text.startswith(start, index):
                    return f"{what} (`{start}`)"
            if _POSSESSIVE.match(text, index):
                return f"a possessive repetition (`{text[index : index + 2]}`)"
            repeat = _REPEAT.match(text, index)
            if repeat and any(len(n) > 4 or int(n) > MAX_REPEAT for n in repeat.groups() if n):
                return f"a repetition of more than {MAX_REPEAT} times"
        index += 1
    return None


def what_it_reads(match: Match) -> set[Effect]:
    """A match reads what it compares (rule R6)."""
    if isinstance(match, Comparison):
        field = match.field
        if field.header is not None:
            return {Effect(Verb.READS, Element.HEADER, frozenset((field.header,)))}
        return {Effect(Verb.READS, Element(field.name))}
    if isinstance(match, Not):
        return what_it_reads(match.operand)
    return set().union(*(what_it_reads(operand) for operand in match.operands))
