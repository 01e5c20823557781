"""Limits on requests and their bodies."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from dsl.program import Protocol
from emitters.envoy.filters.built import Built, stat_name
from emitters.envoy.messages.typed import Json, duration, typed

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

_SHORTEST_FILL: Final = 50_000
"""Microseconds. Envoy fills no bucket more often than this."""
_LONGEST: Final = 2**63 - 1
ALWAYS: Final[Json] = {"default_value": {"numerator": 100, "denominator": "HUNDRED"}}


def stretch(per: int) -> int:
    """How many times a period has to be taken to be one that Envoy keeps: whole milliseconds, and not too short."""
    whole = 1_000 // gcd(per, 1_000)
    return -(-_SHORTEST_FILL // (per * whole)) * whole


def token_bucket(amount: int, per: int, burst: int) -> Json:
    """`amount` tokens every `per` microseconds, at most `burst` at once.

    A period that Envoy cannot keep is stretched together with its amount: the rate stays the same.
    """
    times = stretch(per)
    return {"max_tokens": burst, "tokens_per_fill": amount * times, "fill_interval": duration(per * times)}


def rate_limit(context: Context, hop: Hop, policy: Policy) -> Built:
    """One bucket for the policy and destination, shared by the replicas of the service that holds it."""
    requests, per, burst = (policy.arguments[name] for name in ("requests", "per", "burst"))
    assert isinstance(requests, int)  # noqa: S101 - checked by the resolver
    assert isinstance(per, int)  # noqa: S101
    assert isinstance(burst, int)  # noqa: S101
    return Built(
        typed(
            "envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit",
            stat_prefix=stat_name(policy, hop),
            token_bucket=token_bucket(requests, per, burst),
            filter_enabled=ALWAYS,
            filter_enforced=ALWAYS,
            local_cluster_rate_limit={},
            # A gRPC client takes 429 for UNAVAILABLE and would try again.
            rate_limited_as_resource_exhausted=True if hop.port.protocol is Protocol.GRPC else None,
        )
    )


def buffer_limit(context: Context, hop: Hop, policy: Policy) -> Built:
    """Envoy's filter does not measure the last piece of a body, which over HTTP/2 may be all of it.

    It writes the length of the whole into the request, though, and who is right behind it can look at that.
    """
    most = policy.arguments["max"]
    assert isinstance(most, int)  # noqa: S101 - checked by the resolver
    longer = {"name": "content-length", "range_match": {"start": most + 1, "end": _LONGEST}}
    return Built(
        typed("envoy.extensions.filters.http.buffer.v3.Buffer", max_request_bytes=most),
        behind=typed(
            "envoy.extensions.filters.http.fault.v3.HTTPFault",
            abort={"http_status": 413, "percentage": ALWAYS["default_value"]},
            headers=[longer],
            disable_downstream_cluster_stats=True,
        ),
        waits_for_body=True,
    )
