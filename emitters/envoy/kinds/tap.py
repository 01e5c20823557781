"""`tap`: a file for each request and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.kinds.shared.refusals import CONTROL, cannot_hold
from emitters.envoy.messages.typed import typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

TAP_BYTES: Final = 1 << 20
"""Most bytes of a body that a capture keeps."""


class Tap(EnvoyKind):
    """A filter that writes a file for each request that reaches it."""

    directory: str

    def check(self, context: Context, policy: Policy) -> None:
        if CONTROL & set(self.directory):
            cannot_hold(context, policy, "a directory with a control character in its name", "leave it out")
        elif not self.directory.startswith("/"):
            context.refuse(
                "ADM713",
                f"`{policy.name}` writes into `{self.directory}`, which is not an absolute path",
                policy,
                cause="the directory is on the machine that the ADM runs on, whatever folder it is started in",
                hint="write a path that begins with `/`",
            )

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        sink = {
            "format": "JSON_BODY_AS_BYTES",
            "file_per_tap": {"path_prefix": f"{self.directory.rstrip('/')}/{policy.name}"},
        }
        config = {
            # A reply of an outer filter meets this filter on its way back, without the headers of a request.
            "match": {"http_request_headers_match": {"headers": [{"name": ":method", "present_match": True}]}},
            "output_config": {
                "sinks": [sink],
                "max_buffered_rx_bytes": TAP_BYTES,
                "max_buffered_tx_bytes": TAP_BYTES,
            },
        }
        return HttpFilter(
            typed("envoy.extensions.filters.http.tap.v3.Tap", common_config={"static_config": config}),
            on_response=True,
        )
