"""The effects of policies, as plans have them, for the rules of order (rule R6)."""

from __future__ import annotations

from functools import lru_cache

from admc.compile.plan.model import EffectRow, PolicyContent
from dsl.program import Effect, Verb
from solver.rules import effects as rules

Effects = tuple[Effect, ...] | None
"""None: nothing is known."""


@lru_cache(maxsize=4096)
def _effects(rows: tuple[EffectRow, ...] | None) -> Effects:
    if rows is None:
        return None
    return tuple(Effect(row.verb, row.element, None if row.names is None else frozenset(row.names)) for row in rows)


def of(content: PolicyContent) -> Effects:
    return _effects(content.effects)


@lru_cache(maxsize=1 << 16)
def _commute(one: Effects, other: Effects) -> bool:
    return rules.commute(one, other)


def commute(one: PolicyContent, other: PolicyContent) -> bool:
    return _commute(of(one), of(other))


def writes_request(content: PolicyContent) -> bool:
    """Whether a policy may change what a request carries."""
    effects = of(content)
    return effects is None or any(
        effect.verb is Verb.WRITES and effect.element is not None and not effect.element.on_response
        for effect in effects
    )


def does(content: PolicyContent, verb: Verb) -> bool:
    """Whether a policy is known to do this."""
    return any(effect.verb is verb for effect in of(content) or ())


def overwrites(one: PolicyContent, other: PolicyContent) -> bool:
    """Whether two policies may write the same."""
    return _touches(one, other, Verb.WRITES, (False, True))


def feeds(writer: PolicyContent, reader: PolicyContent, *, on_response: bool) -> bool:
    """Whether one policy may write what the other reads, of requests or of responses."""
    return _touches(writer, reader, Verb.READS, (on_response,))


def _touches(one: PolicyContent, other: PolicyContent, verb: Verb, on_response: tuple[bool, ...]) -> bool:
    written = _accesses(one, Verb.WRITES, on_response)
    touched = _accesses(other, verb, on_response)
    if written is None or touched is None:
        # A policy of which nothing is known may write and read everything.
        return written != () and touched != ()
    return any(not rules.disjoint(access, another) for access in written for another in touched)


def _accesses(content: PolicyContent, verb: Verb, on_response: tuple[bool, ...]) -> Effects:
    effects = of(content)
    if effects is None:
        return None
    return tuple(
        effect
        for effect in effects
        if effect.verb is verb and effect.element is not None and effect.element.on_response in on_response
    )
