"""Blue and green at a real API server: which pods are those of a service, which of them get requests, and which change
of the selector passes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment

from admc.kubernetes.inject.names import POD_LABELS
from emitters.interception.pod import PodCaptures
from tests.cluster.api_server import ApiError
from tests.cluster.guard.policy import guard, install
from tests.cluster.node.cluster import path_of
from tests.cluster.serve.test_another_release import Proxy
from tests.cluster.serve.test_injections import spec
from tests.serve.test_identity_streams import bearing
from tests.xds_server.client import Client
from xds_server.resources.types import ENDPOINTS, LISTENER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.cluster.serve.installation import Installation

PROGRAM = """\
app shop
service web  { http 8080  namespace NAMESPACE }
service cart { http 8081  namespace NAMESPACE }
call web -> cart { rate 10/s }
policy p = set_request_header(name: "x-tier", value: "gold") on web -> cart
pin p at ingress
policy b = load_balancing(policy: least_request) on web -> cart
"""
BLUE, GREEN = ({"app": "cart", "colour": colour} for colour in ("blue", "green"))
ALL = {POD_LABELS: "app=cart"}
OF_CART = PodCaptures(frozenset({8081}))
AT = {"blue": "10.77.1.1", "green": "10.77.1.2"}
"""The addresses of the pods of each colour."""


@pytest.fixture
def coloured(shop: Installation) -> Iterator[Installation]:
    """With the guard of the chart, and `cart` by its blue pods."""
    shop.remove_pod("cart-1")
    shop.service("cart", 8081, selector=BLUE)
    added(shop, "blue")
    objects = guard(shop.injection)
    install(shop.api, objects)
    yield shop
    for each in reversed(objects):
        shop.api.request("DELETE", path_of(each))


def added(shop: Installation, colour: str, captures: PodCaptures | None = OF_CART) -> None:
    """A pod of a colour, with its ADM and the wait, or without."""
    labels, waits = {"colour": colour}, captures is not None
    shop.pod(f"cart-{colour}", "cart", AT[colour], captures, waits=waits, labels=labels)


def change(shop: Installation, **spec: Any) -> None:
    """Another selector of `cart`, and nothing else."""
    path = f"/api/v1/namespaces/{shop.namespace}/services/cart"
    shop.api.request("PATCH", path, {"spec": spec}, "application/merge-patch+json")


def row(shop: Installation) -> dict[str, Any]:
    """That of `cart` in the object of the namespace; empty without one."""
    stored_row: dict[str, Any] = spec(shop).get("services", {}).get("cart", {})
    return stored_row


def is_guarded(shop: Installation) -> bool:
    required = row(shop).get("required", {})
    return bool(required.get("waits") and required.get("captures"))


def refusal(act: Callable[[], object]) -> str:
    """Why the API server refuses something; empty if it does not."""
    try:
        act()
    except ApiError as error:
        return str(error)
    return ""


class Adm:
    """The ADM of a pod."""

    def __init__(self, stream: Client) -> None:
        self._stream, self._proxy = stream, Proxy()

    async def begin(self) -> None:
        await self._proxy.begin(self._stream)
        await self._proxy.follow(self._stream)

    async def listeners(self) -> int:
        await self._proxy.follow(self._stream)
        return len(self._proxy.held[LISTENER])

    async def endpoints(self) -> set[str]:
        """The addresses among which it chooses."""
        await self._proxy.follow(self._stream)
        chosen = set()
        for item in self._proxy.held[ENDPOINTS].values():
            for locality in ClusterLoadAssignment.FromString(item.body).endpoints:
                chosen |= {each.endpoint.address.socket_address.address for each in locality.lb_endpoints}
        return chosen


@asynccontextmanager
async def adm(shop: Installation, service: str, pod: str) -> AsyncIterator[Adm]:
    credentials = grpc.ssl_channel_credentials(shop.authority.certificate)
    token = await asyncio.to_thread(shop.token, pod)
    async with Client(shop.port, "delta", service, id=pod, credentials=credentials, metadata=bearing(token)) as stream:
        made = Adm(stream)
        await made.begin()
        yield made


async def test_the_next_colour_has_its_adms_before_it_gets_requests(coloured: Installation) -> None:
    shop = coloured
    shop.service("cart", 8081, selector=BLUE, annotations=ALL)
    with shop.server():
        shop.program(PROGRAM)
        await asyncio.to_thread(shop.until, lambda: is_guarded(shop))
        assert row(shop).get("selector") == {"app": "cart"}
        assert "selector" not in row(shop)["required"], "all of its pods have been checked by these labels"
        await asyncio.to_thread(
            shop.until, lambda: "`cart` is guarded" in refusal(lambda: added(shop, "green", captures=None))
        )
        async with adm(shop, "web", "web-1") as web:
            assert await web.endpoints() == {AT["blue"]}
            added(shop, "green")
            async with adm(shop, "cart", "cart-green") as green:
                assert await green.listeners() > 0, "it has its configuration, so that its pod can become ready"
            assert await web.endpoints() == {AT["blue"]}
            ready = [{"type": "Ready", "status": "False"}]
            path = f"/api/v1/namespaces/{shop.namespace}/pods/cart-blue/status"
            shop.api.request("PATCH", path, {"status": {"conditions": ready}}, "application/merge-patch+json")
            assert await web.endpoints() == {AT["blue"]}, "no pod of the other colour stands in"
            change(shop, selector=GREEN)
            assert await web.endpoints() == {AT["green"]}
        assert row(shop).get("selector") == {"app": "cart"}
        assert "lack what the plan needs" not in shop.condition("Programmed")[2]
        assert "lacks app=cart: " in refusal(lambda: change(shop, selector={"app": None, "tier": "x"}))


async def test_without_the_annotation_the_change_is_refused_and_names_it(coloured: Installation) -> None:
    shop = coloured
    added(shop, "green", captures=None)

    def turn() -> str:
        return refusal(lambda: change(shop, selector=GREEN))

    with shop.server():
        shop.program(PROGRAM)
        shop.until(lambda: is_guarded(shop))
        assert row(shop).get("selector") == BLUE
        # The API server reads the object a moment later.
        path = f"/api/v1/namespaces/{shop.namespace}/services"
        shop.until(lambda: tried(shop, f"{path}/cart"))
        assert "ADM966: this Service is that of `cart`, which is guarded, and its selector lacks colour=blue" in turn()
        assert "name the labels that all of its pods have in the annotation `admc.dev/pod-labels`" in turn()
        # Deleted and created again, too.
        shop.api.request("DELETE", f"{path}/cart")
        assert "its selector lacks colour=blue" in refusal(lambda: shop.service("cart", 8081, selector=GREEN))
        # With the annotation, pods of the other colour are those of the service, and one of them has no ADM yet.
        shop.service("cart", 8081, selector=BLUE, annotations=ALL)
        shop.until(lambda: row(shop).get("selector") == {"app": "cart"})
        assert row(shop)["required"]["selector"] == BLUE
        shop.until(lambda: "lack what the plan needs: `cart-green`" in shop.condition("Programmed")[2])
        assert "its selector lacks colour=blue" in turn()
        shop.remove_pod("cart-green")
        shop.until(lambda: "`cart` is guarded" in refusal(lambda: added(shop, "green", captures=None)))
        added(shop, "green")
        shop.until(lambda: "selector" not in row(shop)["required"])
        shop.until(lambda: not turn())
        assert row(shop).get("selector") == {"app": "cart"}


def tried(shop: Installation, path: str) -> str:
    """Why a Service may not change to green; empty if it may."""
    spec = {"selector": GREEN}
    return refusal(
        lambda: shop.api.request("PATCH", f"{path}?dryRun=All", {"spec": spec}, "application/merge-patch+json")
    )


def test_an_annotation_that_names_no_labels_of_the_selector(coloured: Installation) -> None:
    shop = coloured
    with shop.server():
        shop.program(PROGRAM)
        shop.until(lambda: row(shop).get("selector") == BLUE)
        for text in ("app", "app=web", "tier=x", "", "app=cart,"):
            shop.service("cart", 8081, selector=BLUE, annotations={POD_LABELS: text})
            said = shop.said(
                "Resolved", "Resolved", "ADM967: the annotation `admc.dev/pod-labels` of the Service `cart`"
            )
            assert "is not a label of the selector" in said
            assert row(shop).get("selector") == BLUE
            shop.service("cart", 8081, selector=BLUE)
            shop.said("Resolved", "Resolved", "every Service, port and pod fits")


def test_a_service_of_another_name_in_the_program(coloured: Installation) -> None:
    shop = coloured
    shop.service("basket", 8081, selector=BLUE)
    with shop.server():
        shop.program(PROGRAM, services={"cart": "basket"})
        shop.until(lambda: is_guarded(shop))
        assert row(shop)["service"] == "basket"
        path = f"/api/v1/namespaces/{shop.namespace}/services/basket"
        shop.until(lambda: "`cart`, which is guarded, and its selector lacks colour=blue" in tried(shop, path))
        change(shop, selector=GREEN)  # the Service `cart` is of no service of the program
