"""Selectors with many labels, at a real API server: they cost their own service, and hold no other plan back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.inject.selectors import MAX_CHARACTERS, MAX_LABELS
from admc.kubernetes.inject.spec import ServiceInjection, injection_spec, read_spec, to_json
from tests.cluster.api_server import ApiError
from tests.cluster.guard.policy import install
from tests.cluster.node.cluster import path_of
from tests.cluster.serve.installation import PROGRAM, installation
from tests.deploy.chart import definitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cluster.api_server import ApiServer
    from tests.cluster.serve.installation import Installation

TWO = """\
app shop
service cart  { http 8081  namespace NAMESPACE }
service front { http 8080  namespace NAMESPACE-two }
service back  { http 8081  namespace NAMESPACE-two }
call front -> back, cart
policy p = set_request_header(name: "x-tier", value: "gold") on front -> back
pin p at SIDE
policy q = set_request_header(name: "x-tier", value: "gold") on front -> cart
pin q at ingress
"""
AT_EGRESS, AT_INGRESS = (TWO.replace("SIDE", side) for side in ("egress", "ingress"))
NEEDS = {
    AT_EGRESS: {"front": {"ingress": [], "egress": [8081]}},
    AT_INGRESS: {"back": {"ingress": [8081], "egress": []}},
}
"""Of the pods of the second namespace."""


def labels(number: int) -> dict[str, str]:
    return {"app": "cart", **{f"label-{index:03}": "x" for index in range(number - 1)}}


SELECTORS = {
    "as many labels as are used": labels(MAX_LABELS),
    "one more": labels(MAX_LABELS + 1),
    "as many as an `Injection` can have": labels(100),
    "one more than that": labels(101),
    "labels that are long together": {f"{'d' * 253}/{'k' * 62}{index}": "v" * 63 for index in range(3)},
    "1.2 MB": {f"{'d' * 253}/{index:063}": "v" * 63 for index in range(3_200)},
}


@pytest.fixture
def two(shop: Installation) -> Installation:
    """With a second namespace that takes part. No service has pods, so that each plan is in force at once."""
    for name in ("web-1", "cart-1"):
        shop.remove_pod(name)
    metadata = {"name": f"{shop.namespace}-two", "labels": {"admc.dev/controller": shop.name}}
    shop.api.apply(
        f"/api/v1/namespaces/{metadata['name']}", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    )
    for name, port in (("front", 8080), ("back", 8081)):
        spec = {"selector": {"app": name}, "ports": [{"port": port}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        shop.api.apply(f"/api/v1/namespaces/{shop.namespace}-two/services/{name}", body)
    return shop


def rows(shop: Installation, namespace: str = "") -> dict[str, Any]:
    """The services in the object of a namespace."""
    stored: dict[str, Any] = shop.api.request("GET", PATH.format(namespace or shop.namespace, shop.name))
    return stored["spec"]["services"]  # type: ignore[no-any-return]


def captured_in_two(shop: Installation) -> dict[str, Any]:
    services = rows(shop, f"{shop.namespace}-two")
    return {name: row["captures"] for name, row in services.items() if "captures" in row}


def test_a_selector_with_many_labels_costs_its_own_service_alone(two: Installation) -> None:
    programs = [AT_EGRESS, AT_INGRESS]
    with two.server() as server:
        two.program(programs[0])
        two.said("Programmed", "Programmed")
        two.until(lambda: "required" in rows(two)["cart"])
        guarded = rows(two)["cart"]
        assert guarded["selector"] == {"app": "cart"}
        for name, selector in SELECTORS.items():
            programs.reverse()
            two.service("cart", 8081, selector={"app": "cart"})
            two.until(lambda: rows(two)["cart"] == guarded)
            two.service("cart", 8081, selector=selector)
            is_used = selector == labels(MAX_LABELS)
            if is_used:
                two.until(lambda: rows(two)["cart"]["selector"] == labels(MAX_LABELS))
            else:
                said = two.said("Resolved", "Resolved", "ADM965: admc does not use the selector of the Service `cart`")
                assert f"in the namespace `{two.namespace}`" in said
                assert "give the Service a selector with fewer or shorter labels" in said
            plan = two.plan()
            two.program(programs[0])
            two.until(lambda: two.plan() not in ("", plan))  # noqa: B023 - it is called at once
            two.said("Programmed", "Programmed")
            two.until(lambda: captured_in_two(two) == NEEDS[programs[0]])
            assert is_used or rows(two)["cart"] == guarded, f"{name}: its last selector stays"
        assert not server.events("injection_not_written")


WEBHOOK = "x-refuses"


def webhook(namespace: str) -> dict[str, Any]:
    """Of another operator. No process answers it."""
    rule = {"apiGroups": ["admc.dev"], "apiVersions": ["*"], "operations": ["*"], "resources": ["injections"]}
    hook = {
        "name": "injections.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [rule],
    }
    metadata = {"name": WEBHOOK}
    kind, version = "ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": [hook]}


def test_a_webhook_that_does_not_answer_for_a_namespace_holds_back_what_needs_that_alone(two: Installation) -> None:
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{WEBHOOK}"
    with two.server():
        two.program(AT_EGRESS)
        two.said("Programmed", "Programmed")
        two.until(lambda: "required" in rows(two)["cart"])
        two.api.apply(path, webhook(two.namespace))
        try:
            two.service("cart", 8081, selector={"app": "cart", "tier": "x"})
            said = two.said("Programmed", "InjectionNotWritten")
            assert f"ADM956: the `Injection` object of namespace `{two.namespace}` cannot be written" in said
            assert "failed calling webhook" in said
            two.program(AT_INGRESS)
            two.until(lambda: captured_in_two(two) == NEEDS[AT_INGRESS])
            assert rows(two)["cart"]["selector"] == {"app": "cart"}
        finally:
            two.api.request("DELETE", path)
        two.until(lambda: rows(two)["cart"]["selector"] == {"app": "cart", "tier": "x"})


def test_the_definition_of_another_release(new_cluster_api: Callable[..., ApiServer], tmp_path: Path) -> None:
    api = new_cluster_api()
    for made in definitions():
        text = json.dumps(made)
        earlier = re.sub(r'"service": \{"type": "string".*?\}, ', "", text)
        assert made["metadata"]["name"].startswith("injections.") == (earlier != text)
        api.apply(path_of(made), json.loads(earlier))
    shop = installation(api, tmp_path, defined=False)
    for name, port in (("web", 8080), ("cart", 8081), ("basket", 8081)):
        shop.service(name, port)
    with shop.server():
        shop.program(PROGRAM.replace("SIDE", "ingress"))
        shop.said("Programmed", "Programmed")
        shop.until(lambda: "required" in rows(shop)["cart"])
        shop.program(PROGRAM.replace("SIDE", "ingress"), services={"cart": "basket"})
        said = shop.said("Programmed", "InjectionNotWritten")
        assert f"the `Injection` object of namespace `{shop.namespace}` cannot be written" in said
        assert "the definition of `Injection` is that of another release, and `deploy/install.yaml` has this" in said
        install(api)
        shop.said("Programmed", "Programmed")
        assert rows(shop)["cart"]["service"] == "basket"


ODD = [
    {"a b": "x"},
    {"UPPER.example/a": "x"},
    {"a_b.example/c": "x"},
    {"a..b/c": "x"},
    {"-a/c": "x"},
    {"é": "x"},
    {"a/b/c": "x"},
    {"/a": "x"},
    {"a/": "x"},
    {"a=b": "x"},
    {"a\n": "x"},
    {"k" * 64: "x"},
    {"_a": "x"},
    {"a": "x\n"},
    {"a": "é"},
    {"a": "v" * 64},
    {"a": "-x"},
    {"a": "x,y"},
    {"a": ""},
    {"A.b_c-d": "A.b_c-d"},
    {f"{'d' * 253}/{'K' * 63}": "V" * 63},
    {f"{'d' * 254}/k": "x"},
    {"0": "0"},
]


def test_labels_that_a_service_can_have_can_stand_in_an_object(shop: Installation) -> None:
    taken = 0
    for selector in ODD:
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd"}}
        body["spec"] = {"selector": selector, "ports": [{"port": 80}]}
        try:
            shop.api.request("POST", f"/api/v1/namespaces/{shop.namespace}/services?dryRun=All", body)
        except ApiError as error:
            if error.status != 422:
                raise
            continue
        taken += 1
        spec = injection_spec("shop", shop.reach, {"odd": ServiceInjection(selector, waits=True)})
        assert read_spec(to_json(spec)) == spec
        metadata = {"name": shop.name, "namespace": shop.namespace}
        body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": metadata, "spec": to_json(spec)}
        path = f"/apis/admc.dev/v1alpha1/namespaces/{shop.namespace}/injections?dryRun=All"
        shop.api.request("POST", path, body)
    assert 0 < taken < len(ODD)


# ---- what the bound leaves ----

MANY = 640
"""Services of one namespace, whose selectors at the bound have more than 1 MB together."""
SENDERS = [f"sender-{number:03}" for number in range(MANY)]
TOGETHER = f"""\
app shop
service {", ".join(SENDERS)} {{ http 8080  namespace NAMESPACE }}
service cart {{ http 8081  namespace NAMESPACE }}
service front {{ http 8080  namespace NAMESPACE-two }}
service back  {{ http 8081  namespace NAMESPACE-two }}
call {", ".join(SENDERS)} -> cart
call front -> back
policy p = set_request_header(name: "x-tier", value: "gold") on * -> cart
pin p at CART
policy q = set_request_header(name: "x-tier", value: "gold") on front -> back
pin q at BACK
"""


def at_the_bound(name: str) -> dict[str, str]:
    """The first label stands in the index, too."""
    own = {f"{'d' * 253}/{'k' * 63}": name}
    left = MAX_CHARACTERS - sum(map(len, (*own, *own.values())))
    for index in range(MAX_LABELS - 1):
        own[f"{index:02}".ljust(left // (MAX_LABELS - 1) - 1, "k")] = "v"
    return own


def program(cart: str, back: str) -> str:
    return TOGETHER.replace("CART", cart).replace("BACK", back)


def test_of_selectors_that_are_too_large_together_only_their_namespace_waits(two: Installation) -> None:
    for name in SENDERS:
        two.service(name, 8080, clusterIP="None")
    with two.server():
        two.program(program("egress", "egress"))
        two.said("Programmed", "Programmed")
        for name in SENDERS:
            two.service(name, 8080, clusterIP="None", selector=at_the_bound(name))
        said = two.said("Programmed", "InjectionTooLarge")
        assert f"ADM955: the `Injection` `{two.name}` of namespace `{two.namespace}` would be too large" in said
        before = rows(two)
        assert before.keys() == {"cart", *SENDERS}, "nothing is cut"
        # A plan that needs nothing new in this namespace.
        two.program(program("egress", "ingress"))
        two.until(lambda: captured_in_two(two) == NEEDS[AT_INGRESS])
        two.said("Programmed", "InjectionTooLarge")
        plan = two.plan()
        # A plan that needs an ADM at `cart`.
        two.program(program("ingress", "ingress"))
        assert "ADM955" in two.said("Accepted", "InjectionTooLarge")
        assert two.plan() == plan
        assert rows(two) == before
        for name in SENDERS:
            two.service(name, 8080, clusterIP="None")
        two.said("Programmed", "Programmed")
        assert "captures" in rows(two)["cart"]
