"""Token buckets of Envoy's local rate limits, and the limits that they cannot hold."""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Final

from emitters.envoy.kinds.shared.refusals import cannot_hold
from emitters.envoy.messages.typed import Json, duration

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context

_SHORTEST_FILL: Final = 50_000
"""Microseconds. Envoy fills no bucket more often than this."""
_LONGEST_FILL: Final = (2**63 - 1) // 1_000
"""Microseconds that Envoy can count in nanoseconds."""
_UINT32: Final = 4294967295


def _stretch(per: int) -> int:
    """The smallest factor by which a period becomes one that Envoy can keep: whole milliseconds, and not too short."""
    whole = 1_000 // gcd(per, 1_000)
    return -(-_SHORTEST_FILL // (per * whole)) * whole


def token_bucket(amount: int, per: int, burst: int) -> Json:
    """`amount` tokens every `per` microseconds, at most `burst` at once.

    A period that Envoy cannot keep is stretched together with its amount: the rate stays the same.
    """
    times = _stretch(per)
    return {"max_tokens": burst, "tokens_per_fill": amount * times, "fill_interval": duration(per * times)}


def check_bucket(context: Context, policy: Policy, amount: int, per: int, burst: int) -> None:
    """Reports a limit that the replicas of the service cannot share, or that does not fit into Envoy's fields."""
    _check_burst(context, policy, burst)
    long = per * max(1, context.replicas)
    if long * _stretch(long) > _LONGEST_FILL:
        what = "a time that is too long to count in so fine a unit"
        cannot_hold(context, policy, what, "round `per` to milliseconds")
    elif amount * _stretch(long) > _UINT32:
        cannot_hold(context, policy, "this many in so short a time", "state the limit for a longer `per`")


def _check_burst(context: Context, policy: Policy, burst: int) -> None:
    """Reports a burst that is too small: each replica gets a share of it, and a share of less than one admits
    nothing."""
    if burst >= context.replicas:
        return
    context.refuse(
        "ADM719",
        f"`{policy.name}` lets {burst} pass at once, which the {context.replicas} replicas of "
        f"`{context.service.name}` cannot share",
        policy,
        cause="each replica of the service that enforces a limit gets its share of it, and less than one lets nothing "
        "pass",
        hint=f"write `burst: {context.replicas}` or more, with a longer `per` where the limit is to stay the same",
    )
