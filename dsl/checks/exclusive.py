"""At most one policy of an exclusive kind applies to a request.

Two such policies on one call need matches that are proven to exclude each other. Each match sees the request as it is
at its own policy. If a policy between the two writes a field that they compare, nothing is proven: the first match may
hold before the write, and the second after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.checks.disjoint import disjoint, writes_to
from dsl.diagnostics.diagnostic import Related
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.graph.application import Application
    from dsl.program import Policy

Place = int | tuple[str, int]
"""A declared call, by its index; or a destination and port, for undeclared callers."""


class _DeclaredPolicies:
    """All policies in declared order, with the places at which requests meet each."""

    def __init__(self, application: Application, policies: Sequence[Policy]) -> None:
        self.application = application
        self.policies = policies
        self._places: dict[str, frozenset[Place]] = {}
        self._writers: dict[tuple[int, int], tuple[Policy, ...]] = {}

    def writers(self, first: _Rival, second: _Rival, place: Place) -> tuple[Policy, ...]:
        """The policies from the first rival up to the second that a request meets at `place`, and that may write a
        field which the match of either compares."""
        pair = first.position, second.position
        if pair not in self._writers:
            self._writers[pair] = tuple(
                policy
                for policy in self.policies[first.position : second.position]
                if writes_to(policy, first.policy.match) and writes_to(policy, second.policy.match)
            )
        return tuple(policy for policy in self._writers[pair] if place in self._at(policy))

    def _at(self, policy: Policy) -> frozenset[Place]:
        found = self._places.get(policy.name)
        if found is None:
            found = self._places[policy.name] = frozenset(_places(self.application, policy))
        return found


class _Rival(NamedTuple):
    position: int
    policy: Policy


def check_exclusive(application: Application, policies: Iterable[Policy], diagnostics: Diagnostics) -> None:
    """Report pairs of policies of one exclusive kind that may apply to one request."""
    declared = _DeclaredPolicies(application, tuple(policies))
    by_kind: dict[str, list[_Rival]] = {}
    for position, policy in enumerate(declared.policies):
        if policy.kind.exclusive:
            by_kind.setdefault(policy.kind.name, []).append(_Rival(position, policy))
    for rivals in by_kind.values():
        if len(rivals) > 1:
            _check_rivals(declared, rivals, diagnostics)


def _check_rivals(declared: _DeclaredPolicies, rivals: Sequence[_Rival], diagnostics: Diagnostics) -> None:
    at: dict[Place, list[_Rival]] = {}
    proven: set[tuple[int, int, tuple[str, ...]]] = set()
    clashing: set[tuple[int, int]] = set()
    for rival in rivals:
        for place in _places(declared.application, rival.policy):
            earlier = at.setdefault(place, [])
            for other in earlier:
                pair = other.position, rival.position
                if pair in clashing:
                    continue
                between = declared.writers(other, rival, place)
                key = (*pair, tuple(policy.name for policy in between))
                if key in proven or disjoint(other.policy.match, rival.policy.match, between):
                    proven.add(key)
                    continue
                clashing.add(pair)
                _clash(declared.application, other.policy, rival.policy, between, place, diagnostics)
                if diagnostics.full:
                    return
            earlier.append(rival)


def _places(application: Application, policy: Policy) -> Iterator[Place]:
    """The places at which requests meet a policy."""
    yield from policy.calls
    if not policy.open_sources or Side.INGRESS not in policy.kind.sides:
        return
    for destination in policy.destinations:
        service = application.services.get(destination)
        for port in () if service is None else service.ports:
            if port.protocol in policy.kind.protocols and (policy.ports is None or port.number in policy.ports):
                yield destination, port.number


def _clash(
    application: Application,
    first: Policy,
    second: Policy,
    between: Sequence[Policy],
    place: Place,
    diagnostics: Diagnostics,
) -> None:
    cause = f"at most one `{second.kind.name}` can apply to a request"
    hint = "narrow one of them with `except` or another scope, or give both a `when` that excludes the other"
    related = [Related(first.span, f"`{first.name}` is here")]
    if between and disjoint(first.match, second.match):
        names = " and ".join(f"`{policy.name}`" for policy in between[:2])
        names += f" and {len(between) - 2} more" if len(between) > 2 else ""
        cause += f", and {names} may write a field between the two that their matches compare"
        hint = "declare both before that policy or both after it, or compare other fields in their matches"
        related += (Related(policy.span, f"`{policy.name}` is here") for policy in between[:2] if policy is not first)
    elif first.match is not None and second.match is not None:
        cause += ", and nothing proves that their matches never hold together"
    if isinstance(place, int):
        call = application.calls[place]
        where = f"on the call `{call.source} -> {call.destination}`"
        related.append(Related(call.span, "the call is declared here"))
    else:
        where = f"on undeclared calls to `{place[0]}`"
    diagnostics.error(
        "ADM402",
        f"`{first.name}` and `{second.name}` are both {where}",
        second.span,
        cause=cause,
        hint=hint,
        related=tuple(related),
    )
