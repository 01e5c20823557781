"""Reads changes as a user writes them: `ipc.latency=-50%`, `rbac.cpu=x0.5`, and `x10` for all rates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from admc.base.exits import wrong_usage
from admc.cost.profiles.profile import CPU, LATENCY
from dsl.diagnostics.diagnostic import did_you_mean

CODE: Final = "ADM857"
MEMORY: Final = "memory"
CHANGED: Final = (LATENCY, CPU, MEMORY)
MOST: Final = 50
"""The most changes of one command."""
LARGEST: Final = 1_000_000
_CHANGE: Final = re.compile(r"(?P<name>[^.=\s]+)\.(?P<quantity>[^.=\s]+)=(?P<by>\S+)")
_PERCENT: Final = re.compile(r"(?P<sign>[+-])(?P<number>[0-9]{1,9}(?:\.[0-9])?)%")
_FACTOR: Final = re.compile(r"x(?P<number>[0-9]{1,7}(?:\.[0-9]{1,3})?)")
_EXAMPLE: Final = "write `ipc.latency=-50%`, or a factor: `ipc.latency=x0.5`"


class Change(NamedTuple):
    """A factor for all figures of one quantity of a part, a component or the sidecar."""

    text: str
    """The change as the user wrote it."""
    name: str
    quantity: str
    """One of `CHANGED`."""
    factor: Decimal


def read_changes(texts: Sequence[str]) -> tuple[Change, ...]:
    """Read the values of `--what-if`. Raises `CommandError` (exit 1)."""
    if len(texts) > MOST:
        raise wrong_usage(CODE, f"more than {MOST} changes are given by `--what-if`", hint="change the profile itself")
    changes: dict[tuple[str, str], Change] = {}
    for text in texts:
        change = _change(text)
        earlier = changes.setdefault((change.name, change.quantity), change)
        if earlier is not change:
            raise wrong_usage(
                CODE,
                f"`--what-if` changes `{change.name}.{change.quantity}` twice",
                cause=f"by `{earlier.text}` and by `{text}`",
                hint="give one of them, or one factor for both",
            )
    return tuple(changes.values())


def _change(text: str) -> Change:
    match = _CHANGE.fullmatch(text)
    if match is None:
        raise wrong_usage(CODE, f"`--what-if {text[:100]}` is not understood", hint=_EXAMPLE)
    quantity = match["quantity"]
    if quantity not in CHANGED:
        hint = did_you_mean(quantity, CHANGED) or "quantities are " + ", ".join(f"`{name}`" for name in CHANGED)
        raise wrong_usage(CODE, f"there is no quantity `{quantity[:60]}` in `--what-if {text[:100]}`", hint=hint)
    factor = _by(match["by"])
    if factor is None:
        raise wrong_usage(
            CODE, f"`--what-if {text[:100]}` does not say how much", cause=_cause(match["by"]), hint=_EXAMPLE
        )
    return Change(text, match["name"], quantity, factor)


def _by(text: str) -> Decimal | None:
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        share = Decimal(percent["number"]) / 100
        factor = 1 + share if percent["sign"] == "+" else 1 - share
    else:
        times = _FACTOR.fullmatch(text)
        if times is None:
            return None
        factor = Decimal(times["number"])
    return factor if 0 <= factor <= LARGEST else None


def _cause(by: str) -> str:
    if _PERCENT.fullmatch(by) and by.startswith("-"):
        return f"`{by[:20]}` is less than nothing"
    if _PERCENT.fullmatch(by) or _FACTOR.fullmatch(by):
        return f"the factor is more than {LARGEST:,}"
    if re.fullmatch(r"[0-9.]+%", by):
        return "a percentage has a sign: `-50%` is half as much, `+50%` is half as much again"
    return f"`{by[:40]}` is no percentage with at most one digit after the point, and no factor with at most three"


def read_traffic(text: str) -> Decimal:
    """Read the value of `--traffic`: `x10`. Raises `CommandError` (exit 1)."""
    match = _FACTOR.fullmatch(text)
    factor = Decimal(0) if match is None else Decimal(match["number"])
    if not 0 < factor <= LARGEST:
        raise wrong_usage(
            CODE,
            f"`--traffic {text[:60]}` is no factor",
            cause=f"a factor is more than zero, at most {LARGEST:,}, and has at most three digits after the point",
            hint="write `--traffic x10` for ten times the rates, or `x0.5` for half of them",
        )
    return factor
