"""Describes the property of Envoy that keeps a request from meeting two policies in declared order (R6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Place, Stage, Verb

if TYPE_CHECKING:
    from collections.abc import Collection

    from dsl.program import Policy

_ACTS: Final = {
    Stage.ROUTING: "acts when an ADM routes the request, after all filters",
    Stage.UPSTREAM: "acts after routing",
    Stage.CLUSTER: "acts after all filters",
}


def order_fact(first: Policy, firsts: Collection[Place], second: Policy, seconds: Collection[Place]) -> str | None:
    """Return why no request can meet `first` before `second` at any of the places that remain for the two policies.

    None if the two policies alone do not explain that.
    """
    shared = sorted(set(firsts) & set(seconds))
    if shared:
        return _in_one_adm(first, second, shared[0])
    if set(firsts) == {Place.INGRESS} and set(seconds) == {Place.EGRESS}:
        return f"`{first.name}` can be at ingress only and `{second.name}` at egress only, and egress comes first"
    return None


def _in_one_adm(first: Policy, second: Policy, place: Place) -> str | None:
    (side,) = place.sides
    stage, other = first.kind.sides[side], second.kind.sides[side]
    if stage > other:
        return f"`{first.kind.name}` {_ACTS[stage]}{'' if other is Stage.FILTER else _beyond(other)}"
    if stage is Stage.ROUTING:
        verbs = {effect.verb for effect in second.effects or ()}
        if Verb.COPIES in verbs:
            return f"`{second.kind.name}` acts once for each request, before retries, timeouts and splits"
        return f"`{first.kind.name}` acts once for each request, inside of its retries and timeouts"
    return None


def _beyond(stage: Stage) -> str:
    return " and after routing" if stage is Stage.ROUTING else " and after what acts after routing"
