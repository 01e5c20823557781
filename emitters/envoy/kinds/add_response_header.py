"""`add_response_header`: a header of responses gets one value more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.headers import APPEND, check_value, write_response

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class AddResponseHeader(EnvoyKind):
    """A header mutation."""

    name: str
    value: str

    def check(self, context: Context, policy: Policy) -> None:
        check_value(context, policy, self.value)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return write_response(self.name, self.value, APPEND)
