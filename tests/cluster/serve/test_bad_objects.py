"""What a hand does to objects of an installation while its server runs: it is mended, and the last good plan stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.serve.installation import Installation, installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api_server import ApiServer
    from tests.serve.server_process import Served

CLOSING = """\
app shop
service web  { http 8080  namespace NAMESPACE }
service cart { http 8081  namespace NAMESPACE }
call web -> cart { rate 10/s }
policy p = set_request_header(name: "x-tier", value: "gold") on * -> cart
pin p at egress
"""
MERGE = "application/merge-patch+json"


class Running(NamedTuple):
    shop: Installation
    server: Served
    plan: str
    """The digest of the one that is in force."""

    def stays(self) -> None:
        """No other plan has been put into force, and this one is still in the cluster."""
        assert self.shop.status()["plan"]["sha256"] == self.plan
        assert len(self.server.events("compiled")) == 1

    def get(self, path: str) -> dict[str, Any] | None:
        """None where there is no such object."""
        try:
            found: dict[str, Any] = self.shop.api.request("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return found

    def is_other(self, path: str, uid: str) -> bool:
        """The object has been made anew."""
        found = self.get(path)
        return found is not None and found["metadata"]["uid"] != uid


@pytest.fixture(scope="module")
def running(cluster_api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    shop = installation(cluster_api, tmp_path_factory.mktemp("shop"))
    shop.service("web", 8080)
    shop.service("cart", 8081)
    shop.pod("web-1", "web", "10.80.0.1", PodCaptures(frozenset(), frozenset({8081})))
    shop.pod("cart-1", "cart", "10.80.0.2")
    with shop.server() as server:
        shop.program(CLOSING)
        shop.until(lambda: shop.status().get("plan"))
        yield Running(shop, server, shop.status()["plan"]["sha256"])


def policies(shop: Installation) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{shop.namespace}/networkpolicies"


def test_a_network_policy_that_is_altered_or_deleted_is_written_again(running: Running) -> None:
    shop, path = running.shop, f"{policies(running.shop)}/admc-close-cart"
    written = shop.until(lambda: running.get(path))
    shop.api.request("PATCH", path, {"spec": {"ingress": [{}]}}, MERGE)
    shop.until(lambda: (running.get(path) or {})["spec"] == written["spec"])
    shop.api.request("DELETE", path)
    again = shop.until(lambda: running.get(path))
    assert again["spec"] == written["spec"]
    assert again["metadata"]["ownerReferences"] == written["metadata"]["ownerReferences"]
    running.stays()


def test_another_network_policy_that_admits_more_is_named(running: Running) -> None:
    shop, path = running.shop, f"{policies(running.shop)}/monitoring"
    metadata = {"name": "monitoring", "namespace": shop.namespace}
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    shop.api.apply(
        path, {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}
    )
    said = shop.said("Programmed", "NotClosed")
    what = f"`cart` is not closed: the NetworkPolicy `{shop.namespace}/monitoring` may admit callers that"
    assert f"policies.adm:3:9: ADM937: {what}" in said
    assert "narrow its selector or its rules" in said
    shop.api.request("DELETE", path)
    shop.until(lambda: shop.condition("Programmed")[1] != "NotClosed")
    running.stays()


def test_a_plan_that_is_altered_or_deleted_is_written_again(running: Running) -> None:
    shop = running.shop
    index = f"/api/v1/namespaces/{shop.system}/configmaps/admc-{shop.name}-plan"
    written = shop.until(lambda: running.get(index))
    shop.api.request("PATCH", index, {"data": {"index.json": "{}"}}, MERGE)
    shop.until(lambda: (running.get(index) or written)["data"] == written["data"])
    uid = written["metadata"]["uid"]
    shop.api.request("DELETE", index)
    shop.until(lambda: running.is_other(index, uid))
    running.stays()


@pytest.mark.parametrize("what", ["state", "part"])
def test_a_stored_state_that_is_deleted_is_stored_again(running: Running, what: str) -> None:
    shop = running.shop
    secrets = f"/api/v1/namespaces/{shop.system}/secrets"

    def names() -> list[str]:
        return [each["metadata"]["name"] for each in shop.api.request("GET", secrets)["items"]]

    name = shop.until(lambda: next((each for each in names() if f"-{what}" in each), ""))
    uid = shop.api.request("GET", f"{secrets}/{name}")["metadata"]["uid"]
    renewed = len(running.server.events("kept_state_renewed"))
    shop.api.request("DELETE", f"{secrets}/{name}")
    running.server.until_event("kept_state_renewed", renewed + 1)
    shop.until(lambda: running.is_other(f"{secrets}/{name}", uid))
    running.stays()


def test_a_namespace_that_loses_its_label_and_gets_it_again(running: Running) -> None:
    shop, path = running.shop, f"/api/v1/namespaces/{running.shop.namespace}"
    for label, why in (
        (None, "it has no label `admc.dev/controller`"),
        ("other", "its label `admc.dev/controller` is `other`"),
    ):
        shop.api.request("PATCH", path, {"metadata": {"labels": {"admc.dev/controller": label}}}, MERGE)
        said = shop.said("Resolved", "NotResolved", why)
        what = f"the namespace `{shop.namespace}` of `cart` takes no part in `{shop.name}` ({why})"
        assert f"policies.adm:3:9: ADM944: {what}; `kubectl label namespace" in said
        running.stays()
    shop.api.request("PATCH", path, {"metadata": {"labels": {"admc.dev/controller": shop.name}}}, MERGE)
    shop.said("Resolved", "Resolved")


def test_a_namespace_that_is_deleted_with_all_its_pods_stops_no_other_one(running: Running) -> None:
    """No controller empties the namespace: it stays as it is while finalizers are at work."""
    shop = running.shop
    other = f"{shop.namespace}-two"
    labels = {"admc.dev/controller": shop.name}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"labels": labels}}
    going = f"/api/v1/namespaces/{shop.namespace}-one"
    shop.api.apply(going, {**body, "metadata": {"name": f"{shop.namespace}-one", "labels": labels}})
    text = CLOSING.replace(
        "cart { http 8081  namespace NAMESPACE", f"cart {{ http 8081  namespace {shop.namespace}-one"
    )
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "cart"}}
    spec = {"selector": {"app": "cart"}, "ports": [{"port": 8081}]}
    shop.api.apply(f"{going}/services/cart", {**service, "spec": spec})
    shop.program(text)
    shop.until(
        lambda: running.get(
            f"/apis/networking.k8s.io/v1/namespaces/{shop.namespace}-one/networkpolicies/admc-close-cart"
        )
    )
    shop.api.request("DELETE", going)
    said = shop.said("Resolved", "NotResolved", "it is being deleted")
    assert "ADM944" in said
    shop.api.apply(f"/api/v1/namespaces/{other}", {**body, "metadata": {"name": other, "labels": labels}})
    shop.until(lambda: running.get(f"/api/v1/namespaces/{other}/configmaps/admc-{shop.name}"))
    assert running.server.status()["server"]["state"]
