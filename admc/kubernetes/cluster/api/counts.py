"""Requests to the API server, counted by verb and resource."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from prometheus_client.metrics_core import Metric


class Request(NamedTuple):
    verb: str
    """As in Kubernetes: get, list, watch, create, update, patch, delete."""
    resource: str
    """The plural with the subresource, as in `pods` and `programs/status`; for a path of no object, its first part."""
    code: str
    """The HTTP status; `error` if there was no answer."""


Counts = Counter[Request]


def resource(path: str) -> str:
    """The resource that a path names, without names of objects.

    >>> resource("/api/v1/namespaces/shop/pods/front-1"), resource("/apis/admc.dev/v1alpha1/programs/shop/status")
    ('pods', 'programs/status')
    """
    parts = path.strip("/").split("/")
    after = {"api": 2, "apis": 3}.get(parts[0])
    if after is None or len(parts) <= after:
        return parts[0]
    rest = parts[after:]
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        rest = rest[2:]
    return f"{rest[0]}/{rest[2]}" if len(rest) > 2 else rest[0]


def relists(counts: Mapping[str, int]) -> Metric:
    """Return how often each resource was listed after the first time."""
    metric = CounterMetricFamily(
        "admc_kubernetes_relists", "Lists of a resource after the first one", labels=["resource"]
    )
    for name, number in sorted(counts.items()):
        metric.add_metric([name], number)
    return metric


def requests(counts: Mapping[Request, int]) -> Metric:
    metric = CounterMetricFamily("admc_kubernetes_requests", "Requests to the API server", labels=list(Request._fields))
    for request, number in sorted(counts.items()):
        metric.add_metric(request, number)
    return metric
