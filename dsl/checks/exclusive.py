"""Checks that at most one policy of an exclusive kind applies to a request.

Two such policies on one call need matches that are proven to exclude each other. Each policy compares the request in
the state in which the request reaches that policy. If a policy between the two writes a field that both compare, there
is no proof: the first match may hold before the write, and the second match after it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from dsl.checks.apart import Apart, required
from dsl.checks.disjoint import disjoint, writes_to, written_by
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS, Related
from dsl.match import comparisons
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.graph.application import Application
    from dsl.program import Policy

Place = int | tuple[str, int]
"""A declared call, by its index; or a destination and port, for undeclared callers."""


class _Rivals:
    """The policies of one exclusive kind, and which of them may hold for one request."""

    def __init__(self, application: Application, policies: Sequence[Policy], positions: Sequence[int]) -> None:
        self._application = application
        self._policies = policies
        self._positions = dict.fromkeys(positions)
        fields = {comparison.field for at in positions for comparison in comparisons(policies[at].match)}
        self._written = {at: written_by(policies[at]) for at in range(positions[0], positions[-1])}
        self._writers = {at for at, written in self._written.items() if written and any(map(written.has, fields))}
        self._required = {at: required(policies[at].match) for at in positions}
        self._proofs: dict[tuple[int, int, tuple[int, ...]], bool] = {}

    def clashes(self, limit: int) -> dict[tuple[int, int], tuple[Place, tuple[int, ...]]]:
        """Pairs of policies that may both hold, at most about `limit`; the later policy of a pair comes first.

        pair -> the first place where both may hold, and the policies between them that write a field of both matches
        """
        pairs: dict[tuple[int, int], tuple[Place, tuple[int, ...]]] = {}
        for met, place in self._meetings().items():
            for first, second, between in self._clashing(met):
                known = pairs.get((second, first))
                if known is None or _order(place) < _order(known[0]):
                    pairs[second, first] = place, between
                if len(pairs) >= limit:
                    return pairs
        return pairs

    def _meetings(self) -> dict[tuple[int, ...], Place]:
        """The rivals that requests meet at one place, with the writers between them, in declared order -> the first
        place with exactly these policies. Calls of one scope meet the same policies, and share one entry."""
        at: dict[Place, list[int]] = {}
        for position in self._positions:
            for place in places(self._application, self._policies[position]):
                at.setdefault(place, []).append(position)
        at = {place: met for place, met in at.items() if len(met) > 1}
        for position in self._writers - self._positions.keys():
            for place in places(self._application, self._policies[position]):
                if place in at:
                    at[place].append(position)
        meetings: dict[tuple[int, ...], Place] = {}
        for place, met in at.items():
            key = tuple(sorted(met)) if self._writers else tuple(met)
            if key not in meetings or _order(place) < _order(meetings[key]):
                meetings[key] = place
        return meetings

    def _clashing(self, met: Sequence[int]) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        writers = [position for position in met if position in self._writers]
        apart = Apart()
        for position in met:
            if position in self._positions:
                for other in apart.others(self._required[position]):
                    between = tuple(writers[bisect_left(writers, other) : bisect_left(writers, position)])
                    between = self._that_matter(other, position, between)
                    if not self._disjoint(other, position, between):
                        yield other, position, between
                apart.add(position, self._required[position])
            if position in self._writers:
                apart.write(self._written[position])

    def _that_matter(self, first: int, second: int, between: tuple[int, ...]) -> tuple[int, ...]:
        """The policies that may write a field which the matches of both compare."""
        one, other = self._policies[first].match, self._policies[second].match
        return tuple(
            at for at in between if writes_to(self._policies[at], one) and writes_to(self._policies[at], other)
        )

    def _disjoint(self, first: int, second: int, between: tuple[int, ...]) -> bool:
        key = first, second, between
        if key not in self._proofs:
            matches = self._policies[first].match, self._policies[second].match
            self._proofs[key] = disjoint(*matches, [self._policies[at] for at in between])
        return self._proofs[key]


def check_exclusive(application: Application, policies: Iterable[Policy], diagnostics: Diagnostics) -> None:
    """Reports pairs of policies of one exclusive kind, unless it is proven that no request meets both."""
    declared = tuple(policies)
    by_kind: dict[str, list[int]] = {}
    for position, policy in enumerate(declared):
        if policy.kind.exclusive:
            by_kind.setdefault(policy.kind.name, []).append(position)
    for positions in by_kind.values():
        if len(positions) < 2:
            continue
        clashes = _Rivals(application, declared, positions).clashes(MAX_DIAGNOSTICS)
        for (second, first), (place, between) in sorted(clashes.items(), key=lambda clash: clash[0]):
            writers = [declared[at] for at in between]
            _clash(application, declared[first], declared[second], writers, place, diagnostics)
            if diagnostics.full:
                return


def _order(place: Place) -> tuple[int, int, str]:
    """A key for the order of places: declared calls come first."""
    return (0, place, "") if isinstance(place, int) else (1, place[1], place[0])


def places(application: Application, policy: Policy) -> Iterator[Place]:
    """The declared calls of a policy; and the ports of services in its scope, if its sources include `*` and its kind
    works at ingress."""
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
