"""The node that tests of the cluster stand on does what a cluster does: what pods, Services and policies are for."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.node import images
from tests.cluster.process import is_running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.node.cluster import Node, Object

ROOT = Path(__file__).parents[3]
SERVER = """\
mkdir -p /pages/cgi-bin
hostname > /pages/index.html
printf '#!/bin/sh\\necho\\necho $REMOTE_ADDR\\n' > /pages/cgi-bin/caller
chmod +x /pages/cgi-bin/caller
exec httpd -f -p 8080 -h /pages
"""


@pytest.fixture(scope="module")
def node(cluster_node: Node) -> Iterator[Node]:
    cluster_node.load([images.busybox()])
    for name in ("servers", "callers"):
        cluster_node.namespace(name)
    yield cluster_node
    for name in ("servers", "callers"):
        cluster_node.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def _object(version: str, kind: str, name: str, namespace: str, **more: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **more}


def _container(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:test", "command": ["sh", "-c", script], **more}


def _pod(name: str, namespace: str, *containers: dict[str, Any], **spec: Any) -> Object:
    made = _object("v1", "Pod", name, namespace)
    made["metadata"]["labels"] = {"app": name}
    made["spec"] = {"containers": list(containers), "terminationGracePeriodSeconds": 0, **spec}
    return made


def _web(node: Node, name: str, replicas: int = 1) -> None:
    """A Deployment and its Service, ready."""
    probe = {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1}
    container = _container("web", SERVER, readinessProbe=probe)
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    selector = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    node.apply(
        _object("apps/v1", "Deployment", name, "servers", spec=spec),
        _object(
            "v1",
            "Service",
            name,
            "servers",
            spec={"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
        ),
    )
    node.wait_for(lambda: len(node.ready_pods("servers", f"app={name}")) == replicas, f"the pods of {name}")


def _caller(node: Node, name: str) -> None:
    node.apply(_pod(name, "callers", _container("caller", "exec sleep 1000000")))
    node.wait_for(lambda: node.ready_pods("callers", f"app={name}"), name)


def _fetch(node: Node, caller: str, url: str) -> str:
    """What a pod gets; empty where it is refused."""
    try:
        return node.execute(caller, "caller", ["timeout", "3", "wget", "-q", "-O", "-", url], "callers").strip()
    except OSError:
        return ""


def test_replicas_answer_at_the_address_and_the_name_of_their_service(node: Node) -> None:
    _web(node, "pair", replicas=2)
    _caller(node, "visitor")
    address = node.get("Service", "pair", "servers")["spec"]["clusterIP"]
    node.wait_for(lambda: _fetch(node, "visitor", f"http://{address}/"), "an answer")
    found = {_fetch(node, "visitor", f"http://{address}/") for _ in range(30)}
    assert found == {pod["metadata"]["name"] for pod in node.ready_pods("servers", "app=pair")}
    assert _fetch(node, "visitor", "http://pair.servers.svc.cluster.local/") in found
    assert _fetch(node, "visitor", "http://pair.servers/") in found


def test_a_pod_sees_the_address_of_its_caller(node: Node) -> None:
    _web(node, "witness")
    _caller(node, "known")
    own = node.get("Pod", "known", "callers")["status"]["podIP"]
    url = f"http://{node.get('Service', 'witness', 'servers')['spec']['clusterIP']}/cgi-bin/caller"
    node.wait_for(lambda: _fetch(node, "known", url), "an answer")
    assert _fetch(node, "known", url).strip("[]").removeprefix("::ffff:") == own


def test_a_policy_closes_a_service_to_all_but_the_callers_that_it_names(node: Node) -> None:
    _web(node, "vault")
    _caller(node, "friend")
    _caller(node, "stranger")
    url = f"http://{node.get('Service', 'vault', 'servers')['spec']['clusterIP']}/"
    node.wait_for(lambda: _fetch(node, "stranger", url), "an answer")
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "callers"}},
        "podSelector": {"matchLabels": {"app": "friend"}},
    }
    rule = {"from": [peer], "ports": [{"protocol": "TCP", "port": 8080}]}
    spec = {"podSelector": {"matchLabels": {"app": "vault"}}, "policyTypes": ["Ingress"], "ingress": [rule]}
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", "vault", "servers", spec=spec)
    node.apply(policy)
    node.wait_for(lambda: not _fetch(node, "stranger", url), "the policy")
    assert _fetch(node, "friend", url)
    assert len(node.ready_pods("servers", "app=vault")) == 1, "kubelet's probes pass"
    node.delete(policy)
    node.wait_for(lambda: _fetch(node, "stranger", url), "the end of the policy")


def test_init_containers_and_native_sidecars_start_in_order(node: Node) -> None:
    shared = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    sidecar = _container(
        "sidecar",
        "echo sidecar >> /shared/order; sleep 1; touch /shared/started; exec sleep 1000000",
        restartPolicy="Always",
        startupProbe={"exec": {"command": ["test", "-e", "/shared/started"]}, "periodSeconds": 1},
        **shared,
    )
    first = _container("first", "echo first >> /shared/order", **shared)
    second = _container("second", "test -e /shared/started && echo second >> /shared/order", **shared)
    main = _container("main", "echo main >> /shared/order; exec sleep 1000000", **shared)
    volumes = [{"name": "shared", "emptyDir": {}}]
    node.apply(_pod("ordered", "callers", main, initContainers=[first, sidecar, second], volumes=volumes))
    node.wait_for(lambda: node.ready_pods("callers", "app=ordered"), "the pod")
    order = node.execute("ordered", "main", ["cat", "/shared/order"], "callers").split()
    assert order == ["first", "sidecar", "second", "main"]
    began = node.container("ordered", "sidecar", "callers")
    node.signal("ordered", "sidecar", "KILL", "callers")
    node.wait_for(lambda: _restarted(node, "ordered", "sidecar", began), "the sidecar is started again")


def _restarted(node: Node, pod: str, container: str, before: str) -> bool:
    return node.container(pod, container, "callers") != before and bool(node.ready_pods("callers", f"app={pod}"))


def test_tokens_and_config_maps_are_mounted_and_open_the_api(node: Node) -> None:
    node.apply(_object("v1", "ConfigMap", "settings", "callers", data={"colour": "blue"}))
    token = {"serviceAccountToken": {"audience": "admc.dev/mesh", "path": "token", "expirationSeconds": 600}}
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "token", "projected": {"sources": [token]}},
    ]
    mounts = [{"name": "settings", "mountPath": "/settings"}, {"name": "token", "mountPath": "/token"}]
    node.apply(
        _pod("mounted", "callers", _container("main", "exec sleep 1000000", volumeMounts=mounts), volumes=volumes)
    )
    node.wait_for(lambda: node.ready_pods("callers", "app=mounted"), "the pod")
    assert node.execute("mounted", "main", ["cat", "/settings/colour"], "callers") == "blue"
    text = node.execute("mounted", "main", ["cat", "/token/token"], "callers")
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
    review["spec"] = {"token": text, "audiences": ["admc.dev/mesh"]}  # type: ignore[assignment]
    status = node.server.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)["status"]
    assert status["authenticated"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["mounted"]


def test_pods_go_on_without_the_api_server_and_policies_hold_after_its_return(node: Node) -> None:
    _web(node, "steady")
    _caller(node, "patient")
    url = f"http://{node.get('Service', 'steady', 'servers')['spec']['clusterIP']}/"
    node.wait_for(lambda: _fetch(node, "patient", url), "an answer")
    caller = node.container("patient", "caller", "callers")
    node.server.kill()
    assert node.execute_in(caller, ["timeout", "3", "wget", "-q", "-O", "-", url])
    node.server.restart()
    spec = {"podSelector": {"matchLabels": {"app": "steady"}}, "policyTypes": ["Ingress"], "ingress": []}
    policy = _object("networking.k8s.io/v1", "NetworkPolicy", "steady", "servers", spec=spec)
    node.apply(policy)
    node.wait_for(lambda: not _fetch(node, "patient", url), "the policy")
    node.delete(policy)


def test_an_image_with_this_python_runs_the_repositorys_code(node: Node) -> None:
    node.load([images.python()])
    script = "import admc, json, sys; print(json.dumps(sys.version_info[:2]))"
    node.apply(
        _pod(
            "snake",
            "callers",
            {"name": "main", "image": "admc:test", "command": ["python", "-c", script]},
            restartPolicy="Never",
        )
    )
    node.wait_for(lambda: node.get("Pod", "snake", "callers")["status"]["phase"] == "Succeeded", "the pod")
    assert json.loads(node.log("snake", "main", "callers")) == list(sys.version_info[:2])


def test_nothing_is_left_of_a_node_whose_test_is_killed(node: Node) -> None:
    assert node.machine.pid
    script = (
        "from tests.cluster.node.cluster import cluster\n"
        "with cluster() as node:\n"
        "    pids = [node.machine.pid, node.server.process.pid, *(part.pid for part in node.parts.values())]\n"
        "    print(node.folder, *pids, flush=True)\n"
        "    input()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    path, *pids = process.stdout.readline().split()
    process.kill()
    process.communicate()
    until = time.monotonic() + 20
    while any(map(is_running, pids)) or Path(path).exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{Path(path).name}"))
    assert Path(path).name not in Path("/proc/mounts").read_text(encoding="utf-8")
