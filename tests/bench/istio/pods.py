"""Pods as `kubectl get pods -o json` and `-o yaml` show them: some 275 lines of YAML each, with a sidecar."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from pathlib import Path

PODS: Final = 5_000
_CREATED: Final = "2026-11-01T10:00:00Z"


def pod(number: int) -> dict[str, Any]:
    app = f"app-{number % 500}"
    owner = {"apiVersion": "apps/v1", "controller": True, "kind": "ReplicaSet", "name": f"{app}-7d9f8b", "uid": "x"}
    status = '{"initContainers":["istio-init"],"containers":["istio-proxy"]}'
    metadata = {
        "annotations": {"prometheus.io/scrape": "true", "sidecar.istio.io/status": status},
        "creationTimestamp": _CREATED,
        "labels": {"app": app, "pod-template-hash": "7d9f8b", "security.istio.io/tlsMode": "istio", "version": "v1"},
        "name": f"{app}-7d9f8b-{number:05d}",
        "namespace": f"ns-{number % 50}",
        "ownerReferences": [owner],
        "resourceVersion": str(number),
        "uid": f"uid-{number}",
    }
    spec = {
        "containers": [_container(number, "app"), _container(number, "istio-proxy")],
        "dnsPolicy": "ClusterFirst",
        "nodeName": f"node-{number % 100}",
        "restartPolicy": "Always",
        "tolerations": [{"effect": "NoExecute", "key": f"key-{at}", "operator": "Exists"} for at in range(3)],
        "volumes": [{"emptyDir": {}, "name": f"volume-{at}"} for at in range(5)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": _status(number)}


def _container(number: int, name: str) -> dict[str, Any]:
    return {
        "env": [{"name": f"VAR_{at}", "value": f"http://svc-{at}.ns-{number % 50}:8080/path"} for at in range(24)],
        "image": f"registry.example/{name}:{number}",
        "livenessProbe": _probe(),
        "name": name,
        "ports": [{"containerPort": 8080 + at, "name": f"p{at}", "protocol": "TCP"} for at in range(3)],
        "readinessProbe": _probe(),
        "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsUser": 1337},
        "volumeMounts": [{"mountPath": f"/var/run/{at}", "name": f"volume-{at}"} for at in range(5)],
    }


def _probe() -> dict[str, Any]:
    http = {"path": "/ready", "port": 8080, "scheme": "HTTP"}
    return {"failureThreshold": 3, "httpGet": http, "periodSeconds": 10, "timeoutSeconds": 1}


def _status(number: int) -> dict[str, Any]:
    kinds = ("Ready", "Initialized", "ContainersReady", "PodScheduled")
    return {
        "conditions": [{"lastProbeTime": None, "status": "True", "type": kind} for kind in kinds],
        "containerStatuses": [
            {"image": "x", "imageID": "y", "name": name, "ready": True, "restartCount": 0, "started": True}
            for name in ("app", "istio-proxy")
        ],
        "phase": "Running",
        "podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
    }


def write(folder: Path, pods: int = PODS) -> tuple[Path, Path]:
    """The files of JSON and of YAML, as `kubectl` writes them. Pods are written one by one: the memory of this process
    would count as that of those that it starts."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    paths = folder / "pods.json", folder / "pods.yaml"
    with paths[0].open("w", encoding="utf-8") as stream:
        stream.write('{\n    "apiVersion": "v1",\n    "items": [\n')
        for number in range(pods):
            end = ",\n" if number + 1 < pods else "\n"
            stream.write(textwrap.indent(json.dumps(pod(number), indent=4), " " * 8) + end)
        stream.write('    ],\n    "kind": "List"\n}\n')
    with paths[1].open("w", encoding="utf-8") as stream:
        stream.write("apiVersion: v1\nitems:\n")
        for number in range(pods):
            stream.write(yaml.dump([pod(number)], Dumper=dumper, default_flow_style=False))
        stream.write("kind: List\n")
    return paths
