"""`lua`: a script of the user's own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, ClassVar

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import FileArgument, Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Lua(EnvoyKind):
    """The script is inside the configuration."""

    script: FileArgument

    replies_with_any_status: ClassVar[bool] = True

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        source = {"inline_bytes": base64.b64encode(self.script.content).decode()}
        return HttpFilter(
            typed("envoy.extensions.filters.http.lua.v3.Lua", default_source_code=source, stat_prefix=policy.name),
            on_response=True,
            writes_request=True,
            writes_anything=True,
        )
