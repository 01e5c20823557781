"""`add_request_header`: a header of requests gets one value more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.held_headers import HELD
from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.headers import APPEND, check_value, write_request
from emitters.envoy.kinds.shared.refusals import cannot_hold

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class AddRequestHeader(EnvoyKind):
    """A header mutation."""

    name: str
    value: str

    def check(self, context: Context, policy: Policy) -> None:
        check_value(context, policy, self.value)
        if self.name == HELD:
            what, hint = f"a second `{self.name}` on a request", f"set `{self.name}` instead of adding it"
            cannot_hold(context, policy, what, hint)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return write_request(self.name, self.value, APPEND)
