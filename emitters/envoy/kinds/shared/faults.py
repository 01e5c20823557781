"""Envoy's filter for faults."""

from __future__ import annotations

from typing import Final

from emitters.envoy.messages.typed import Json, typed

FAULT: Final = "envoy.extensions.filters.http.fault.v3.HTTPFault"


def fraction(percent: float) -> Json:
    """A percentage in Envoy's finest grain, one in a million."""
    return {"numerator": round(float(percent) * 10_000), "denominator": "MILLION"}


def fault(**fields: Json | list[Json]) -> Json:
    """A filter that delays or aborts, without statistics by downstream cluster: a client's header would name them."""
    return typed(FAULT, disable_downstream_cluster_stats=True, **fields)
