"""Explains the effect of the declared order on a request where a timeout or a retry is one of two policies: for
example, which of them is outermost.

Rule R6 keeps the declared order wherever it makes a difference, so this explanation needs no placement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from admc.compile.explain.explanation import Point
from admc.compile.plan.timeouts import limit_sentence
from dsl.checks.attempts import Limit
from dsl.checks.disjoint import disjoint
from dsl.program import Effect, Element, Policy, Program, Verb

_MET = frozenset((Verb.COUNTS, Verb.REJECTS, Verb.DELAYS, Verb.COPIES))


def order_points(program: Program, name: str) -> list[Point]:
    """The effects of a policy's place before or after the timeouts and retries of its calls (of a timeout or retry:
    before or after the other policies), with the lines of those policies."""
    policies = program.policies
    at = next(position for position, policy in enumerate(policies) if policy.name == name)
    calls = frozenset(policies[at].calls)
    points = []
    for position, other in enumerate(policies):
        if position == at or calls.isdisjoint(other.calls) or disjoint(policies[at].match, other.match):
            continue
        first, second = (policies[at], other) if at < position else (other, policies[at])
        points += [Point(sentence, (other.span,)) for sentence in _sentences(first, second)]
    return points


def _sentences(first: Policy, second: Policy) -> Iterator[str]:
    verbs = {policy.name: {effect.verb for effect in policy.effects or ()} for policy in (first, second)}
    for policy, other in ((first, second), (second, first)):
        before = policy is first
        if Verb.REPEATS in verbs[other.name]:
            if Verb.TIMES_OUT in verbs[policy.name]:
                yield limit_sentence(Limit(policy, other, before))
            elif policy.effects is None or verbs[policy.name] & _MET:
                yield _met(policy, other, before)
        elif Verb.TIMES_OUT in verbs[other.name] and _takes_time(policy.effects or ()):
            relation = "is not part" if before else "is part"
            yield (
                f"the time that `{policy.name}` takes {relation} of what `{other.name}` limits, "
                f"since it is declared {_side(before)} it"
            )


def _met(policy: Policy, retry: Policy, before: bool) -> str:
    what = "each request of `{0}` once, however many attempts it takes" if before else "each attempt of `{0}`"
    text = f"`{policy.name}` meets {what.format(retry.name)}, since it is declared {_side(before)} it"
    if any(effect.verb is Verb.REJECTS for effect in policy.effects or ()):
        again = "is not repeated" if before else "may be repeated"
        text += f"; what it refuses {again}"
    return text


def _takes_time(effects: Sequence[Effect]) -> bool:
    """Whether effects take time. A wait for the body does not count, because a timeout begins after the body."""
    if any(effect.element is Element.BODY for effect in effects):
        return False
    return any(effect.verb is Verb.DELAYS for effect in effects)


def _side(before: bool) -> str:
    return "before" if before else "after"
