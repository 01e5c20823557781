"""Whether a request can satisfy a match (`when`), and an example of one that does.

    match, protocol -> conjunctions -> for each: shapes of requests -> [languages of each field] -> Answer

The checks of a program, `admc try` and the tests share these answers. "No" is a proof: a match that is too large, or
that has an expression which is not analysed, counts as possible.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.checks.disjoint import Literal, conjunctions
from dsl.expressions.automata import Condition, Words, expression, shortest
from dsl.expressions.syntax import UndecidedError
from dsl.match import HOST, Field, Match, Operator, elements_of
from dsl.program import Protocol
from dsl.selecting import Example, holds, satisfies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class _Shape(NamedTuple):
    """Requests of one form: an expression for each field."""

    method: str | None
    """None for any method."""
    path: str | None
    """None for requests without a path."""


METHODS: Final = ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
_COMMON_METHODS: Final = "|".join(METHODS)
# Methods are compared exactly, and no client sends one of the usual methods in other letters.
_MISSPELT: Final = f"(?i:{_COMMON_METHODS})"
_METHODS: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Letters that a path can have. `?` begins a query, and `#` a fragment.
_PATH_LETTER: Final = r"[^\x00-\x20\x7f?#]"
_SHAPES: Final[Mapping[Protocol, tuple[_Shape, ...]]] = {
    Protocol.HTTP: (_Shape(None, f"/{_PATH_LETTER}*"), _Shape("OPTIONS", r"\*"), _Shape("CONNECT", None)),
    # The method follows the last `/`; some servers put a path of their own before the name of the service.
    Protocol.GRPC: (_Shape("POST", f"/{_PATH_LETTER}+/{_PATH_LETTER}+"),),
    Protocol.TCP: (),
}
# Envoy refuses an authority with letters beyond ASCII.
_NOT_IN_NAMES: Final = r"\x00-\x20A-Z:/?#@\[\]*\x7f-\x{10ffff}"
_NAMES: Final = rf"[^{_NOT_IN_NAMES}]*[^.{_NOT_IN_NAMES}]"
_HOSTS: Final = rf"\[[0-9a-f:.]+\]|{_NAMES}"
_VALUES: Final = r"[^\x00-\x08\x0a-\x1f\x7f]*"
_COOKIES: Final = r"[^\x00-\x08\x0a-\x1f\x7f;,]*"
_ELEMENT_LETTER: Final = r"\x00-\x1f\x7f;,"
_PLAIN_ELEMENTS: Final = rf"[^ {_ELEMENT_LETTER}](?:[^{_ELEMENT_LETTER}]*[^ {_ELEMENT_LETTER}])?"
"""Elements without blanks around them, which are the same as a whole value and in a list."""


class Answer(NamedTuple):
    """Whether a request can satisfy a match. `examples` are requests that do, at most one for each way and shape; none
    may be known."""

    possible: bool
    examples: tuple[Example, ...] = ()


def impossible(match: Match | None, protocols: Iterable[Protocol]) -> bool:
    """Whether it is proven that no request of these protocols satisfies a match."""
    return match is not None and not any(answer(match, protocol).possible for protocol in protocols)


@lru_cache(maxsize=8192)
def answer(match: Match, protocol: Protocol) -> Answer:
    """Whether a request of a protocol can satisfy a match, with examples."""
    ways = conjunctions(match)
    if ways is None:
        return Answer(possible=True)
    answers = [_way(way, shape) for way in ways for shape in _SHAPES[protocol]]
    examples = (example for way in answers for example in way.examples)
    return Answer(
        any(way.possible for way in answers),
        tuple(dict.fromkeys(example for example in examples if holds(match, example))),
    )


def _way(literals: Iterable[Literal], shape: _Shape) -> Answer:
    """A request of a shape that satisfies all literals."""
    fields: dict[Field, list[Literal]] = {}
    for literal in literals:
        fields.setdefault(literal.comparison.field, []).append(literal)
    known: dict[Field, str | None] = {}
    certain = True
    for field, given in {Field("method"): [], Field("path"): [], **fields}.items():
        try:
            known[field] = _header(field.header, given) if field.header is not None else _value(field, given, shape)
        except UndecidedError:
            certain = False
        except _NothingError:
            return Answer(possible=False)
    if not certain:
        return Answer(possible=True)
    host = known.pop(HOST, None)
    headers = {field.header: value for field, value in known.items() if field.header and value is not None}
    if host is not None:
        headers.setdefault("host", host)
    method = known[Field("method")] or ""
    return Answer(True, (Example(method, known[Field("path")], tuple(sorted(headers.items()))),))


class _NothingError(Exception):
    """No value satisfies the literals."""


def _value(field: Field, literals: Sequence[Literal], shape: _Shape) -> str | None:
    """The value of the host, the method or the path; None if the request has none.

    Raises `UndecidedError`, `_NothingError`.
    """
    if field == HOST:
        return _host(literals) if any(map(_asserted, literals)) else None
    if field.name == "method":
        return _search((_COMMON_METHODS, _METHODS) if shape.method is None else (shape.method,), field, literals)
    if shape.path is not None:
        return _search((shape.path,), field, literals)
    if any(map(_asserted, literals)):
        raise _NothingError
    return None


def _host(literals: Sequence[Literal]) -> str:
    """A host that satisfies the literals. `==` compares the host without a final dot, and the other operators compare
    it with and without the dot. No expression matches an IPv6 address."""
    if any(_asserted(literal) and _equals(literal) for literal in literals):
        return _search((_HOSTS,), HOST, literals)
    expressions = any(literal.comparison.operator is Operator.MATCHES for literal in literals)
    return _search((_NAMES, rf"{_NAMES}\.") if expressions else (_HOSTS, rf"{_NAMES}\."), HOST, literals)


def _header(header: str, literals: Sequence[Literal]) -> str | None:
    """The value of a header, with one element for each literal that has to hold; None if there is no such literal.

    No element satisfies a literal that must not hold. Raises `UndecidedError`, `_NothingError`.
    """
    of = elements_of(header)
    denied = [literal for literal in literals if not _asserted(literal)]
    elements = [
        _search((_PLAIN_ELEMENTS, _VALUES if of.whole else _COOKIES), Field("header", header), [literal, *denied])
        for literal in literals
        if _asserted(literal)
    ]
    return ("," if of.whole else "; ").join(elements) if elements else None


def _search(bases: Sequence[str], field: Field, literals: Sequence[Literal]) -> str:
    """The shortest text that satisfies all literals, in the first language of `bases` that has one. Raises as
    `_value`."""
    for base in bases:
        text = _text(base, field, literals) if literals else _any(base)
        if text is not None:
            return text
    raise _NothingError


@lru_cache(maxsize=64)
def _any(base: str) -> str | None:
    return shortest([Condition(expression(base))])


def _text(base: str, field: Field, literals: Sequence[Literal]) -> str | None:
    conditions = [Condition(expression(base))]
    if base == _METHODS:
        conditions.append(Condition(expression(_MISSPELT), wanted=False))
    equal = [literal.comparison.value for literal in literals if _asserted(literal) and _equals(literal)]
    if equal:
        fits = all(condition.language.matches(equal[0]) is condition.wanted for condition in conditions)
        return equal[0] if fits and all(_satisfied(literal, equal[0]) for literal in literals) else None
    beginnings = [""]
    unequal: list[str] = []
    other_beginnings: list[str] = []
    for literal in literals:
        comparison = literal.comparison
        if _equals(literal):
            unequal.append(comparison.value)
        elif comparison.operator is Operator.STARTS_WITH:
            (beginnings if _asserted(literal) else other_beginnings).append(comparison.value)
        else:
            text = f"(?i:{comparison.value})" if field == HOST else comparison.value
            conditions.append(Condition(expression(text), _asserted(literal)))
    beginning = max(beginnings, key=len)
    if not all(map(beginning.startswith, beginnings)):
        return None
    if unequal:
        conditions.append(Condition(Words(unequal), wanted=False))
    if other_beginnings:
        conditions.append(Condition(Words(other_beginnings, prefixes=True), wanted=False))
    return shortest(conditions, beginning)


def _asserted(literal: Literal) -> bool:
    return literal.positive is (literal.comparison.operator is not Operator.NOT_EQUALS)


def _equals(literal: Literal) -> bool:
    return literal.comparison.operator in (Operator.EQUALS, Operator.NOT_EQUALS)


def _satisfied(literal: Literal, value: str) -> bool:
    operator = Operator.EQUALS if _equals(literal) else literal.comparison.operator
    return satisfies(literal.comparison._replace(operator=operator), value) is _asserted(literal)
