"""Comparisons and matches (`when`) that no request can satisfy, or that do not mean what they seem to mean.

A guard with such a match looks right and refuses nothing: an error if that is certain. All else is a warning. The check
looks at each comparison by itself, also at one behind a `not`. If none of these is certainly wrong, it looks for the
first conjunction, and at last for the first alternative, that no request can satisfy.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from dsl.checks.possible import METHODS, impossible
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from dsl.expressions.syntax import alternatives
from dsl.match import HOST, And, Comparison, Match, Not, Operator, Or
from dsl.program import Kind, Protocol
from dsl.syntax import tree
from dsl.text import quoted
from dsl.values.patterns import wrong_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_ALTERNATIVES: Final = 64
"""Most alternatives of one match that are looked at."""
_PLACEHOLDER: Final = re.compile(r"\*|\{[^{}/]+\}|<[^<>/]+>|/:[A-Za-z_]\w*(?=/|\Z)")
_STAR_OF_SLASHES: Final = re.compile(r"[\w/.~-]*/\*")
_ENDS_WITH_STAR: Final = re.compile(r".*[\w.-]\*", re.DOTALL)


class _Reason(NamedTuple):
    """Why a comparison does not mean what it seems to mean. `certain`: an error in a guard; otherwise a warning."""

    code: str
    message: str
    cause: str
    hint: str
    certain: bool = True


def check_match(
    kind: Kind, condition: tree.Condition, match: Match, protocols: frozenset[Protocol], diagnostics: Diagnostics
) -> None:
    """Reports comparisons that never hold, always hold or are likely mistakes; otherwise the first conjunction or
    alternative that never holds. Warns of a guard that compares the host. `protocols` are those of the requests in
    scope."""
    nodes = list(_nodes(condition, match))
    certain = False
    if kind.guard:
        _warn_of_hosts(kind, nodes, diagnostics)
    for node, part in nodes:
        if isinstance(node, tree.Comparison) and isinstance(part, Comparison):
            reason = _reason(part, protocols)
            if reason is not None:
                certain |= reason.certain
                _report(reason, kind, node, diagnostics)
    if not certain:
        for node, part, whole in _combinations(condition, match, nodes):
            if impossible(whole, protocols):
                _report(_contradiction(node, part, match), kind, node, diagnostics)
                return


def _warn_of_hosts(kind: Kind, nodes: list[tuple[tree.Condition, Match]], diagnostics: Diagnostics) -> None:
    node = next((node for node, part in nodes if isinstance(part, Comparison) and part.field == HOST), None)
    if node is not None:
        reason = _Reason(
            "ADM429",
            f"the client chooses the host that this `{kind.name}` compares",
            "a server that looks at no `Host` serves the same request under any other",
            "let the guard depend on the caller or the path, or make sure that the service refuses other hosts",
            certain=False,
        )
        _report(reason, kind, node, diagnostics)


def _report(reason: _Reason, kind: Kind, node: tree.Condition, diagnostics: Diagnostics) -> None:
    severity = Severity.ERROR if kind.guard and reason.certain else Severity.WARNING
    diagnostics.add(Diagnostic(reason.code, severity, reason.message, node.span, reason.cause, reason.hint))


# ---- parts of a match ----


def _nodes(condition: tree.Condition, match: Match) -> Iterator[tuple[tree.Condition, Match]]:
    """Every part of a match with the text that it comes from, inner parts first."""
    if isinstance(condition, tree.Negation) and isinstance(match, Not):
        yield from _nodes(condition.operand, match.operand)
    elif isinstance(condition, tree.Conjunction | tree.Disjunction) and isinstance(match, And | Or):
        for node, part in zip(tree.side_by_side(condition), match.operands, strict=True):
            yield from _nodes(node, part)
    yield condition, match


def _combinations(
    condition: tree.Condition, match: Match, nodes: list[tuple[tree.Condition, Match]]
) -> Iterator[tuple[tree.Condition, Match, Match]]:
    """The combinations that some request has to satisfy, each as (text, part, match).

    They are each conjunction, the match itself, and the match with one alternative in place of an `or`.
    """
    for node, part in nodes:
        if isinstance(part, And):
            yield node, part, part
    yield condition, match, match
    for count, (node, part, whole) in enumerate(_alternatives(condition, match)):
        if count == MAX_ALTERNATIVES:
            return
        yield node, part, whole


def _alternatives(condition: tree.Condition, match: Match) -> Iterator[tuple[tree.Condition, Match, Match]]:
    """Each operand of each `or`, with the match that has the operand in place of the `or`."""
    if isinstance(condition, tree.Conjunction | tree.Disjunction) and isinstance(match, And | Or):
        pairs = list(zip(tree.side_by_side(condition), match.operands, strict=True))
        for index, (node, part) in enumerate(pairs):
            if isinstance(match, Or):
                yield node, part, part
            for inner, alternative, whole in _alternatives(node, part):
                rest = (*match.operands[:index], whole, *match.operands[index + 1 :])
                yield inner, alternative, whole if isinstance(match, Or) else And(rest)


def _contradiction(node: tree.Condition, part: Match, match: Match) -> _Reason:
    if isinstance(part, Comparison | Not | Or) and part is not match:
        return _Reason(
            "ADM426",
            "this alternative holds for no request",
            "what stands beside it excludes it",
            "remove it, or move it out of the `and`",
        )
    return _Reason(
        "ADM426",
        "no request satisfies this match" if part is match else "no request satisfies all of this",
        "its comparisons exclude one another, and a request has one path, one method and one host",
        "join alternatives with `or`" if isinstance(part, And) else "remove what contradicts the rest",
    )


# ---- single comparisons ----


def _reason(comparison: Comparison, protocols: frozenset[Protocol]) -> _Reason | None:
    field, operator, value = comparison
    if field.header == "host":
        return _header_of_host(comparison)
    if operator is Operator.MATCHES:
        if field.name == "path" and _STAR_OF_SLASHES.fullmatch(value):
            return _star_of_slashes(value)
    elif field.name == "path" and not value.isascii():
        return _Reason(
            "ADM426",
            "no client sends a path with letters beyond ASCII",
            "clients escape their bytes, and HTTP/1 has no other form",
            f"write `path {operator} {quoted(quote(value, safe=string.punctuation))}`",
        )
    elif field.name == "method" and (several := _several_methods(operator, value)):
        return _Reason(
            "ADM427",
            f"`{value[:60]}` is one method, and not several",
            "letters such as `|` and `*` may stand in the name of a method, and no client sends one like this",
            f"write {several}",
        )
    elif field.name == "method" and value not in METHODS and value.upper() in METHODS:
        return _Reason(
            "ADM419",
            f"the method `{value}` is not `{value.upper()}`",
            "methods are compared exactly, and clients send this method in capitals",
            f'write `"{value.upper()}"`',
        )
    else:
        star = placeholder(comparison)
        if star is not None:
            return _literal_star(comparison, star)
        if field.header is not None and not field.header.startswith("accept") and _ENDS_WITH_STAR.fullmatch(value):
            return _literal_star(comparison, "*")._replace(certain=False)
    if impossible(comparison, protocols):
        return _impossible(comparison, protocols, "no request")
    if operator is Operator.NOT_EQUALS and impossible(comparison._replace(operator=Operator.EQUALS), protocols):
        return _impossible(comparison, protocols, "every request")
    if operator is Operator.MATCHES and field.name == "path":
        return _dead_alternative(comparison, protocols)
    if field.header is not None and operator is not Operator.MATCHES and value != value.lstrip(" \t"):
        return _blanks(value.lstrip(" \t"))
    if field.header is not None and operator in (Operator.EQUALS, Operator.NOT_EQUALS) and value != value.rstrip(" \t"):
        return _blanks(value.rstrip(" \t"))
    return None


def _several_methods(operator: Operator, value: str) -> str | None:
    """The advice for a method that looks like several methods or all of them; None for any other method."""
    if value == "*":
        return "no `method`, which means all of them"
    words = value.split("|")
    if len(words) == 1 or not all(word.upper() in METHODS for word in words):
        return None
    return f'`{"not " * (operator is Operator.NOT_EQUALS)}method matches "{value.upper()}"`'


def _header_of_host(comparison: Comparison) -> _Reason:
    _, operator, value = comparison
    name = value if operator is Operator.MATCHES else _name_of_host(value)
    return _Reason(
        "ADM428",
        'the value of `header("host")` has many spellings: with a port, a final dot, or in other letters',
        "clients send `api`, `api:8080`, `API` or `api.` for the same host, and this compares the text as it is",
        f"write `host {operator} {quoted(name)}`, which means all of them",
    )


def _blanks(value: str) -> _Reason:
    return _Reason(
        "ADM426",
        "no value of a header begins or ends with a blank",
        "proxies and servers remove such blanks",
        f"write `{quoted(value[:60])}`",
    )


def placeholder(comparison: Comparison) -> str | None:
    """The part of a literal that stands for other text in many languages, and for itself in this one (`*`, `{id}`);
    None without such a part, and for every header."""
    field, operator, value = comparison
    if operator is Operator.MATCHES or field.header is not None or value == "*":
        return None
    match = _PLACEHOLDER.search(value)
    return None if match is None else match[0]


def _literal_star(comparison: Comparison, star: str) -> _Reason:
    field, operator, value = comparison
    what = f"header({quoted(field.header)})" if field.header is not None else field.name
    shown = star.lstrip("/")
    before, _, after = value.partition(star)
    before += "/" * star.startswith("/")
    start = "not " if operator is Operator.NOT_EQUALS else ""
    letters = {"path": "[^/]+", "host": "[^.]+"}.get(field.name, ".+")
    exact = "".join(
        letters if part == "\0" else re.sub(r"[^\w/-]", r"[\g<0>]", part)
        for part in re.split("(\0)", _PLACEHOLDER.sub(lambda it: "/" * it[0].startswith("/") + "\0", value))
    )
    exact += ".*" * (operator is Operator.STARTS_WITH and not exact.endswith(letters))
    expression = f"`{start}{what} matches {quoted(exact)}`"
    prefix = f"`{start}{what} starts_with {quoted(before)}`"
    hint = f"write {expression}"
    if shown == "*" and not after.strip("*") and before:
        hint = f"write {prefix}, or {expression.replace(letters, '.*')}"
    return _Reason(
        "ADM427",
        f"`{shown}` stands for itself in `{operator}`, and not for other text",
        f"only a {field.name} with exactly these characters would fit",
        hint,
    )


def _star_of_slashes(value: str) -> _Reason:
    return _Reason(
        "ADM427",
        "`/*` stands for any number of `/` in an expression",
        "in `matches`, `*` repeats what stands before it",
        f"write `path starts_with {quoted(value[:-1])}`, or `matches {quoted(value[:-1] + '.*')}`",
        certain=False,
    )


def _impossible(comparison: Comparison, protocols: frozenset[Protocol], requests: str) -> _Reason:
    field = comparison.field
    name = "header" if field.header is not None else field.name
    cause, hint = _why(comparison, protocols)
    return _Reason("ADM426", f"this comparison of the {name} holds for {requests}", cause, hint)


def _dead_alternative(comparison: Comparison, protocols: frozenset[Protocol]) -> _Reason | None:
    for text in alternatives(comparison.value):
        part = comparison._replace(value=text)
        if impossible(part, protocols):
            cause, hint = _why(part, protocols)
            return _Reason("ADM426", f"the alternative `{text[:60]}` of this expression matches no path", cause, hint)
    return None


def _why(comparison: Comparison, protocols: frozenset[Protocol]) -> tuple[str, str]:
    """The cause and a hint."""
    field, operator, value = comparison
    if field.header == "cookie":
        return "a cookie contains neither `;` nor `,`", "compare with one cookie; combine comparisons with `and`"
    if field.header is not None:
        return "the value of a header has no control characters", "leave out line breaks and control characters"
    if field.name == "host" and not value.isascii():
        return "clients send a host in ASCII", "write its name as `xn--...`"
    if field.name == "host":
        return "a host has no scheme, no port, no path and no final dot", _host_hint(value)
    if protocols == {Protocol.GRPC}:
        if field.name == "method":
            return "the method of every gRPC request is `POST`", "compare the path: `/package.Service/Method`"
        if not impossible(comparison, (Protocol.HTTP,)):
            return "the path of a gRPC request is `/package.Service/Method`", "name the service and the method"
    if field.name == "method":
        return "a method is one word, and clients send it in capitals", 'write `method == "GET"`'
    if operator is Operator.MATCHES:
        return _why_no_match(comparison, protocols)
    return "a path begins with `/`, and has no blanks, no query and no fragment", "write the path as a client sends it"


def _why_no_match(comparison: Comparison, protocols: frozenset[Protocol]) -> tuple[str, str]:
    value = comparison.value
    whole = "an expression has to match the whole path, from its first `/` on"
    anchored = f"/{value.removeprefix('^')}"
    for better in (f".*({value}).*" if "|" in value else f".*{value}.*", anchored):
        if value and wrong_pattern(better) is None and not impossible(comparison._replace(value=better), protocols):
            return whole, f"write `matches {quoted(better)}`"
    if "?" in value or "#" in value:
        return "a path is compared without its query", "leave out the part from the `?` on"
    return "a path begins with `/`, and has no blanks, no query and no fragment", "write the path as a client sends it"


def _name_of_host(value: str) -> str:
    name = re.sub(r"\A[a-z][a-z0-9+.-]*://", "", value.lower())
    if name.count(":") > 1 and "[" not in name:
        return f"[{name}]"
    return re.sub(r"(:\d*)?(/.*)?\Z", "", name).rstrip(".")


def _host_hint(value: str) -> str:
    name = _name_of_host(value)
    return f"write `{quoted(name)}`" if name and name != value else 'write a name such as `"api.example.com"`'
