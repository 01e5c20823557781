"""`jwt`: only requests with a valid token of the issuer pass."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.messages.typed import typed
from emitters.envoy.names import stat_name

if TYPE_CHECKING:
    from dsl.program import FileArgument, Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop


class Jwt(EnvoyKind):
    """A request without a valid token gets 401, or 403 if its audience is wrong. The token goes on to the service
    unchanged."""

    issuer: str
    jwks: FileArgument
    audiences: tuple[str, ...]

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        provider = {
            "issuer": self.issuer,
            "audiences": list(self.audiences),
            "local_jwks": {"inline_bytes": base64.b64encode(self.jwks.content).decode()},
            "forward": True,
            # Without this list Envoy would also take a token from the query.
            "from_headers": [{"name": "Authorization", "value_prefix": "Bearer "}],
        }
        requirement = {"provider_name": policy.name}
        # A request without a rule passes unchecked, and a CONNECT has no path.
        rules = [
            {"match": {"connect_matcher": {}}, "requires": requirement},
            {"match": {"prefix": ""}, "requires": requirement},
        ]
        return HttpFilter(
            typed(
                "envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
                providers={policy.name: provider},
                rules=rules,
                stat_prefix=stat_name(policy, hop),
            )
        )
