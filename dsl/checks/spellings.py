"""Warns of guards that a client can pass by another spelling of a path.

Many servers take `//admin` for `/admin`, but `path == "/admin"` does not hold for `//admin`. A guard acts where its
match holds, so a client can pass the guard if one spelling of a path satisfies the match and another one does not. An
earlier guard on the same calls that refuses other spellings (`normal_paths`) leaves one spelling of each path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.checks.disjoint import disjoint, writes_to
from dsl.checks.exclusive import places
from dsl.checks.possible import answer
from dsl.match import Comparison, Field, Match, Not, Operator, comparisons
from dsl.program import Protocol
from dsl.selecting import holds
from dsl.values.spelling import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl.checks.exclusive import Place
    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.graph.application import Application
    from dsl.program import Policy
    from dsl.syntax import tree

MAX_TRIED: Final = 20
"""Most examples, and most directories for each, that are tried."""
_SHOWN: Final = 80
_PATH: Final = Comparison(Field("path"), Operator.EQUALS, "/")


class _Before(NamedTuple):
    """A policy that refuses other spellings, and the places at which no later policy has written the path."""

    policy: Policy
    places: frozenset[Place]


def warn_of_spellings(
    application: Application, policies: Sequence[Policy], scopes: Mapping[str, tree.Scope], diagnostics: Diagnostics
) -> None:
    """Warns once for each guard for which `other_spelling` finds a spelling that passes it, unless earlier policies
    refuse other spellings for all requests that the guard may meet over http."""
    before: list[_Before] = []
    for policy in policies:
        if before and writes_to(policy, _PATH):
            # The written path may be another spelling: `rewrite_path("/a", "/")` makes `//admin` of `/a/admin`.
            written = set(places(application, policy))
            before = [earlier._replace(places=earlier.places - written) for earlier in before]
        if policy.kind.guard and policy.match is not None:
            spelling = other_spelling(policy.match)
            if spelling is not None and not _covered(application, policy, before):
                _warn(policy, scopes[policy.name].span.text, *spelling, diagnostics)
        if policy.kind.traits.refuses_spellings:
            before.append(_Before(policy, frozenset(places(application, policy))))


def other_spelling(match: Match) -> tuple[str, str] | None:
    """A path in its normal form that satisfies a match, and another spelling of it that does not; None if the search
    finds no such path."""
    paths = [comparison for comparison in comparisons(match) if comparison.field.name == "path"]
    if not paths:
        return None
    directories = [
        example.path
        for comparison in paths[:MAX_TRIED]
        for example in answer(comparison._replace(operator=_positive(comparison)), Protocol.HTTP).examples[:1]
        if example.path and example.path == normal_path(example.path)
    ]
    for example in answer(match, Protocol.HTTP).examples[:MAX_TRIED]:
        path = example.path
        if path is None or not path.startswith("/") or path != normal_path(path):
            continue
        # Another alternative of the match may hold for one method, whatever the path.
        for method in dict.fromkeys((example.method, "GET", "POST", "DELETE")):
            request = example._replace(method=method)
            for other in _spellings(path, directories) if holds(match, request) else ():
                if not holds(match, request._replace(path=other)):
                    return path, other
    return None


def _spellings(path: str, directories: Sequence[str]) -> Iterator[str]:
    yield f"/{path}"
    yield f"/.{path}"
    yield f"/x/..{path}"
    letters = [index for index, letter in enumerate(path) if letter.isascii() and letter.isalnum()]
    for index in dict.fromkeys((*letters[:1], *letters[-1:])):
        if path[max(0, index - 2) : index].count("%") == 0:
            yield f"{path[:index]}%{ord(path[index]):02x}{path[index + 1 :]}"
    for directory in directories:
        inside = directory.rstrip("/")
        yield f"{inside}{'/..' * inside.count('/')}{path}"


def _positive(comparison: Comparison) -> Operator:
    return Operator.EQUALS if comparison.operator is Operator.NOT_EQUALS else comparison.operator


def _covered(application: Application, policy: Policy, before: Sequence[_Before]) -> bool:
    """Whether every request over http that the guard may meet has met a policy that refuses other spellings."""
    at = (place for place in places(application, policy) if _protocol(application, place) is Protocol.HTTP)
    if not before:
        return next(at, None) is None
    met = {place for earlier in before if _for_all_of(policy, earlier.policy) for place in earlier.places}
    return all(place in met for place in at)


def _for_all_of(policy: Policy, other: Policy) -> bool:
    """Whether `other` applies to each spelling of every request that `policy` is meant for."""
    if other.match is None:
        return True
    path = any(comparison.field.name == "path" for comparison in comparisons(other.match))
    return not path and disjoint(policy.match, Not(other.match))


def _protocol(application: Application, place: Place) -> Protocol:
    if isinstance(place, int):
        return application.calls[place].port.protocol
    name, number = place
    return next(port.protocol for port in application.services[name].ports if port.number == number)


def _warn(policy: Policy, scope: str, path: str, other: str, diagnostics: Diagnostics) -> None:
    on = f"on {scope}" if len(scope) <= _SHOWN and "\n" not in scope else "on the same calls"
    diagnostics.warning(
        "ADM430",
        f"a request for `{other[:_SHOWN]}` is no request for `{path[:_SHOWN]}` to `{policy.name}`",
        policy.span,
        cause="a path is compared as the client sent it, and many servers take these for the same path",
        hint=f"declare `policy paths = normal_paths() {on}` before it, which refuses other spellings",
    )
