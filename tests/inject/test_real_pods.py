"""Injected pods on a real node: what their rules container does, and what admc concludes from its specification and its
exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.kubernetes.cluster.decode import PodDecoder
from admc.kubernetes.inject.model import Installation, PodNeeds
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.template import injected
from emitters.envoy.bootstrap.pod import BOOTSTRAP_FILE, pod_bootstrap, server
from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.node import images
from tests.cluster.objects import as_a_webhook_does, container

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from admc.kubernetes.cluster.records import Pod
    from tests.cluster.node.cluster import Node

NAMESPACE = "injected"
SCRIPT = "/admc/own/tests/inject/attempts.py"
HERE = Installation("real", "10.0.0.1:18000", "admc:test", "envoy:test")
CAPTURES = PodCaptures(frozenset({8080}), frozenset({9000}))
WANTED = PodNeeds("shop/rate", CAPTURES, waits=True)


@pytest.fixture(scope="module")
def node(cluster_node: Node) -> Iterator[Node]:
    own = images.python(folders=("tests/inject",))
    # An image that has the programs of admc's, and another module in their place.
    other = replace(own, name="mine/admc:test", files={**own.files, "/admc/own/admc/pod/__main__.py": b""})
    cluster_node.load([own, other, images.envoy()])
    cluster_node.namespace(NAMESPACE)
    config = {BOOTSTRAP_FILE: bootstrap(), "ca.crt": ""}
    metadata = {"name": "admc-real", "namespace": NAMESPACE}
    cluster_node.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": config})
    yield cluster_node
    cluster_node.delete({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})


def begun(node: Node, name: str, change: Callable[[dict[str, Any]], None] = lambda spec: None) -> Pod:
    """A pod whose rules container has ended; without a server, it waits."""
    template = {"metadata": {}, "spec": {"containers": [container()], "terminationGracePeriodSeconds": 0}}
    made = injected(template, WANTED, HERE).template
    assert made is not None
    spec = json.loads(json.dumps(made["spec"]))
    change(spec)
    metadata = {"name": name, "namespace": NAMESPACE}
    node.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    node.wait_for(lambda: state(node, name).get("terminated"), f"the rules of {name}")
    assert state(node, name)["terminated"]["exitCode"] == 0
    return seen(node, name)


def state(node: Node, name: str) -> dict[str, Any]:
    found = node.get("Pod", name, NAMESPACE)["status"].get("initContainerStatuses") or [{}]
    return dict(found[0].get("state") or {})


def seen(node: Node, name: str) -> Pod:
    """As the server sees it."""
    pod = PodDecoder(lambda each: recognised(each, HERE))(node.get("Pod", name, NAMESPACE))
    assert pod is not None
    return pod


def test_what_injection_writes_is_recognised_when_it_has_run(node: Node) -> None:
    pod = begun(node, "plain")
    assert (pod.service, pod.captures, pod.is_redirected, pod.untrusted) == ("shop/rate", CAPTURES, True, "")
    assert "are loaded for IPv4" in node.log("plain", "admc-rules", NAMESPACE)


def test_what_an_identity_webhook_adds_changes_nothing(node: Node) -> None:
    pod = begun(node, "identity", as_a_webhook_does)
    assert (pod.service, pod.captures, pod.is_redirected, pod.untrusted) == ("shop/rate", CAPTURES, True, "")
    assert pod.unrecognised == ""
    assert "are loaded for IPv4" in node.log("identity", "admc-rules", NAMESPACE)


def test_an_empty_file_in_place_of_the_program_loads_nothing_and_is_noticed(node: Node) -> None:
    """The kubelet mounts a file for the container's last words wherever a pod asks for it. An empty module does
    nothing, and its exit code is 0."""

    def change(spec: dict[str, Any]) -> None:
        spec["initContainers"][0]["terminationMessagePath"] = "/admc/own/admc/pod/__main__.py"

    pod = begun(node, "words", change)
    assert node.log("words", "admc-rules", NAMESPACE) == ""
    assert (pod.is_redirected, pod.untrusted) == (False, "container `admc-rules` has NET_ADMIN")
    assert pod.unrecognised.startswith("container `admc-rules`: `terminationMessagePath` is ")


def test_an_image_that_is_changed_after_it_has_run_is_noticed(node: Node) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["initContainers"][0]["image"] = "mine/admc:test"

    assert not begun(node, "late", change).is_redirected
    assert node.log("late", "admc-rules", NAMESPACE) == ""
    spec = {"initContainers": [{"name": "admc-rules", "image": HERE.image}]}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/late"
    node.server.request("PATCH", path, {"spec": spec}, "application/strategic-merge-patch+json")
    stored = node.get("Pod", "late", NAMESPACE)
    assert stored["spec"]["initContainers"][0]["image"] == HERE.image
    pod = seen(node, "late")
    assert (pod.is_redirected, pod.untrusted) == (False, "container `admc-rules` has NET_ADMIN")


# ---- pods with an ADM that says `adm` ----

SAYS = {
    "name": "adm",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.direct_response.v3.Config",
        "response": {"inline_string": "adm"},
    },
}


def listener(port: int, filters: list[dict[str, Any]]) -> dict[str, Any]:
    def at(address: str) -> dict[str, Any]:
        return {"address": {"socket_address": {"address": address, "port_value": port}}}

    chain = {"filters": filters}
    return {"name": str(port), **at("0.0.0.0"), "additional_addresses": [at("::")], "filter_chains": [chain]}


def bootstrap() -> str:
    """An ADM that answers all connections itself. The listener that says that it has begun is that of the real one."""
    real = yaml.safe_load(pod_bootstrap(server("10.0.0.1", 18000), ipv6=True)[BOOTSTRAP_FILE])
    (startup,) = (each for each in real["static_resources"]["listeners"] if each["name"] == "startup")
    ports = [startup, listener(15001, [SAYS]), listener(15006, [SAYS])]
    return json.dumps({"admin": real["admin"], "static_resources": {"listeners": ports}})


def app(*arguments: str) -> dict[str, Any]:
    return {**container("app"), "image": "admc:test", "command": ["python", SCRIPT, *arguments]}


def with_adm(spec: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    wanted = PodNeeds("shop/rate", CAPTURES, waits=False)
    template = {"metadata": {"labels": labels}, "spec": {"terminationGracePeriodSeconds": 1, **spec}}
    made = injected(template, wanted, HERE).template
    assert made is not None
    return dict(made)


def addresses(node: Node, name: str) -> list[str]:
    def found() -> list[str]:
        return [each["ip"] for each in node.get("Pod", name, NAMESPACE)["status"].get("podIPs", ())]

    node.wait_for(found, f"the addresses of {name}")  # the kubelet may report them after the container has begun
    return found()


@pytest.fixture(scope="module")
def destination(node: Node) -> list[str]:
    """A server without an ADM: the address of its Service, that of another Service by another number, and its pod's."""
    metadata = {"name": "open", "namespace": NAMESPACE, "labels": {"app": "open"}}
    node.apply(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [app("serve", "9000")]}}
    )
    found = []
    for name, port in (("open", 9000), ("alias", 81)):
        spec = {"selector": {"app": "open"}, "ports": [{"port": port, "targetPort": 9000}]}
        made = node.apply({"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "name": name}, "spec": spec})
        found.append(made[0]["spec"]["clusterIP"])
    node.wait_for(lambda: "ready" in said(node, "open", "app"), "the server")
    return [*found, *addresses(node, "open")]


def said(node: Node, pod: str, name: str) -> str:
    try:
        return node.log(pod, name, NAMESPACE)
    except ApiError:
        return ""


def test_a_process_does_not_come_past_its_adm_and_its_job_ends(node: Node, destination: list[str]) -> None:
    template = with_adm({"containers": [app("try", *destination)], "restartPolicy": "Never"}, {"app": "attacker"})
    metadata = {"name": "attacker", "namespace": NAMESPACE}
    spec = {"template": template, "backoffLimit": 0}
    node.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
    node.wait_for(lambda: node.get("Job", "attacker", NAMESPACE, "batch/v1")["status"].get("succeeded"), "the job")
    (pod,) = node.pods(NAMESPACE, "app=attacker")
    found = json.loads(said(node, pod["metadata"]["name"], "app"))
    assert pod["status"]["phase"] == "Succeeded"
    passed = {name: found.pop(name) for name in ("another number", "datagrams")}
    assert passed == {"another number": "open", "datagrams": "open"}, "docs/cluster/trust.md says so"
    assert "open" not in found.values(), found
    captured = ("the service", "pod address 0", "pod address 1", "data in the first packet")
    assert {name: found[name] for name in captured} == dict.fromkeys(captured, "adm")
    assert found["as user 15001 of a namespace"] in ("adm", "no namespace")
    for name in ("user 15001", "a raw socket", "a packet socket"):
        assert found[name] == "EPERM", found
    assert found["without rules"] == "refused"
    assert {found[f"{address} {port}"] for address in ("127.0.0.1", "127.0.0.6", "::1") for port in (15001, 15006)} == {
        "ECONNREFUSED"
    }


def test_a_caller_does_not_come_past_the_adm_of_a_pod_while_envoy_is_away_either(
    node: Node, destination: list[str]
) -> None:
    made = with_adm({"containers": [app("serve", "8080")]}, {"app": "receiver"})
    metadata = {"name": "receiver", "namespace": NAMESPACE, "labels": {"app": "receiver"}}
    node.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": made["spec"]})
    node.wait_for(lambda: "ready" in said(node, "receiver", "app"), "the receiver")
    script = "from tests.inject.attempts import dial; import json; print(json.dumps([dial(*each) for each in {}]))"

    def dialled(*ports: int) -> list[str]:
        asked = [(address, port) for address in addresses(node, "receiver") for port in ports]
        command = ["python", "-c", script.format(asked)]
        return list(json.loads(node.execute("open", "app", command, NAMESPACE)))

    assert dialled(8080) == ["adm"] * 2
    assert dialled(15000, 15001, 15006) == ["ECONNREFUSED"] * 6
    before = node.container("receiver", "admc-proxy", NAMESPACE)
    node.signal("receiver", "admc-proxy", "KILL", NAMESPACE)
    found: set[str] = set()

    def is_back() -> bool:
        found.update(dialled(*[8080] * 20))
        return node.container("receiver", "admc-proxy", NAMESPACE) != before and set(dialled(8080)) == {"adm"}

    node.wait_for(is_back, "Envoy is started again")
    assert found <= {"adm", "ECONNREFUSED", "ECONNRESET", "closed"}
