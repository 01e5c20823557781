"""Services and pods that do not fit: a condition says what and where, the last good plan stays, and what is mended
fits again. One server has all of them, one after the other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.serve.installation import PROGRAM, Installation, installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api_server import ApiServer
    from tests.serve.server_process import Served

GOOD = PROGRAM.replace("SIDE", "egress")
AT = "policies.adm:3:9: "
FITS = "every Service, port and pod fits"


class Running(NamedTuple):
    shop: Installation
    server: Served
    plan: str
    """The digest of the one that is in force."""

    def stays(self) -> None:
        """No other plan has been put into force, and this one is still in the cluster."""
        assert self.shop.status()["plan"]["sha256"] == self.plan
        assert len(self.server.events("compiled")) == 1

    @property
    def unlisted(self) -> list[str]:
        found: list[str] = self.server.status()["server"]["unlisted"]
        return found

    def replace(self, **spec: Any) -> None:
        """Another Service `cart`: some of its fields cannot be changed."""
        self.remove()
        self.shop.service("cart", 8081, **spec)

    def remove(self) -> None:
        with contextlib.suppress(ApiError):
            self.shop.api.request("DELETE", f"/api/v1/namespaces/{self.shop.namespace}/services/cart")


@pytest.fixture(scope="module")
def shop(cluster_api: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    shop = installation(cluster_api, tmp_path_factory.mktemp("shop"))
    shop.service("web", 8080)
    shop.service("cart", 8081)
    shop.pod("web-1", "web", "10.79.0.1", PodCaptures(frozenset(), frozenset({8081})))
    shop.pod("cart-1", "cart", "10.79.0.2")
    with shop.server() as server:
        shop.program(GOOD)
        shop.said("Programmed", "NotInSync")
        yield Running(shop, server, shop.status()["plan"]["sha256"])


@pytest.fixture
def running(shop: Running) -> Iterator[Running]:
    """It fits before the test, and again after it."""
    yield shop
    shop.replace()
    shop.shop.said("Resolved", "Resolved", FITS)
    shop.server.until(lambda: shop.unlisted == [])
    shop.stays()


def test_a_service_that_is_absent(running: Running) -> None:
    running.remove()
    said = running.shop.said("Resolved", "Resolved", "ADM940")
    what = f"there is no Service `cart` in the namespace `{running.shop.namespace}` for `cart`"
    assert said.startswith(f"no errors, and these warnings:\n{AT}ADM940: {what}")
    assert "apply the Service, or name another one for it in `spec.services`" in said
    running.server.until(lambda: running.unlisted == ["cart"])
    running.stays()


@pytest.mark.parametrize("selector", [None, {}], ids=["none", "empty"])
def test_a_service_without_a_selector(running: Running, selector: Any) -> None:
    running.replace(selector=selector)
    said = running.shop.said("Resolved", "Resolved", "ADM941")
    assert f"{AT}ADM941: the Service of `cart` has no selector (EndpointSlices say where it is" in said
    running.server.until(lambda: running.unlisted == [])
    running.stays()


def test_a_name_outside_of_the_cluster(running: Running) -> None:
    running.replace(type="ExternalName", externalName="cart.example", selector=None)
    said = running.shop.said("Resolved", "NotResolved", "ADM940")
    assert f"{AT}ADM940: the Service of `cart` is a name outside of the cluster, `cart.example`" in said
    assert said.startswith("a program with this is not put into force; a plan that is in force stays\n")
    running.server.until(lambda: running.unlisted == ["cart"])
    running.stays()
    assert running.shop.condition("Programmed")[:2] == ("False", "NotAccepted")


@pytest.mark.parametrize(
    "spec", [{"clusterIP": "None"}, {"ipFamilyPolicy": "RequireDualStack"}], ids=["headless", "dual-stack"]
)
def test_a_service_of_a_form_that_fits(running: Running, spec: Any) -> None:
    running.remove()
    running.shop.said("Resolved", "Resolved", "ADM940")
    running.shop.service("cart", 8081, **spec)
    running.shop.said("Resolved", "Resolved", FITS)
    running.server.until(lambda: running.unlisted == [])
    running.stays()


def test_ports_that_are_others(running: Running) -> None:
    running.replace(ports=[{"port": 9999}])
    said = running.shop.said("Resolved", "NotResolved", "ADM943")
    what = "the ports of `cart` are other ones in the cluster (its Service has no TCP port 8081; it has 9999)"
    assert f"{AT}ADM943: {what}; an ADM takes connections to the ports of the program: correct them there" in said
    running.replace(ports=[{"port": 8081, "targetPort": "http"}])
    for name, number in (("cart-2", 8081), ("cart-3", 9999)):
        context = {"runAsUser": 1000, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
        ports = [{"name": "http", "containerPort": number}]
        containers = [{"name": "app", "image": "none", "securityContext": context, "ports": ports}]
        running.shop.pod(name, "cart", f"10.79.0.{name[-1]}", containers=containers)
    said = running.shop.said("Resolved", "NotResolved", "`http` is 9999 in a pod")
    running.shop.remove_pod("cart-2")
    running.shop.remove_pod("cart-3")
    running.shop.said("Resolved", "NotResolved", "no container has a port `http` in a pod")
    running.stays()


def test_a_pod_in_two_services(running: Running) -> None:
    running.replace(selector={"app": "web"})
    said = running.shop.said("Resolved", "NotResolved", "ADM942")
    assert "policies.adm:2:9: ADM942: `web` and `cart` have a pod in common (a pod has one ADM" in said or (
        "policies.adm:3:9: ADM942: `cart` and `web` have a pod in common (a pod has one ADM" in said
    )
    running.server.until(lambda: "cart" in running.unlisted)
    running.stays()


def test_a_new_program_that_does_not_fit_is_not_put_into_force(running: Running) -> None:
    running.shop.program(GOOD.replace("http 8081", "http 8082"))
    said = running.shop.said("Resolved", "NotResolved")
    assert "its Service has no TCP port 8082; it has 8081" in said
    assert running.shop.condition("Accepted")[:2] == ("Unknown", "NotResolved")
    assert running.shop.condition("Programmed") == ("False", "NotAccepted", "an earlier plan is in force")
    running.stays()
    running.shop.program(GOOD)
    running.shop.said("Programmed", "NotInSync")
