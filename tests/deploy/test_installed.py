"""Helm installs, changes and removes an installation on a real node."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from admc.kubernetes.doctor.picture import ADMISSION
from admc.kubernetes.doctor.policies import policies_of
from admc.kubernetes.inject.names import IMAGE
from tests.cli.command import Admc
from tests.cluster import tools
from tests.cluster.api_server import ApiError
from tests.cluster.node import images
from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError
from tests.deploy.chart import CHART, NAME, NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.node.cluster import Node

SELECTOR = "app.kubernetes.io/name=admc"
pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One's own: the chart makes objects of the whole cluster."""
    try:
        tools.find(tools.HELM)
        with cluster() as found:
            found.load([images.server(IMAGE)])
            yield found
    except MissingError as error:
        pytest.skip(str(error))


def helm(node: Node, *arguments: str) -> str:
    command = [str(tools.find(tools.HELM)), *arguments, "--namespace", NAMESPACE]
    settings = {**os.environ, "KUBECONFIG": str(node.kubeconfig), "HELM_DRIVER": "secret"}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{done.stderr}\n{node.summary()}\n{logs(node)}"
    return done.stdout


def logs(node: Node) -> str:
    return "\n".join(node.log(each, "server", NAMESPACE)[-2000:] for each in replicas(node))


def replicas(node: Node) -> list[str]:
    return sorted(each["metadata"]["name"] for each in node.ready_pods(NAMESPACE, SELECTOR))


def lease_held(node: Node, pod: str) -> bool:
    """By the replica's own metrics, which the API server fetches."""
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:18001/proxy/metrics"
    found = re.search(r"^admc_lease_held (\S+)$", node.server.request("GET", path), re.MULTILINE)
    return found is not None and float(found[1]) == 1


def active(node: Node) -> list[str]:
    return [pod for pod in replicas(node) if lease_held(node, pod)]


def holder(node: Node) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
    name: str = node.server.request("GET", path)["spec"]["holderIdentity"]
    return name


def test_two_replicas_of_which_one_is_active(node: Node) -> None:
    said = helm(node, "install", "admc", str(CHART), "--create-namespace", "--wait", "--timeout", "5m")
    assert "admc.dev/controller=main" in said
    assert len(replicas(node)) == 2
    node.wait_for(lambda: len(active(node)) == 1, "an active replica")
    (first,) = active(node)
    assert holder(node).startswith(f"{first}-")


def test_the_doctor_finds_nothing_wrong(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    """A controller checks the types in policies: an API server alone does not say what it does not understand."""

    def is_checked() -> bool:
        listed = node.server.request("GET", f"{ADMISSION}/validatingadmissionpolicies")["items"]
        return bool(listed) and all("typeChecking" in each.get("status", {}) for each in listed)

    def is_trusted() -> bool:
        configuration = node.server.request("GET", f"{ADMISSION}/mutatingwebhookconfigurations/{NAME}")
        return "caBundle" in configuration["webhooks"][0]["clientConfig"]

    node.wait_for(is_checked, "the check of the policies")
    node.wait_for(is_trusted, "the authority of the webhook")
    done = Admc(capfd)("doctor", "--cluster", "main", "--kubeconfig", node.kubeconfig)
    assert done.code == 0, done.out
    for policy in policies_of("main"):
        assert f"ok       admission       {policy.name}\n" in done.out


def test_an_upgrade_leaves_two_replicas_of_which_one_is_active(node: Node) -> None:
    before = replicas(node)
    helm(node, "upgrade", "admc", str(CHART), "--set", "podAnnotations.round=two", "--wait", "--timeout", "5m")
    node.wait_for(lambda: len(node.pods(NAMESPACE, SELECTOR)) == 2, "the pods of the upgrade alone")
    assert len(replicas(node)) == 2
    assert not set(before) & set(replicas(node))
    node.wait_for(lambda: len(active(node)) == 1, "an active replica")


def test_a_replica_has_no_rights_on_its_node_and_writes_to_nothing_but_its_temporary_folder(node: Node) -> None:
    pod = replicas(node)[0]
    assert node.execute(pod, "server", ["id", "-u"], NAMESPACE).strip() == "65532"
    with pytest.raises(OSError, match="Read-only file system"):
        node.execute(pod, "server", ["touch", "/admc/own/x"], NAMESPACE)
    node.execute(pod, "server", ["touch", "/tmp/x"], NAMESPACE)  # noqa: S108 - of the pod


def test_helm_refuses_a_second_installation_of_one_name(node: Node) -> None:
    with pytest.raises(AssertionError, match="exists and cannot be imported into the current release"):
        helm(node, "install", "again", str(CHART))


def test_what_is_removed_leaves_programs_and_their_definition(node: Node) -> None:
    body = {
        "apiVersion": "admc.dev/v1alpha1",
        "kind": "Program",
        "metadata": {"name": "shop"},
        "spec": {"controller": "main", "files": {"policies.adm": "app shop\n"}},
    }
    node.server.apply("/apis/admc.dev/v1alpha1/programs/shop", body)
    helm(node, "uninstall", "admc", "--wait", "--timeout", "2m")
    assert node.server.request("GET", "/apis/admc.dev/v1alpha1/programs/shop")["metadata"]["name"] == "shop"
    with pytest.raises(ApiError, match="404"):
        node.get("Deployment", NAME, NAMESPACE, "apps/v1")
