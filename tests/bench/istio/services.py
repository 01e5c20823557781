"""A mesh in which each workload has a Service, a DestinationRule, a VirtualService and an AuthorizationPolicy.

The resources of a workload are those of one file, as teams write them. Every client sees every host, and each workload
calls four others, of which its topology tells.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

WORKLOADS: Final = {300: 4, 1_000: 8, 3_000: 20, 6_000: 40}
"""The numbers of workloads that are measured, with the seconds that each may take."""
NAMESPACES: Final = 30
CALLS: Final = 4
_DUMPER: Final = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def namespace_of(number: int) -> str:
    return f"team-{number % NAMESPACES:02d}"


def name_of(number: int) -> str:
    return f"app-{number:05d}"


def called(number: int, workloads: int) -> list[int]:
    """Those that a workload calls: one beside it, and others all over the mesh."""
    made = (number + NAMESPACES, number * 7 + 1, number * 13 + 5, number * 31 + 11)
    return sorted({other % workloads for other in made} - {number})


def documents(number: int, callers: list[int]) -> list[dict[str, Any]]:
    name, space = name_of(number), namespace_of(number)
    host = f"{name}.{space}.svc.cluster.local"
    labels = {"app": name, "version": "v1"}
    metadata = {"name": name, "namespace": space}
    container = {"name": "app", "image": "registry.example/app:1", "ports": [{"containerPort": 8080}]}
    template = {"metadata": {"labels": labels}, "spec": {"serviceAccountName": name, "containers": [container]}}
    pools = {"tcp": {"maxConnections": 100}, "http": {"http2MaxRequests": 1000}}
    outliers = {"consecutive5xxErrors": 5, "interval": "30s", "baseEjectionTime": "30s"}
    retries = {"attempts": 2, "perTryTimeout": "2s", "retryOn": "5xx"}
    route = {"route": [{"destination": {"host": host}}], "timeout": "5s", "retries": retries}
    principals = [f"cluster.local/ns/{namespace_of(it)}/sa/{name_of(it)}" for it in callers]
    admitted = {"from": [{"source": {"principals": principals}}], "to": [{"operation": {"methods": ["GET", "POST"]}}]}
    selector = {"matchLabels": {"app": name}}
    networking, security = "networking.istio.io/v1", "security.istio.io/v1"
    return [
        _object("apps/v1", "Deployment", metadata, {"replicas": 2, "selector": selector, "template": template}),
        _object("v1", "Service", metadata, {"selector": {"app": name}, "ports": [{"name": "http", "port": 8080}]}),
        _object(
            networking,
            "DestinationRule",
            metadata,
            {"host": host, "trafficPolicy": {"connectionPool": pools, "outlierDetection": outliers}},
        ),
        _object(networking, "VirtualService", metadata, {"hosts": [host], "http": [route]}),
        _object(security, "AuthorizationPolicy", metadata, {"selector": selector, "rules": [admitted]}),
    ]


def _object(version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": dict(metadata), "spec": spec}


def write(folder: Path, workloads: int) -> tuple[Path, Path]:
    """The folder of the manifests, and the topology with the calls. Files are written one by one: the memory of this
    process would count as that of those that it starts."""
    callers: dict[int, list[int]] = {number: [] for number in range(workloads)}
    for number in range(workloads):
        for other in called(number, workloads):
            callers[other].append(number)
    mesh = folder / f"mesh-{workloads}"
    mesh.mkdir()
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"istio-injection": "enabled"}}}
        for name in sorted({namespace_of(number) for number in range(workloads)})
    ]
    _dump(mesh / "namespaces.yaml", spaces)
    for number in range(workloads):
        of = mesh / namespace_of(number)
        of.mkdir(exist_ok=True)
        _dump(of / f"{name_of(number)}.yaml", documents(number, callers[number]))
    calls = folder / f"calls-{workloads}.json"
    topology = {
        "services": [{"name": name_of(number), "protocol": "http", "port": 8080} for number in callers],
        "calls": [
            {"source": name_of(number), "destination": name_of(other)}
            for number in callers
            for other in called(number, workloads)
        ],
    }
    calls.write_text(json.dumps(topology), encoding="utf-8")
    return mesh, calls


def _dump(path: Path, listed: list[dict[str, Any]]) -> None:
    path.write_text(yaml.dump_all(listed, Dumper=_DUMPER, sort_keys=False, explicit_start=True), encoding="utf-8")
