"""Facts about policies that decide whether a request reaches a service, and whether a probe can see another policy.

All facts come from the declaration of a kind (effects, state, traits), not from its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.testbed.matching import policies_on
from dsl.program import Verb

if TYPE_CHECKING:
    from dsl.program import Call, Policy, Program


def is_quota(policy: Policy) -> bool:
    """Whether a policy has a bucket of `burst` requests that all callers share (R5)."""
    return policy.kind.prelude and policy.kind.state


def is_split(program: Program, call: Call) -> bool:
    """Whether requests of a call may go to another destination."""
    return any(_has(policy, Verb.ROUTES) for policy in policies_on(program, call))


def repeats(policy: Policy) -> bool:
    return _has(policy, Verb.REPEATS)


def copies(policy: Policy) -> bool:
    return _has(policy, Verb.COPIES)


def _has(policy: Policy, verb: Verb) -> bool:
    return policy.kind.prelude and any(effect.verb is verb for effect in policy.effects or ())


def callers(policy: Policy) -> tuple[str, ...] | None:
    """Return the callers that a guard admits by name; None if it has no such argument."""
    for parameter in policy.kind.parameters:
        value = policy.arguments[parameter.name]
        if parameter.type.element is not None and parameter.type.element.name == "caller" and isinstance(value, tuple):
            return tuple(str(caller) for caller in value)
    return None


def denies(policy: Policy, source: str) -> bool:
    """Whether a guard admits no request of this source.

    In a trial, requests have no token and a path in its normal form, and an authorization service admits all requests.
    """
    kind = policy.kind
    if not (kind.guard and kind.prelude):
        return False
    if kind.traits.judges_caller_alone:
        return source not in (callers(policy) or ())
    return kind.traits.grpc_method is None and not kind.traits.refuses_spellings
