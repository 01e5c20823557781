"""What a pod costs that is read from a real API server: `python -m tests.cluster.api.measure [PODS]`.

Each way to read runs in a process of its own: ours (`Watched` with the decoder of pods), and the typed objects of the
official client, for comparison (docs/adr/0024). The CPU is that of the reading process alone.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from admc.kubernetes.cluster.api.body import parse
from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.inject.recognised import Recognition
from tests.cluster.api_server import api_server

PODS = "/api/v1/namespaces/{}/pods"
PARALLEL = 16
TICK = 0.01
NAMESPACES = 20


def _pod(number: int) -> dict[str, Any]:
    """About as large as pods are: two containers, an init container, probes, mounts, and a token."""
    mount = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
    probe = {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 10}
    container = {
        "image": "registry.example/shop/front:1.2.3",
        "env": [{"name": f"VARIABLE_{n}", "value": f"value {n}"} for n in range(8)],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [mount],
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
    }
    sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}]
    ports = [{"name": "http", "containerPort": 8080}]
    app = f"app-{number % 200}"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-7d9f8b6c5-{number:05}",
            "labels": {"app": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": "7d9f8b6c5"},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        },
        "spec": {
            "nodeName": f"node-{number % 50}",
            "serviceAccountName": "default",
            "initContainers": [{**container, "name": "prepare"}],
            "containers": [
                {**container, "name": "main", "ports": ports, "readinessProbe": probe},
                {**container, "name": "logs", "livenessProbe": {**probe, "httpGet": {"path": "/", "port": 9000}}},
            ],
            "volumes": [{"name": "token", "projected": {"sources": sources}}],
        },
    }


def _status(pod: dict[str, Any], number: int) -> dict[str, Any]:
    since, address = "2026-01-01T00:00:00Z", f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds]
    state = {
        "image": "registry.example/shop/front:1.2.3",
        "imageID": "registry.example/shop/front@sha256:" + "0" * 64,
        "containerID": "containerd://" + "1" * 64,
        "ready": True,
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": since}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod["metadata"]["name"]},
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "192.0.2.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": since,
            "containerStatuses": [{**state, "name": name} for name in ("main", "logs")],
            "initContainerStatuses": [
                {**state, "name": "prepare", "state": {"terminated": {"exitCode": 0, "startedAt": since}}}
            ],
        },
    }


async def _fill(kubeconfig: Path, pods: int) -> None:
    async with await connect(kubeconfig) as api:
        for number in range(NAMESPACES):
            await api.create("/api/v1/namespaces", {"metadata": {"name": f"n{number}"}})

        async def some(begin: int) -> None:
            for number in range(begin, pods, PARALLEL):
                path, pod = PODS.format(f"n{number % NAMESPACES}"), _pod(number)
                await api.create(path, pod)
                await api.apply(f"{path}/{pod['metadata']['name']}", _status(pod, number), subresource="status")

        await asyncio.gather(*map(some, range(PARALLEL)))


def _memory() -> int:
    """Bytes that are resident now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


async def _ours(kubeconfig: Path) -> dict[str, float]:
    async with await connect(kubeconfig) as api:
        await api.get("/api/v1/namespaces", limit=1)
        before, cpu, began = _memory(), time.process_time(), time.monotonic()
        watched = Watched(api, "/api/v1/pods", PodDecoder(lambda _: Recognition()))
        task = asyncio.create_task(watched.run())
        longest = 0.0
        while not watched.synced.is_set():
            turn = time.monotonic()
            await asyncio.sleep(TICK)
            longest = max(longest, time.monotonic() - turn - TICK)
        found = _result(len(watched.items), before, cpu, began)
        task.cancel()
        return found | {"longest turn of the event loop, ms": longest * 1e3}


async def _typed(kubeconfig: Path) -> dict[str, float]:
    from kubernetes.aio import client, config

    await config.load_kube_config(str(kubeconfig))
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        await core.list_namespace(limit=1)
        before, cpu, began = _memory(), time.process_time(), time.monotonic()
        kept, token = [], None
        while True:
            page = await core.list_pod_for_all_namespaces(limit=500, **({"_continue": token} if token else {}))
            kept += page.items
            token = page.metadata._continue
            if not token:
                return _result(len(kept), before, cpu, began)


def _result(pods: int, before: int, cpu: float, began: float) -> dict[str, float]:
    return {
        "pods": pods,
        "ms of CPU a pod": (time.process_time() - cpu) / pods * 1e3,
        "KB a pod": (_memory() - before) / pods / 1024,
        "highest MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "seconds": time.monotonic() - began,
    }


async def _parts(kubeconfig: Path) -> dict[str, float]:
    """Of a page: bytes, parsing, decoding."""
    async with await connect(kubeconfig) as api:
        page = await api.get("/api/v1/pods", limit=500)
    content = json.dumps(page).encode()
    decode, items = PodDecoder(lambda _: Recognition()), page["items"]
    began = time.process_time()
    for _ in range(10):
        parse(content)
    parsed = time.process_time()
    for _ in range(10):
        for item in items:
            decode(item)
    decoded = time.process_time()
    number = 10 * len(items)
    return {
        "KB of JSON a pod": len(content) / len(items) / 1024,
        "ms a pod to parse": (parsed - began) / number * 1e3,
        "ms a pod to decode": (decoded - parsed) / number * 1e3,
    }


WAYS = {"parts": _parts, "ours": _ours, "typed": _typed}


def main(pods: int) -> None:
    with api_server() as server:
        began = time.monotonic()
        asyncio.run(_fill(server.kubeconfig, pods))
        print(f"{pods} pods written in {time.monotonic() - began:.0f} s", flush=True)
        for way in WAYS:
            subprocess.run([sys.executable, "-m", "tests.cluster.api.measure", way, server.kubeconfig], check=True)


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in WAYS:
        figures = asyncio.run(WAYS[sys.argv[1]](Path(sys.argv[2])))
        print(f"{sys.argv[1]}: " + ", ".join(f"{name} {figure:.4g}" for name, figure in figures.items()), flush=True)
    else:
        main(int(sys.argv[1]) if sys.argv[1:] else 10_000)
