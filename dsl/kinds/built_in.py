"""Traits of the built-in kinds: facts that `prelude.adm` cannot declare, since a user's kind never has them.

A kind that is not listed has the defaults of `Traits`. What users can declare is an annotation in the prelude instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Traits

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAITS: Final[Mapping[str, Traits]] = {
    "circuit_breaking": Traits(needs_argument=True),
    "allow": Traits(judges_caller_alone=True),
    "deny": Traits(judges_caller_alone=True),
    "normal_paths": Traits(refuses_spellings=True),
    "external_authorization": Traits(grpc_method="/envoy.service.auth.v3.Authorization/Check"),
    "outlier_detection": Traits(ejected_share="max_ejected", counts_refused_connections=True, counts_dropped=True),
    "retry": Traits(repeats_dropped=("unavailable", "connect_failure", "reset", "gateway_error", "server_error")),
    "set_request_header": Traits(idempotent=True, formats=(("value", "header value"),)),
    "add_request_header": Traits(formats=(("value", "header value"),)),
    "remove_request_header": Traits(idempotent=True),
    "set_response_header": Traits(idempotent=True, formats=(("value", "header value"),)),
    "add_response_header": Traits(formats=(("value", "header value"),)),
    "remove_response_header": Traits(idempotent=True),
    "jwt": Traits(formats=(("issuer", "exact"), ("audiences", "exact"))),
    "cors": Traits(
        formats=(("origins", "origin"), ("methods", "method"), ("headers", "header"), ("expose", "header")),
        no_stars_with="credentials",
    ),
}
