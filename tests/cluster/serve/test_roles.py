"""The roles of the chart have what `admc serve --cluster` needs, and nothing else; a page has the purpose of each.

The API server's own log of requests says which rights the server used, and whether one was refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from admc.kubernetes.cluster.injections.objects import PATH
from tests.cluster.api_server import ApiError
from tests.cluster.node.cluster import path_of
from tests.cluster.serve.installation import Installation, installation
from tests.deploy.chart import NAME, ROOT, installed
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

SYSTEM = "admc-system"
USER = f"system:serviceaccount:{SYSTEM}:{NAME}"
PROGRAM = """\
app shop
service web  { http 8080  namespace NAMESPACE }
service cart { http 8081  namespace NAMESPACE }
call web -> cart { rate 10/s }
policy readers = allow(callers: [web]) on * -> cart
pin readers at SIDE
"""


class Right(NamedTuple):
    group: str
    resource: str
    verb: str
    namespace: str
    """Empty: in all of them, or without one."""


def roles() -> list[dict[str, Any]]:
    """Those that are bound to the account of the server: all bindings of the chart are for it."""
    bound = {(each["roleRef"]["kind"], each["roleRef"]["name"]) for each in installed() if "roleRef" in each}
    return [each for each in installed() if (each["kind"], each["metadata"]["name"]) in bound]


def granted(documents: list[dict[str, Any]]) -> Iterator[Right]:
    for role in documents:
        for rule in role.get("rules") or ():
            for verb in rule["verbs"]:
                for url in rule.get("nonResourceURLs") or ():
                    yield Right("", url, verb, "")
                for resource in rule.get("resources") or ():
                    yield Right(rule["apiGroups"][0], resource, verb, role["metadata"].get("namespace", ""))


def used(event: dict[str, Any]) -> Iterator[Right]:
    """The rights that a request needs. An apply that makes an object needs two."""
    about = event.get("objectRef")
    if about is None:
        yield Right("", event["requestURI"], event["verb"], "")
        return
    resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
    makes = event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == 201
    for verb in (event["verb"], *(["create"] if makes else [])):
        yield Right(about.get("apiGroup", ""), resource, verb, about.get("namespace", ""))


def covers(right: Right, wanted: Right) -> bool:
    return right[:3] == wanted[:3] and right.namespace in ("", wanted.namespace)


def account(api: ApiServer, folder: Path) -> Path:
    """A kubeconfig with a token of the account."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{NAME}/token"
    token = api.request("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    content = json.loads(api.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": token}
    found = folder / "account.kubeconfig"
    found.write_text(json.dumps(content))
    return found


def apply_program(shop: Installation, spec: dict[str, Any]) -> None:
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "metadata": {"name": shop.name}}
    shop.api.apply(f"/apis/admc.dev/v1alpha1/programs/{shop.name}", {**body, "spec": {"controller": shop.name, **spec}})


def is_closed(shop: Installation) -> bool:
    return is_there(shop, f"/apis/networking.k8s.io/v1/namespaces/{shop.namespace}/networkpolicies/admc-close-cart")


def is_there(shop: Installation, path: str) -> bool:
    try:
        shop.api.request("GET", path)
    except ApiError:
        return False
    return True


def plan_parts(shop: Installation) -> list[Any]:
    """The index, a part of the plan, and one of its facts."""
    found = shop.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps?labelSelector=admc.dev/plan")
    items: list[Any] = found["items"]
    return items


def test_the_roles_are_what_the_server_uses(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_IP", "10.77.0.9")  # a machine without a route has none that an EndpointSlice may have
    policy, log = tmp_path / "audit.yaml", tmp_path / "audit.log"
    rules = [{"level": "Metadata", "users": [USER]}, {"level": "None"}]
    document = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
    policy.write_text(json.dumps(document))
    api = new_cluster_api([f"--audit-policy-file={policy}", f"--audit-log-path={log}"])
    for each in installed():
        api.apply(path_of(each), each)
    shop = installation(api, tmp_path)
    shop.service("web", 8080)
    shop.service("cart", 8081)
    text = PROGRAM.replace("NAMESPACE", shop.namespace)

    def programmed() -> bool:
        generation = api.request("GET", f"/apis/admc.dev/v1alpha1/programs/{shop.name}")["metadata"]["generation"]
        return shop.status().get("observedGeneration") == generation and shop.condition("Programmed")[0] == "True"

    with shop.server("--namespace", SYSTEM, "--kubeconfig", str(account(api, tmp_path)), own_authority=True):
        apply_program(shop, {"files": {"policies.adm": text.replace("SIDE", "egress")}})
        shop.until(programmed)
        assert is_closed(shop)
        content = text.replace("SIDE", "ingress")
        path = f"/api/v1/namespaces/{SYSTEM}/configmaps/shop"
        metadata = {"name": "shop", "namespace": SYSTEM}
        api.apply(
            path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"policies.adm": content}}
        )
        digest = hashlib.sha256(content.encode()).hexdigest()
        apply_program(shop, {"configMaps": [{"name": "shop", "sha256": digest}]})
        shop.until(programmed)
        shop.until(lambda: not is_closed(shop))
        shop.until(lambda: len(plan_parts(shop)) == 3)  # those of the first plan are removed
        injection = PATH.format(shop.namespace, shop.name)
        shop.until(lambda: is_there(shop, injection))
        apply_program(shop, {"files": {"policies.adm": text[: text.index("policy")]}})
        shop.until(lambda: not is_there(shop, injection))
    # The right to the configuration of the webhook is one to the object of this name.
    main, at = replace(shop, name="main"), ("--webhook", f"127.0.0.1:{free_port()}")
    with main.server("--namespace", SYSTEM, "--kubeconfig", str(account(api, tmp_path)), *at, own_authority=True) as it:
        it.until_event("webhook_authority_written")

    events = [json.loads(line) for line in log.read_text().splitlines()]
    refused = {each["requestURI"] for each in events if each.get("responseStatus", {}).get("code") == 403}
    assert not refused
    needed = {right for each in events for right in used(each)}
    idle = [right for right in granted(roles()) if not any(covers(right, each) for each in needed)]
    assert not idle


PLACES = {"everywhere": "", "namespaces that take part": "", "the server's namespace": SYSTEM, "`default`": "default"}


def listed() -> Iterator[Right]:
    """The rights in the table of the page."""
    page = (ROOT / "docs" / "cluster" / "install.md").read_text(encoding="utf-8")
    for row in re.findall(r"^\|(.*)\|$", page.partition("## Rights of the server")[2], re.MULTILINE):
        group, resources, verbs, where, purpose = (cell.strip() for cell in row.split("|"))
        if group == "group" or set(group) == {"-"}:
            continue
        assert purpose, row
        for resource in re.findall(r"`([^`]+)`", resources):
            for verb in verbs.split(", "):
                yield Right(group.strip("`"), resource, verb, PLACES[where])


def test_the_page_has_each_right_of_the_roles_with_its_purpose() -> None:
    assert set(listed()) == set(granted(roles()))
