"""`rewrite_path`: another beginning of the path."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_PLAIN: Final = re.compile(rb"[A-Za-z0-9/._~-]")


class RewritePath(EnvoyKind):
    """A Lua script, since none of Envoy's own filters can rewrite a path at any place of the chain.

    The resulting path begins with exactly one `/`. An empty target, or one that a server reads as an address
    (`http://x/`, `//x/`), would pass guards that compare paths. `*` and the target of a CONNECT are no paths.
    """

    prefix: str
    to: str

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        script = (
            f"local prefix, to = {_lua_string(self.prefix)}, {_lua_string(self.to)}\n"
            "function envoy_on_request(handle)\n"
            '  local path = handle:headers():get(":path")\n'
            '  if path and path:sub(1, 1) == "/" and path:sub(1, #prefix) == prefix then\n'
            '    local rest = (to .. path:sub(#prefix + 1)):match("^/*(.*)$")\n'
            '    handle:headers():replace(":path", "/" .. rest)\n'
            "  end\n"
            "end\n"
        )
        return HttpFilter(
            typed("envoy.extensions.filters.http.lua.v3.Lua", default_source_code={"inline_string": script}),
            writes_request=True,
        )


def _lua_string(value: str) -> str:
    """A Lua string literal. Every byte but the plain letters of a path becomes a number, so none can end the
    literal."""
    letters = (chr(byte) if _PLAIN.fullmatch(bytes([byte])) else f"\\{byte:03d}" for byte in value.encode())
    return f'"{"".join(letters)}"'
