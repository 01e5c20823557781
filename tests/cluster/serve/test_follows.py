"""`admc serve --cluster` beside a real API server. There is no kubelet: the test writes what it would write of pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.serve.installation import PROGRAM, Installation, installation

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

AT_EGRESS = PROGRAM.replace("SIDE", "egress")
AT_INGRESS = PROGRAM.replace("SIDE", "ingress")


def test_a_program_is_accepted_resolved_and_waits_for_its_proxy(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Accepted")[0] == "True")
        assert shop.condition("Resolved")[:2] == ("True", "Resolved")
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        status = shop.status()
        assert (status["adms"], status["services"], status["pods"]["total"]) == (1, 2, 2)
        assert server.status()["server"]["state"]


def test_a_service_without_pods_holds_no_rollout(cluster_api: ApiServer, tmp_path: Path) -> None:
    """Its Deployment is scaled to nothing: no proxy will acknowledge a step."""
    shop = installation(cluster_api, tmp_path)
    shop.service("web", 8080)
    shop.service("cart", 8081)
    with shop.server() as server:
        for text in (AT_EGRESS, AT_INGRESS, AT_EGRESS):
            before = server.status()["server"]["state"]
            shop.program(text)
            shop.until(lambda before=before: server.status()["server"]["state"] != before)
            shop.until(lambda: shop.condition("Programmed")[0] == "True")


def test_a_pod_on_the_hosts_network_is_refused_until_the_plan_rests_on_it(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        before = server.status()["server"]["state"]
        shop.pod("cart-2", "cart", "10.99.0.1", hostNetwork=True)
        shop.until(lambda: server.status()["server"]["state"] != before)  # the fact is an input of the plan
        shop.until(lambda: server.status()["server"]["unlisted"] == [])
        shop.until(lambda: "ADM940" not in str(shop.status()))
        assert shop.condition("Resolved")[0] == "True"


def test_the_active_replica_says_who_it_is_and_what_it_asks_of_the_api_server(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Accepted")[0] == "True")
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{shop.system}/leases/admc-{shop.name}"
        row = server.status()["server"]
        assert row["role"] == "active"
        assert row["holder"] == shop.api.request("GET", lease)["spec"]["holderIdentity"]
        assert server.metric("admc_lease_held") == 1
        assert server.metric('admc_kubernetes_requests_total{code="200",resource="pods",verb="list"}') >= 1
        assert server.metric('admc_kubernetes_requests_total{code="201",resource="leases",verb="create"}') >= 1
        assert server.metric('admc_kubernetes_relists_total{resource="pods"}') == 0
