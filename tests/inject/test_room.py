"""LimitRanges and quotas of a namespace, in a real API server: what an injected pod needs of them, and what an operator
reads where there is no room for it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.inject.containers import containers
from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.names import ADM_CONTAINER
from admc.kubernetes.inject.overrides import overridden
from admc.kubernetes.inject.spec import Amounts, Resources
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.objects import container
from tests.inject.test_recognised import INSTALLATION

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

    Json = dict[str, Any]

BOTH = PodNeeds("shop/rate", PodCaptures(frozenset({9000})), waits=True)
WAIT = PodNeeds("", None, waits=True)
LIMITED = Resources(Amounts("50m", "64Mi"), Amounts("500m", "128Mi"))
"""With the limits that the value `admLimits` of the chart gives."""
OWN = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "20m", "memory": "32Mi"}}
"""The resources of the user's container."""


@pytest.fixture
def namespace(cluster_api: ApiServer) -> str:
    name = f"room-{secrets.token_hex(3)}"
    cluster_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    cluster_api.apply(path, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
    return name


def answer(api: ApiServer, namespace: str, needs: PodNeeds, **annotations: str) -> str:
    """Why an injected pod is refused; empty if it is not."""
    named = {f"admc.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    metadata = {"name": "tried", "annotations": named}
    spec = {"containers": [container(resources=OWN)], "serviceAccountName": "default"}
    made = injected({"metadata": metadata, "spec": spec}, needs, INSTALLATION)
    assert made.template is not None
    assert not overridden(made.template, needs).findings
    try:
        api.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", dict(made.template))
    except ApiError as error:
        return str(error)
    return ""


def quota(api: ApiServer, namespace: str, **hard: str) -> None:
    """With the status that a controller would write: the API server decides by it."""
    named = {name.replace("_", "."): value for name, value in hard.items()}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas/few"
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": named}}
    api.apply(path, body)
    status = {"status": {"hard": named, "used": dict.fromkeys(named, "0")}}
    api.request("PATCH", f"{path}/status", status, "application/merge-patch+json")


def limit_range(api: ApiServer, namespace: str, **limits: Json) -> None:
    path = f"/api/v1/namespaces/{namespace}/limitranges/few"
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "few"}}
    api.apply(path, {**body, "spec": {"limits": [{"type": "Container", **limits}]}})


def test_a_quota_of_limits_asks_for_them_in_every_container(cluster_api: ApiServer, namespace: str) -> None:
    quota(cluster_api, namespace, limits_cpu="4", limits_memory="4Gi")
    for needs, names in ((BOTH, "admc-proxy,admc-rules,admc-wait"), (WAIT, "admc-wait")):
        said = answer(cluster_api, namespace, needs)
        assert f"failed quota: few: must specify limits.cpu for: {names}; limits.memory for: {names}" in said
        assert answer(cluster_api, namespace, needs._replace(resources=LIMITED)) == ""
    assert answer(cluster_api, namespace, BOTH, adm_cpu_limit="500m", adm_memory_limit="128Mi") == ""


def test_a_quota_without_room_for_the_adm(cluster_api: ApiServer, namespace: str) -> None:
    quota(cluster_api, namespace, requests_memory="70Mi")
    said = answer(cluster_api, namespace, BOTH)
    assert "exceeded quota: few, requested: requests.memory=128Mi, used: requests.memory=0, limited: requests" in said
    quota(cluster_api, namespace, requests_memory="128Mi")
    assert answer(cluster_api, namespace, BOTH) == ""


def test_a_limit_range_without_room_for_the_adm(cluster_api: ApiServer, namespace: str) -> None:
    limit_range(cluster_api, namespace, max={"memory": "100Mi"})
    said = answer(cluster_api, namespace, BOTH._replace(resources=LIMITED))
    assert "maximum memory usage per Container is 100Mi, but limit is 128Mi" in said
    # The API server takes the maximum as the default for a container without a limit.
    assert answer(cluster_api, namespace, BOTH) == ""
    limit_range(cluster_api, namespace, default={"memory": "32Mi"})
    said = answer(cluster_api, namespace, BOTH)
    assert "must be less than or equal to memory limit of 32Mi" in said
    assert "spec.initContainers[1].resources.requests" in said
    for needs in (BOTH, WAIT):
        assert answer(cluster_api, namespace, needs._replace(resources=LIMITED)) == ""


@pytest.mark.parametrize(
    ("limits", "of_others"),
    [
        (None, None),
        (Amounts("500m", "128Mi"), {"cpu": "500m", "memory": "128Mi"}),
        (Amounts("500m"), {"cpu": "500m"}),
        (Amounts(memory="1Gi"), {"memory": "1Gi"}),
        # Not less than they request.
        (Amounts("5m", "32Mi"), {"cpu": "10m", "memory": "64Mi"}),
    ],
)
def test_the_other_containers_have_the_limits_of_the_adm(limits: Amounts | None, of_others: Json | None) -> None:
    needs = BOTH._replace(resources=Resources(Amounts("5m", "32Mi"), limits))
    for each in containers(needs, INSTALLATION):
        if each["name"] != ADM_CONTAINER:
            assert each["resources"]["requests"] == {"cpu": "10m", "memory": "64Mi"}
            assert each["resources"].get("limits") == of_others
