"""How kinds report an argument that has no place in Envoy's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dsl.program import Policy
    from emitters.envoy.context import Context

CONTROL: Final = frozenset(map(chr, [*range(0x20), 0x7F])) - {"\t"}
"""Control characters that Envoy takes in no text of its configuration."""
MOST_VALUE: Final = 16_384
"""Bytes of a header value that Envoy takes from its configuration."""


def cannot_hold(context: Context, policy: Policy, what: str, hint: str) -> None:
    """Reports a value that is outside of the range of its field."""
    context.refuse(
        "ADM714",
        f"`{policy.name}` asks for {what}, which Envoy cannot hold",
        policy,
        cause="the place that it goes into is too small for it",
        hint=hint,
    )
