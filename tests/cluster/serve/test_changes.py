"""`admc serve --cluster` beside a real API server, while programs, Services and pods change."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.cluster.serve.installation import PROGRAM, Installation

if TYPE_CHECKING:
    from tests.serve.server_process import Served

AT_EGRESS = PROGRAM.replace("SIDE", "egress")
WITHOUT_CART = "app shop\nservice web { http 8080  namespace NAMESPACE }\n"
CLOSING = AT_EGRESS.replace("on web -> cart", "on * -> cart")
IMPOSSIBLE = AT_EGRESS + "pin p at ingress\n"


def row(server: Served) -> dict[str, Any]:
    found: dict[str, Any] = server.status()["server"]
    return found


def test_the_first_state_has_the_addresses_of_the_cluster(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        assert row(server)["unlisted"] == []
        state = row(server)["state"]
        time.sleep(2.0)
        assert row(server)["state"] == state


def test_a_program_may_drop_a_service_and_get_it_back(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        shop.program(WITHOUT_CART)
        shop.until(lambda: shop.status().get("services") == 1 and shop.condition("Accepted")[0] == "True")
        shop.until(lambda: shop.status().get("adms") == 0)
        assert not [each for each in server.events("finding") if each["code"] == "ADM712"]
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.status().get("adms") == 1)
        assert row(server)["unlisted"] == []


def test_pods_are_followed_while_a_program_is_refused(shop: Installation) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        before = row(server)["state"]
        shop.program(IMPOSSIBLE)
        shop.until(lambda: shop.condition("Accepted")[0] == "False")
        assert row(server)["state"] == before
        shop.pod("cart-2", "cart", "10.77.0.3")
        shop.until(lambda: row(server)["state"] != before)
        assert not [each for each in server.events("finding") if each["about"] == "endpoints"]


def test_a_program_that_is_gone_owns_nothing_any_more(shop: Installation) -> None:
    policy = f"/apis/networking.k8s.io/v1/namespaces/{shop.namespace}/networkpolicies"

    def policies() -> list[Any]:
        found: list[Any] = shop.api.request("GET", policy)["items"]
        return found

    with shop.server() as server:
        shop.program(CLOSING)
        shop.until(policies)
        shop.said("Programmed", "NotInSync")  # the plan is in force
        shop.api.request("DELETE", f"/apis/admc.dev/v1alpha1/programs/{shop.name}")
        (gone,) = shop.until(lambda: server.events("program_gone"))
        assert gone["open"] == ["cart"]
        shop.api.request("DELETE", f"{policy}/admc-close-cart")  # as the cluster does, when its owner is gone
        time.sleep(3.0)
        assert policies() == []
        assert "the Program is gone" in row(server)["source"]
        shop.program(CLOSING)
        shop.until(policies)
        uid = shop.api.request("GET", f"/apis/admc.dev/v1alpha1/programs/{shop.name}")["metadata"]["uid"]
        assert [each["uid"] for each in policies()[0]["metadata"]["ownerReferences"]] == [uid]


def test_a_restarted_server_knows_the_services_of_a_program_that_is_gone(shop: Installation) -> None:
    shop.service("basket", 8081, selector={"app": "cart"})
    shop.api.request("DELETE", f"/api/v1/namespaces/{shop.namespace}/services/cart")
    with shop.server() as server:
        shop.program(AT_EGRESS, services={"cart": "basket"})
        shop.until(lambda: shop.condition("Programmed")[1] == "NotInSync")
        shop.until(lambda: row(server)["unlisted"] == [])
        state = row(server)["state"]
        secret = f"/api/v1/namespaces/{shop.system}/secrets/admc-{shop.name}-state"
        shop.until(lambda: shop.api.request("GET", secret).get("data"))
    shop.api.request("DELETE", f"/apis/admc.dev/v1alpha1/programs/{shop.name}")
    with shop.server() as server:
        shop.until(lambda: row(server)["state"] == state)
        assert row(server)["unlisted"] == []
        assert server.until_event("recalled")["state"] == state
