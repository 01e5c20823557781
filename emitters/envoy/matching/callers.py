"""The callers and the requests that a policy applies to, as predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Side
from emitters.addresses.index import EVERYWHERE
from emitters.envoy.matching.predicates import (
    Predicate,
    address_predicate,
    all_of,
    any_of,
    match_predicate,
    negation,
)

if TYPE_CHECKING:
    from dsl.program import Policy, Program
    from emitters.addresses.index import Callers
    from emitters.envoy.context import Context
    from emitters.hops import Hop


def callers_predicate(callers: Callers, name: str) -> Predicate:
    """The predicate that the direct peer is one of the callers. It never holds for callers without a layer."""
    predicates = []
    for layer, inner in callers.parts():
        parts = [] if layer == EVERYWHERE and inner else [address_predicate(layer, name)]
        predicates.append(all_of([*parts, *([negation(address_predicate(inner, name))] if inner else [])]))
    return any_of(predicates) if predicates else address_predicate((), name)


def callers_in_scope(context: Context, policy: Policy, hop: Hop) -> Callers | None:
    """The callers of a hop to which a policy applies; None for all callers. Raises `AmbiguousCallersError`."""
    if hop.side is Side.EGRESS or covers_all_callers(context.program, policy):
        return None
    known = context.index.for_policy(policy)
    callers = known.callers(known.sources_of(policy), unknown=policy.open_sources)
    return None if callers.all_peers else callers


def covers_all_callers(program: Program, policy: Policy) -> bool:
    """Whether a policy applies to every caller. Always False for a policy from another program (`Policy.home`), whose
    sources belong to both programs."""
    number = len(program.services) + len(program.externals)
    return policy.home is None and policy.open_sources and len(policy.sources) == number


def conditions(context: Context, policy: Policy, hop: Hop) -> list[Predicate]:
    """The predicates that must all hold for a policy to apply to a request on its hop. Raises
    `AmbiguousCallersError`."""
    predicates = []
    meant = callers_in_scope(context, policy, hop)
    if meant is not None:
        predicates.append(callers_predicate(meant, policy.name))
    if policy.match is not None:
        predicates.append(match_predicate(policy.match))
    return predicates
