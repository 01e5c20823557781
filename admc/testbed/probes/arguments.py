"""The arguments of a policy, each in the Python type of its parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dsl.program import FileArgument

if TYPE_CHECKING:
    from dsl.program import Policy, Value


def integer(policy: Policy, name: str) -> int:
    value = policy.arguments[name]
    if not isinstance(value, int):
        raise TypeError(f"`{name}` of `{policy.name}` is {value!r}, and not a whole number")
    return value


def seconds(policy: Policy, name: str) -> float:
    """A duration in seconds. The language counts microseconds."""
    return integer(policy, name) / 1e6


def percent(policy: Policy, name: str = "percent") -> float:
    return float(str(policy.arguments[name]))


def text(policy: Policy, name: str) -> str:
    value = policy.arguments[name]
    if not isinstance(value, str):
        raise TypeError(f"`{name}` of `{policy.name}` is {value!r}, and not a text")
    return value


def listed(policy: Policy, name: str) -> tuple[Value, ...]:
    value = policy.arguments[name]
    if isinstance(value, FileArgument) or not isinstance(value, tuple):
        raise TypeError(f"`{name}` of `{policy.name}` is {value!r}, and not a list")
    return cast("tuple[Value, ...]", value)


def duration(value: float) -> str:
    """Seconds for a reader: `250 ms`, `1.8 s`."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s".replace(".0 s", " s")
