"""`compression`: responses are compressed for clients that accept that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.interface import EnvoyKind, HttpFilter
from emitters.envoy.messages.typed import extension, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_COMPRESSORS: Final = {
    "gzip": "envoy.extensions.compression.gzip.compressor.v3.Gzip",
    "brotli": "envoy.extensions.compression.brotli.compressor.v3.Brotli",
    "zstd": "envoy.extensions.compression.zstd.compressor.v3.Zstd",
}
_PARTIAL_CONTENT: Final = 206
"""The status of a part of a representation. Its range counts the bytes of the whole without compression."""


class Compression(EnvoyKind):
    """A compressor of one algorithm, for responses."""

    algorithm: str
    min_size: int

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        """Reports compressors of one hop with different algorithms. They choose one encoding among those of all
        compressors, even of a compressor that is skipped for a request."""
        here = [other for other in hop.policies if self.is_kind_of(other)]
        differing = [other for other in here if self.of(other).algorithm != self.of(here[0]).algorithm]
        if differing and differing[0] is policy:
            context.refuse(
                "ADM727",
                f"`{here[0].name}` and `{policy.name}` compress in different ways at one place, and neither would for "
                "a client that takes both",
                policy,
                cause="Envoy chooses one encoding among those of all compressors at a port, also of one whose policy "
                "does not hold for the request",
                hint="give both the same `algorithm`, or put them at different sides with `@ingress` and `@egress`",
            )

    def http_filter(self, context: Context, hop: Hop, policy: Policy) -> HttpFilter:
        return HttpFilter(
            typed(
                "envoy.extensions.filters.http.compressor.v3.Compressor",
                compressor_library=extension(self.algorithm, _COMPRESSORS[self.algorithm]),
                response_direction_config={
                    "common_config": {"min_content_length": self.min_size},
                    "uncompressible_response_codes": [_PARTIAL_CONTENT],
                },
            ),
            on_response=True,
        )
