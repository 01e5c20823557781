"""Finds policies of one hop that Envoy can enforce alone but not together, and matches that it cannot decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.checks.disjoint import disjoint
from dsl.match import HOST, Comparison, Match, Operator, comparisons, elements_of
from dsl.program import Side, Stage, Verb
from emitters.envoy.matching import header_elements
from emitters.envoy.matching.callers import covers_all_callers
from emitters.envoy.matching.predicates import compared, host_expression, path_expression
from emitters.envoy.messages import embedded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_SHORT: Final = 1_000


def check(context: Context, hop: Hop) -> None:
    """Reports counts that another policy of a hop would part, and comparisons that Envoy cannot make."""
    _one_count(context, hop)
    for policy in hop.policies:
        _patterns(context, policy)


def _one_count(context: Context, hop: Hop) -> None:
    """Reports a policy that counts in one cluster, if another policy needs a second cluster for some of its
    requests."""
    here = [policy for policy in hop.policies if hop.stage(policy) is Stage.CLUSTER]
    for policy in here:
        if not any(effect.verb is Verb.COUNTS for effect in policy.effects or ()):
            continue
        for other in here:
            if other is policy or not _varies(context, hop, policy, other):
                continue
            context.refuse(
                "ADM721",
                f"`{policy.name}` counts all its requests together, and `{other.name}` would part them",
                policy,
                cause=f"`{other.name}` holds for some of these requests only, and so Envoy needs two clusters, "
                "each of which would count for itself",
                hint=f"give `{policy.name}` and `{other.name}` the same scope and match",
            )
            break


def _varies(context: Context, hop: Hop, policy: Policy, other: Policy) -> bool:
    """Whether the other policy holds for some of a policy's requests and not for others."""
    if _where(context, hop, other) in ((None, None), _where(context, hop, policy)):
        return False
    return not disjoint(policy.match, other.match)


def _where(context: Context, hop: Hop, policy: Policy) -> Sequence[object]:
    """A key for the callers and the match of a policy on a hop: equal keys stand for equal callers and matches."""
    told_apart = hop.side is Side.INGRESS and not covers_all_callers(context.program, policy)
    return (policy.sources, policy.open_sources, id(policy.home)) if told_apart else None, policy.match


_PARTS: Final = {
    "header": "each element of a header",
    "host": "a host without its port",
    "path": "a path without its query",
}
"""Name of a field -> its part that Envoy cannot compare by itself."""
_WHOLE: Final = {
    "header": "a header can have several values, and Envoy compares all of them at once, with commas between",
    "host": "Envoy compares the host together with its port",
    "path": "Envoy compares the path together with its query, as bytes",
}


def _patterns(context: Context, policy: Policy) -> None:
    """Reports comparisons that Envoy cannot make: with elements of a header value, or with characters beyond a byte."""
    for comparison in _compared(policy.match):
        header, pattern = comparison.field.header, comparison.value
        try:
            if comparison.field == HOST:
                expression = host_expression(comparison.operator, pattern)
            elif comparison.field.name == "path":
                expression = path_expression(pattern)
            else:
                expression = pattern if header is None else compared(comparison.operator, pattern, elements_of(header))
        except header_elements.TooIntricateError as error:
            context.refuse(
                "ADM722",
                f"`{pattern}` of `{policy.name}` cannot be compared with {_PARTS[comparison.field.name]}: {error}",
                policy,
                cause=_WHOLE[comparison.field.name],
                hint="write it without, or compare with `==` or `starts_with`",
            )
            continue
        # A short literal always compiles, and a check would load the engine.
        asked = comparison.operator is Operator.MATCHES or len(pattern) > _SHORT
        problem = embedded.wrong_expression(expression) if asked else None
        if problem is not None:
            context.refuse(
                "ADM731",
                f"`{policy.name}` compares `{header or comparison.field.name}` with what Envoy cannot look for: the "
                f"expression {problem}",
                policy,
                cause="Envoy looks for it by one regular expression over bytes, none of which is more than `\\xff`",
                hint="compare with something shorter, and leave out letters beyond ASCII",
            )


def _compared(match: Match | None) -> Iterator[Comparison]:
    """The comparisons that become regular expressions over bytes: all comparisons of headers and of the host, and
    `matches` of other fields."""
    for comparison in comparisons(match):
        if comparison.field.carrier is not None or comparison.operator is Operator.MATCHES:
            yield comparison
