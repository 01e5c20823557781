"""`set_response_header`: a header of responses gets a value in place of those it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.headers import OVERWRITE, check_value, write_response

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class SetResponseHeader(EnvoyKind):
    """A header mutation."""

    name: str
    value: str

    def check(self, context: Context, policy: Policy) -> None:
        check_value(context, policy, self.value)

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return write_response(self.name, self.value, OVERWRITE)
