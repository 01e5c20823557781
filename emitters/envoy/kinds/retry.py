"""`retry`: the retry policy of a route."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from dsl.checks.disjoint import disjoint
from dsl.program import Protocol
from emitters.envoy.failure_marks import Failure, repeat
from emitters.envoy.kinds.interface import EnvoyKind, RouteParts
from emitters.envoy.kinds.timeout import Timeout
from emitters.envoy.messages.typed import duration

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context
    from emitters.hops import Hop

TIMES_OUT_TOO: Final = frozenset(("gateway_error", "reset", "server_error"))
"""Words of `on` for which Envoy repeats an attempt that it ended itself, after a timeout."""

_REPEATED_FAILURES: Final = {
    "unavailable": (Failure.CONNECT, Failure.REFUSED),
    "connect_failure": (Failure.CONNECT,),
    "refused_stream": (Failure.REFUSED,),
    "reset": tuple(Failure),
    "gateway_error": tuple(Failure),
    "server_error": tuple(Failure),
}
"""Word of `on` -> the failures behind an ADM for which it repeats a request. Without that ADM, Envoy's conditions for
the word repeat it for the same failures."""

_ON_HTTP: Final[dict[str, tuple[tuple[str, ...], tuple[int, ...]]]] = {
    "unavailable": (("connect-failure", "refused-stream"), (503,)),
    "connect_failure": (("connect-failure",), ()),
    "reset": (("reset",), ()),
    "refused_stream": (("refused-stream",), ()),
    "gateway_error": (("gateway-error",), ()),
    "server_error": (("5xx",), ()),
    "cancelled": ((), (499,)),
    "deadline_exceeded": ((), (504,)),
    "internal": ((), (500,)),
    "resource_exhausted": ((), (429,)),
}
_ON_GRPC: Final[dict[str, tuple[str, ...]]] = {
    "unavailable": ("unavailable", "connect-failure", "refused-stream"),
    "connect_failure": ("connect-failure",),
    "reset": ("reset",),
    "refused_stream": ("refused-stream",),
    "gateway_error": ("gateway-error", "unavailable"),
    "server_error": ("5xx", "internal", "unavailable"),
    "cancelled": ("cancelled",),
    "deadline_exceeded": ("deadline-exceeded",),
    "internal": ("internal",),
    "resource_exhausted": ("resource-exhausted",),
}
"""Word of `on` -> Envoy's conditions (`_ON_HTTP`: conditions, and statuses that are repeated)."""


class Retry(EnvoyKind):
    """Envoy counts an attempt that it ended after a timeout as one that was reset."""

    attempts: int
    on: tuple[str, ...]
    backoff: int

    repeats_requests: ClassVar[bool] = True

    def check_hop(self, context: Context, hop: Hop, policy: Policy) -> None:
        """Reports `deadline_exceeded` with a timeout of each attempt, but without a word for which Envoy repeats an
        attempt after that timeout."""
        if "deadline_exceeded" not in self.on or TIMES_OUT_TOO & set(self.on):
            return
        for inner in hop.policies[hop.policies.index(policy) + 1 :]:
            if Timeout.is_kind_of(inner) and not disjoint(policy.match, inner.match):
                context.refuse(
                    "ADM720",
                    f"`{policy.name}` is to repeat an attempt that `{inner.name}` gave up, and nothing else that fails",
                    policy,
                    cause="to Envoy an attempt that it gave up is a failed one: it repeats both or neither",
                    hint="write `on: [gateway_error]`, or `[deadline_exceeded, reset]`, which repeat both",
                )
                return

    def add_to_route(self, route: RouteParts) -> None:
        conditions: set[str] = set()
        codes: set[int] = set()
        for word in self.on:
            if route.hop.port.protocol is Protocol.GRPC:
                conditions.update(_ON_GRPC[word])
            else:
                on, statuses = _ON_HTTP[word]
                conditions.update(on)
                codes.update(statuses)
        if codes:
            conditions.add("retriable-status-codes")
        marked, matchers = repeat(failure for word in self.on for failure in _REPEATED_FAILURES.get(word, ()))
        conditions.update(marked)
        route.retry = {
            "retry_on": ",".join(sorted(conditions)),
            "num_retries": max(0, self.attempts - 1),
            "retry_back_off": {"base_interval": duration(self.backoff), "max_interval": duration(self.backoff * 10)},
            **({"retriable_status_codes": sorted(codes)} if codes else {}),
            **({"retriable_headers": matchers} if matchers else {}),
        }
