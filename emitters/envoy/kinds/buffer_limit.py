"""`buffer_limit`: Envoy's limit on the body of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.checks.disjoint import disjoint
from dsl.program import Verb
from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.faults import fault
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_LONGEST: Final = 2**63 - 1


class BufferLimit(EnvoyKind):
    """Envoy's filter does not measure the last piece of a body, which over HTTP/2 may be the whole body.

    But it writes the length of the whole body into the request, and a second filter right behind it checks that length.
    """

    max: int

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        """Reports a limit behind a filter that delays requests: the limit misses the body that arrives meanwhile."""
        index = hop.policies.index(policy)
        for place, outer in enumerate(hop.policies[:index]):
            holds = outer.effects is None or any(effect.verb is Verb.DELAYS for effect in outer.effects)
            # Each policy evaluates its match in its own place, and policies between may write fields of the match.
            if holds and not disjoint(outer.match, policy.match, hop.policies[place:index]):
                context.refuse(
                    "ADM723",
                    f"`{policy.name}` would not see the part of a body that arrives while `{outer.name}` holds "
                    "the request up",
                    policy,
                    cause="Envoy's limit measures what comes after the request has reached it",
                    hint=f"declare `{policy.name}` before `{outer.name}`",
                )
                return

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        longer = {"name": "content-length", "range_match": {"start": self.max + 1, "end": _LONGEST}}
        always = {"numerator": 100, "denominator": "HUNDRED"}
        return HttpFilter(
            typed("envoy.extensions.filters.http.buffer.v3.Buffer", max_request_bytes=self.max),
            second=fault(abort={"http_status": 413, "percentage": always}, headers=[longer]),
            waits_for_body=True,
        )
