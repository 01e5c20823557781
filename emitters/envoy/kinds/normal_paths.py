"""`normal_paths`: requests whose path has another spelling are answered with 400."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.faults import fault, fraction

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

BAD_REQUEST: Final = 400
# A byte without its escape, an escape of a letter that needs none (RFC 3986, 2.3), or one in small letters (6.2.2.1).
_ESCAPE: Final = r"[^\x00-\x7f]|%(?:[46][1-9A-F]|[57][0-9A]|3[0-9]|2[DE]|5F|7E|[0-9A-Fa-f][a-f]|[a-f][0-9A-F])"
# Segments `.` and `..`, and empty ones before the end; all of them before the query. `*` of OPTIONS is a path, too.
UNUSUAL: Final = rf"(?s)[^?]*(?:/(?:/|\.\.?[/?])|{_ESCAPE}).*|[^?]*/\.\.?|[^/*].*"
"""Matches the whole of a `:path` with another spelling. Envoy refuses expressions of more than 100 instructions."""


class NormalPaths(EnvoyKind):
    """Envoy could normalise paths by itself, but the service would then receive another path than was sent."""

    def may_reply_with(self, status: int) -> bool:
        return status == BAD_REQUEST

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        other = {"name": ":path", "string_match": {"safe_regex": {"google_re2": {}, "regex": UNUSUAL}}}
        return HttpFilter(fault(abort={"http_status": BAD_REQUEST, "percentage": fraction(100)}, headers=[other]))
