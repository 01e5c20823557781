"""From the manifests of the chart to policies in force, and no manifest of the application is edited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from admc.kubernetes.inject.names import POD_LABELS
from tests.cluster.api_server import ApiError
from tests.cluster.boutique.installed import Shop
from tests.cluster.boutique.shop import CALLER, NAMESPACE
from tests.cluster.node.cluster import cluster
from tests.cluster.tools import MissingError
from tests.cluster.traffic.counted import count

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster
DIAL = """
import grpc
channel = grpc.insecure_channel("{}")
try:
    print(channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5))
except grpc.RpcError as error:
    print(error.code().name)
"""
ADMS = {
    "emailservice",
    "frontend",
    "loadgenerator",
    "paymentservice",
    "productcatalogservice",
    "redis-cart",
    "shippingservice",
}


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """On a node of its own: the chart makes objects of the whole cluster."""
    try:
        with cluster() as node:
            made = Shop(node)
            yield made
            made.close()
    except MissingError as error:
        pytest.skip(str(error))


def dialled(shop: Shop, service: str) -> str:
    """The answer of a health check by the caller's container, which no policy admits there."""
    (pod,) = shop.node.ready_pods(NAMESPACE, f"app={CALLER}")
    command = ["python", "-c", DIAL.format(service)]
    return shop.node.execute(pod["metadata"]["name"], "main", command, NAMESPACE).strip()


def test_pods_get_their_adms_without_an_edited_manifest(shop: Shop) -> None:
    shop.install()
    shop.open()
    assert dialled(shop, "paymentservice:50051") == "b'\\x08\\x01'"

    shop.program("egress", "one")
    shop.until_accepted()
    shop.restart()
    shop.until_ready()
    shop.until_programmed()
    assert shop.with_adm() == ADMS
    assert dialled(shop, "paymentservice:50051") == "PERMISSION_DENIED"
    shop.until_steady()


def test_a_policy_changes_sides_under_traffic(shop: Shop) -> None:
    since = max(each.began for each in shop.sent())
    shop.program("ingress", "two")
    shop.until_accepted()
    shop.restart("frontend", CALLER)
    shop.until_ready()
    shop.until_programmed()
    shop.scale("frontend", 2)
    shop.until_ready()
    shop.until_programmed()
    counted = count(shop.sent(since), {("one",), ("two",)})
    assert counted.requests > 100
    assert not counted.wrong, counted
    assert ("two",) in {each.met for each in shop.sent(since)}


def test_a_service_changes_its_colour_under_traffic(shop: Shop) -> None:
    """The pods of the next colour are ready, with their ADMs, before the Service selects them."""
    blue, green = ({"app": "frontend", "colour": colour} for colour in ("blue", "green"))
    since = max(each.began for each in shop.sent())
    shop.label("frontend", colour="blue")
    shop.until_ready()
    shop.select("frontend", blue, {POD_LABELS: "app=frontend"})
    shop.copy("frontend", "frontend-green", colour="green")
    shop.until_ready("frontend-green")
    shop.until_programmed()
    (pod,) = shop.node.ready_pods(NAMESPACE, "app=frontend,colour=green")
    assert pod["spec"]["initContainers"][1]["name"] == "admc-proxy"
    changed = time.monotonic()
    shop.select("frontend", green)
    shop.scale("frontend", 0)
    shop.until(lambda: not shop.node.pods(NAMESPACE, "app=frontend,colour=blue"), "the end of the earlier pods")
    shop.until(
        lambda: len([each for each in shop.sent(changed) if each.met == ("two",)]) > 50, "requests to the others"
    )
    counted = count(shop.sent(since), {("two",)})
    assert counted.requests > 100
    assert not counted.wrong, counted
    with pytest.raises(ApiError, match="its selector lacks app=frontend: "):
        shop.select("frontend", {"colour": "blue", "app": "other"})
    shop.scale("frontend", 2)
