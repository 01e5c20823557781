"""What a path names, without names of objects: a label of a metric must stay one of few."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from admc.kubernetes.cluster.api.counts import Counts, Request, requests, resource


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/namespaces/shop/pods", "pods"),
        ("/api/v1/namespaces/shop/pods/front", "pods"),
        ("/api/v1/namespaces/shop/pods/front/status", "pods/status"),
        ("/api/v1/namespaces", "namespaces"),
        ("/api/v1/namespaces/shop", "namespaces"),
        ("/api/v1/namespaces/shop/status", "namespaces/status"),
        ("/apis/admc.dev/v1alpha1/programs", "programs"),
        ("/apis/admc.dev/v1alpha1/programs/shop/status", "programs/status"),
        ("/apis/coordination.k8s.io/v1/namespaces/a/leases/b", "leases"),
        ("/openid/v1/jwks", "openid"),
        ("/api", "api"),
        ("/apis/apps/v1", "apis"),
    ],
)
def test_resource(path: str, named: str) -> None:
    assert resource(path) == named


def test_metric() -> None:
    class Of(Collector):
        def collect(self) -> list[object]:
            return [requests(Counts({Request("list", "pods", "200"): 3, Request("get", "pods", "error"): 1}))]

    registry = CollectorRegistry()
    registry.register(Of())
    text = generate_latest(registry).decode()
    assert 'admc_kubernetes_requests_total{code="200",resource="pods",verb="list"} 3.0' in text
    assert 'admc_kubernetes_requests_total{code="error",resource="pods",verb="get"} 1.0' in text
