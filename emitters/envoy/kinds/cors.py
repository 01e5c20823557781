"""`cors`: which pages of other origins a browser lets call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.values.origins import ANY, subdomains
from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.refusals import MOST_VALUE, cannot_hold
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.envoy.messages.typed import Json
    from emitters.hops import Hop


class Cors(EnvoyKind):
    """The filter takes its rules from the virtual host."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...]
    expose: tuple[str, ...]
    credentials: bool
    max_age: int

    def check(self, context: Context, policy: Policy) -> None:
        """Reports lists that are too long for a header: they become headers of the answer to a browser."""
        for parameter, words in (("methods", self.methods), ("headers", self.headers), ("expose", self.expose)):
            if len(", ".join(words)) > MOST_VALUE:
                cannot_hold(context, policy, f"`{parameter}` of more than {MOST_VALUE:,} bytes", "name fewer")

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(
            typed("envoy.extensions.filters.http.cors.v3.Cors"),
            per_route=typed(
                "envoy.extensions.filters.http.cors.v3.CorsPolicy",
                allow_origin_string_match=[_matcher(origin) for origin in self.origins],
                allow_methods=", ".join(self.methods),
                allow_headers=", ".join(self.headers) or None,
                expose_headers=", ".join(self.expose) or None,
                allow_credentials=self.credentials,
                max_age=str(self.max_age // 1_000_000),
            ),
        )


def _matcher(origin: str) -> Json:
    if origin == ANY:
        return {"safe_regex": {"regex": ".*"}}
    pattern = subdomains(origin)
    return {"exact": origin} if pattern is None else {"safe_regex": {"regex": pattern}}
