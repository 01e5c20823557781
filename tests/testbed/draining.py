"""How long Envoys in tests drain, and whether one still does."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DRAIN_SECONDS = 3
"""Envoy counts whole seconds. With 1, it closes connections without notice to the client."""
GAUGES = tuple(
    f"listener_manager.total_{name}" for name in ("listeners_warming", "listeners_draining", "filter_chains_draining")
)


def is_draining(stats: Mapping[str, int]) -> bool:
    """Whether an Envoy has older connections to close. A listener that warms drains older ones later."""
    return any(stats[name] for name in GAUGES)
