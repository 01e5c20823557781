"""`remove_response_header`: a header is taken out of responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.headers import remove_from_response

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class RemoveResponseHeader(EnvoyKind):
    """A header mutation."""

    name: str

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return remove_from_response(self.name)
