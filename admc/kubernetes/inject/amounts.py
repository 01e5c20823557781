"""Amounts of CPU and memory, in the notation of `admc.kubernetes.inject.names`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_UNITS: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def millicores(amount: str) -> int:
    return int(amount[:-1]) if amount.endswith("m") else int(amount) * 1000


def in_bytes(amount: str) -> int:
    unit = _UNITS.get(amount[-2:])
    return int(amount) if unit is None else int(amount[:-2]) * unit


def least(request: str | None, limit: str | None, value: Callable[[str], int]) -> str | None:
    """Return a request that is not above its limit; each may be absent."""
    return limit if request is not None and limit is not None and value(limit) < value(request) else request


def most(limit: str | None, request: str | None, value: Callable[[str], int]) -> str | None:
    """Return a limit that is not below its request; each may be absent."""
    return request if request is not None and limit is not None and value(limit) < value(request) else limit
