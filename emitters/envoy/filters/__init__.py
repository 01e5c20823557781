"""HTTP filters: one module for each group of kinds, one function for each kind.

    policy on a hop -> [Built] -> filter chain of the hop

`KINDS` is the table by which a policy finds its function. Kinds that work in routes or clusters are not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.filters import content, faults, guards, limits, programs, seeing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.envoy.filters.built import Built
    from emitters.hops import Hop

    Builder = Callable[[Context, Hop, Policy], Built]

KINDS: Final[Mapping[str, Builder]] = {
    "rate_limit": limits.rate_limit,
    "buffer_limit": limits.buffer_limit,
    "allow": guards.allow,
    "deny": guards.deny,
    "jwt": guards.jwt,
    "external_authorization": guards.external_authorization,
    "set_request_header": content.set_request_header,
    "add_request_header": content.add_request_header,
    "remove_request_header": content.remove_request_header,
    "set_response_header": content.set_response_header,
    "add_response_header": content.add_response_header,
    "remove_response_header": content.remove_response_header,
    "rewrite_path": content.rewrite_path,
    "cors": content.cors,
    "compression": content.compression,
    "fault_delay": faults.fault_delay,
    "fault_abort": faults.fault_abort,
    "access_log": seeing.access_log,
    "request_count": seeing.request_count,
    "tap": seeing.tap,
    "lua": programs.lua,
    "wasm": programs.wasm,
}


def build(context: Context, hop: Hop, policy: Policy) -> Built:
    """The filters of one policy on one hop."""
    if policy.kind.template is not None:
        return programs.template(context, hop, policy)
    return KINDS[policy.kind.name](context, hop, policy)
