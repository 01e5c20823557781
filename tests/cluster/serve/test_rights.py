"""A cluster that does not give the server what it needs: without the kind `Program`, without a right, with objects of
another definition. The server says what it is, and goes on once it is granted."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any

from admc.kubernetes.cluster.names import PROGRAMS
from emitters.interception.pod import PodCaptures
from tests.cli.command import Admc
from tests.cluster.program.conftest import DEFINITIONS
from tests.cluster.serve.installation import PROGRAM, Installation, installation
from tests.deploy.chart import definition, definitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from tests.cluster.api_server import ApiServer

GOOD = PROGRAM.replace("SIDE", "egress")
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CORE = ("pods", "services", "namespaces", "configmaps", "secrets")
VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


def grant(api: ApiServer, *core: str) -> None:
    """All that the server needs; of the core group these resources only."""
    others = ["admc.dev", "networking.k8s.io", "discovery.k8s.io", "coordination.k8s.io", "events.k8s.io"]
    rules = [
        {"apiGroups": others, "resources": ["*"], "verbs": VERBS},
        {"apiGroups": [""], "resources": list(core), "verbs": VERBS},
        {"nonResourceURLs": ["/openid/v1/jwks"], "verbs": ["get"]},
    ]
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "admc"}}
    api.apply(f"{RBAC}/clusterroles/admc", {**kind, "kind": "ClusterRole", "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admc"}
    user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "admc"}
    binding = {**kind, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [user]}
    api.apply(f"{RBAC}/clusterrolebindings/admc", binding)


def lax() -> dict[str, Any]:
    """A definition that admits everything."""
    found = copy.deepcopy(definition())
    free = {"x-kubernetes-preserve-unknown-fields": True}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {"spec": free, "status": free},
    }
    return found


def define(shop: Installation, document: dict[str, Any]) -> None:
    path = f"{DEFINITIONS}/{document['metadata']['name']}"
    shop.api.apply(path, document)

    def is_served() -> bool:
        found = shop.api.request("GET", path).get("status", {}).get("conditions") or ()
        return any(each["type"] == "Established" and each["status"] == "True" for each in found)

    shop.until(is_served)


def test_what_is_missing_is_said_and_the_server_goes_on_once_it_is_there(
    new_cluster_api: Callable[..., ApiServer], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    api = new_cluster_api()
    manifest = tmp_path / "pod.yaml"
    manifest.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a}]}\n")
    shop = installation(api, tmp_path, defined=False)
    shop.service("web", 8080)
    shop.service("cart", 8081)
    shop.pod("web-1", "web", "10.82.0.1", PodCaptures(frozenset(), frozenset({8081})))
    shop.pod("cart-1", "cart", "10.82.0.2")
    shop.kubeconfig = api.credentials.kubeconfig("limited", api.url, api.credentials.client("admc", "limited"))
    grant(api, *(each for each in CORE if each not in ("pods", "configmaps")))
    with shop.server() as server:
        server.until(lambda: "deploy/install.yaml defines them" in server.status()["server"]["source"])
        define(shop, lax())
        shop.program(GOOD)
        said = shop.said("Accepted", "NotFollowed")
        assert said.startswith("the cluster cannot be followed at present: pods cannot be read: 403 Forbidden: ")
        assert 'User "admc" cannot list resource "pods" in API group "" at the cluster scope' in said
        assert shop.condition("Programmed")[:2] == ("Unknown", "NotFollowed")
        grant(api, *CORE)
        said = shop.said("Accepted", "InjectionNotWritten")
        assert "`deploy/install.yaml` defines the kind `Injection`" in said
        run = Admc(capfd)("inject", shop.name, "-f", manifest, "-n", shop.namespace, "--kubeconfig", api.kubeconfig)
        assert (run.code, run.out) == (1, "")
        assert "the cluster does not have the kind `Injection`" in run.err
        define(shop, next(each for each in definitions() if each["spec"]["names"]["kind"] == "Injection"))
        shop.said("Programmed", "NotInSync")
        state = server.status()["server"]["state"]

        for spec, message in (
            ({"controller": shop.name, "replicas": 3}, "`spec.replicas` is no field of it"),
            ({"controller": shop.name, "files": ["policies.adm"]}, "`spec.files` must be an object"),
            (
                {"controller": shop.name, "mode": {"DryRun": True}, "files": {"policies.adm": "x"}},
                "`spec.mode` must be",
            ),
            ({"controller": shop.name, "configMaps": [{}] * 101}, "`spec.configMaps` must be a list of at most 100"),
            (
                {"controller": shop.name, "files": {f"{number}.adm": "" for number in range(1001)}},
                "`spec.files` must be an object of at most 1,000 fields",
            ),
        ):
            replace(shop, shop.name, spec)
            assert f"ADM930: {message}" in shop.said("Accepted", "Malformed", message)
            assert server.status()["server"]["state"] == state
        version = shop.api.request("GET", f"{PROGRAMS}/{shop.name}")["metadata"]["resourceVersion"]
        time.sleep(3)
        assert shop.api.request("GET", f"{PROGRAMS}/{shop.name}")["metadata"]["resourceVersion"] == version
        for name, spec in (("text", "controller"), ("list", [1]), ("none", None), ("odd", {"controller": [shop.name]})):
            replace(shop, name, spec)
            replace(shop, name, spec, status={"conditions": "none", "namespaces": {"a": 1}})
        replace(shop, shop.name, {"controller": shop.name, "files": {"policies.adm": text(shop)}}, status=[1])
        shop.said("Programmed", "NotInSync")
        assert server.status()["server"]["state"] == state
        shop.remove_program()
        replace(shop, "a.b", {"controller": shop.name, "files": {"policies.adm": text(shop)}})
        assert "ADM930: the name of the Program, `a.b`, must be a DNS label" in shop.said(
            "Accepted", "Malformed", name="a.b"
        )

        shop.remove_program("a.b")
        shop.program_of({"configMaps": [{"name": "files", "sha256": "0" * 64}]})
        grant(api, *(each for each in CORE if each != "configmaps"))
        said = shop.said("Accepted", "Forbidden")
        assert f"the ConfigMap `files` in the namespace `{shop.system}` cannot be read (403 Forbidden: " in said
        assert 'cannot get resource "configmaps"' in said
        assert server.status()["server"]["state"] == state
        grant(api, *CORE)
        shop.said("Accepted", "ConfigMapMissing")


def text(shop: Installation) -> str:
    return GOOD.replace("NAMESPACE", shop.namespace)


def replace(shop: Installation, name: str, spec: Any, **more: Any) -> None:
    """As it is, whatever was there."""
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Program", "metadata": {"name": name}, "spec": spec, **more}
    shop.api.apply(f"{PROGRAMS}/{name}", body)
    if more:
        shop.api.apply(f"{PROGRAMS}/{name}/status", {each: body[each] for each in body if each != "spec"})
