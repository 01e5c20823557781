"""The effects of policies in a plan, and the rules by which two policies commute (rule R6)."""

from __future__ import annotations

from functools import lru_cache

from admc.compile.plan.model import EffectRow, PolicyContent
from dsl.program import Effect, Verb
from solver.rules import effects as rules

Effects = tuple[Effect, ...] | None
"""The effects of a policy; None if they are not known."""


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
    """Whether a policy may change an element of a request."""
    effects = of(content)
    return effects is None or any(
        effect.verb is Verb.WRITES and effect.element is not None and not effect.element.on_response
        for effect in effects
    )


def does(content: PolicyContent, verb: Verb) -> bool:
    """Whether a policy is known to have an effect with this verb."""
    return any(effect.verb is verb for effect in of(content) or ())


def overwrites(one: PolicyContent, other: PolicyContent) -> bool:
    """Whether two policies may write the same element."""
    return _touches(one, other, Verb.WRITES, (False, True))


def feeds(writer: PolicyContent, reader: PolicyContent, *, on_response: bool) -> bool:
    """Whether the writer may write an element, of requests or of responses, that the reader reads."""
    return _touches(writer, reader, Verb.READS, (on_response,))


def _touches(one: PolicyContent, other: PolicyContent, verb: Verb, on_response: tuple[bool, ...]) -> bool:
    written = _accesses(one, Verb.WRITES, on_response)
    touched = _accesses(other, verb, on_response)
    if written is None or touched is None:
        # A policy without known effects may write and read every element.
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
