"""`Injection` objects at a real API server: what the server writes, who else may, and `admc inject NAME`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.kubernetes.cluster.api.connection import connect
from admc.kubernetes.cluster.api.errors import ApiError as Refused
from admc.kubernetes.cluster.injections.objects import PATH
from admc.kubernetes.inject.spec import FORMAT, read_spec
from tests.cli.command import Admc, Run
from tests.cluster.api_server import ApiError
from tests.cluster.node.cluster import path_of
from tests.cluster.serve.installation import PROGRAM, Installation, installation
from tests.deploy.chart import NAME, NAMESPACE, installed
from tests.testbed.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.api_server import ApiServer

ACCOUNTS = "system:serviceaccount:"
SERVER = f"{ACCOUNTS}{NAMESPACE}:{NAME}"
COLLECTOR = f"{ACCOUNTS}kube-system:generic-garbage-collector"
AT_EGRESS, AT_INGRESS = (PROGRAM.replace("SIDE", side) for side in ("egress", "ingress"))
CALM = AT_EGRESS[: AT_EGRESS.index("policy")]
MANIFEST = """\
apiVersion: v1
kind: Pod
metadata: {name: SERVICE, labels: {app: SERVICE}}
spec: {containers: [{name: main, image: m}]}
"""


def spec(shop: Installation) -> dict[str, Any]:
    """Empty without an object."""
    try:
        found: dict[str, Any] = shop.api.request("GET", PATH.format(shop.namespace, shop.name))["spec"]
    except ApiError as error:
        if error.status != 404:
            raise
        return {}
    return found


def captured(shop: Installation) -> dict[str, Any]:
    return {name: row.get("captures") for name, row in spec(shop).get("services", {}).items()}


EGRESS = {"web": {"ingress": [], "egress": [8081]}, "cart": None}
BOTH = {"web": {"ingress": [], "egress": [8081]}, "cart": {"ingress": [8081], "egress": []}}


def test_the_object_follows_plans_and_services(shop: Installation) -> None:
    with shop.server("--adm-limits", "memory=256Mi") as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: captured(shop) == EGRESS)
        written = shop.api.request("GET", PATH.format(shop.namespace, shop.name))
        program = shop.api.request("GET", f"/apis/admc.dev/v1alpha1/programs/{shop.name}")
        assert [owner["uid"] for owner in written["metadata"]["ownerReferences"]] == [program["metadata"]["uid"]]
        assert read_spec(written["spec"]).server == shop.reach
        assert written["spec"]["index"] == {"app=cart": ["cart"], "app=web": ["web"]}
        assert written["spec"]["services"]["web"]["resources"] == {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        }
        shop.said("Programmed", "NotInSync")
        shop.program(AT_INGRESS)  # no proxy is connected, so the move waits in its first step
        shop.until(lambda: captured(shop) == BOTH)
        server.until_event("rollout_waits")

        shop.service("web", 8080, selector={"app": "web", "tier": "front"})
        shop.until(lambda: spec(shop)["services"]["web"]["selector"] == {"app": "web", "tier": "front"})
        wrong = {**written, "spec": {**written["spec"], "services": {}, "index": {}}}
        for meta in ("resourceVersion", "managedFields", "uid", "creationTimestamp", "generation"):
            wrong["metadata"].pop(meta)
        shop.api.apply(PATH.format(shop.namespace, shop.name), wrong)
        shop.until(lambda: captured(shop) == BOTH)
        shop.api.request("DELETE", PATH.format(shop.namespace, shop.name))
        shop.until(lambda: captured(shop) == BOTH)


def test_an_object_that_nothing_needs_any_more_is_removed(shop: Installation) -> None:
    shop.remove_pod("web-1")  # else its proxy, which is not connected, may have the first plan
    with shop.server() as server:
        shop.program(AT_EGRESS)
        shop.until(lambda: captured(shop) == EGRESS)
        shop.program(AT_EGRESS, mode="Audit")
        shop.said("Programmed", "Audit")
        time.sleep(2.0)
        assert captured(shop) == EGRESS, "the plan in force stays"
        shop.program(CALM)
        shop.until(lambda: not spec(shop))
        assert not server.events("injection_not_written")


@pytest.fixture
def refusing(shop: Installation) -> Iterator[None]:
    """The API server takes no `Injection` of the installation."""
    found = policy(shop.name, "object.metadata.namespace != " + repr(shop.namespace))
    for each in found:
        shop.api.apply(path_of(each), each)
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": {"name": "tried"}}
    tried = {**body, "spec": {"formatVersion": 1, "app": "a", "server": "a:1", "services": {}, "index": {}}}
    shop.until(lambda: _is_refused(shop.api, PATH.format(shop.namespace, "tried"), tried))
    yield
    remove(shop.api, found)


def policy(name: str, expression: str) -> list[dict[str, Any]]:
    rule = {"apiGroups": ["admc.dev"], "apiVersions": ["*"], "resources": ["injections"], "operations": ["CREATE"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": expression}]}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    return [
        {**kind, "kind": "ValidatingAdmissionPolicy", "spec": spec},
        {**kind, "kind": "ValidatingAdmissionPolicyBinding", "spec": binding},
    ]


def remove(api: ApiServer, objects: list[dict[str, Any]]) -> None:
    for each in reversed(objects):
        api.request("DELETE", path_of(each))


def test_a_plan_is_not_begun_before_its_object_is_written(shop: Installation, refusing: None) -> None:
    with shop.server() as server:
        shop.program(AT_EGRESS)
        said = shop.said("Accepted", "InjectionNotWritten")
        assert f"ADM956: the `Injection` object of namespace `{shop.namespace}` cannot be written" in said
        assert shop.condition("Programmed")[0] == "False"
        assert server.status()["server"]["state"] in (None, "")
        remove(shop.api, policy(shop.name, "true"))
        shop.said("Programmed", "NotInSync")
        assert captured(shop) == EGRESS
        for each in policy(shop.name, "true"):  # for the fixture to remove
            shop.api.apply(path_of(each), each)


async def test_only_the_account_of_the_server_writes(cluster_api: ApiServer, tmp_path: Path) -> None:
    """All accounts here are of the group that may do everything."""
    shop = installation(cluster_api, tmp_path)
    found = [each for each in installed() if each["metadata"]["name"] == f"{NAME}-injections"]
    assert len(found) == 2
    for each in found:
        cluster_api.apply(path_of(each), each)
    path = PATH.format(shop.namespace, "main")
    made = {"formatVersion": 1, "app": "shop", "server": "admc:18000", "services": {}, "index": {}}
    body = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": {"name": "main"}, "spec": made}
    other = {**body, "spec": {**made, "server": "elsewhere:18000"}}
    try:
        shop.until(lambda: _is_refused(cluster_api, path, body))
        async with (
            await connect(_account(cluster_api, SERVER)) as server,
            await connect(_account(cluster_api, COLLECTOR)) as collector,
            await connect(_account(cluster_api, "operator")) as operator,
        ):
            with pytest.raises(Refused, match="`operator` may not write this `Injection`"):
                await operator.apply(path, body)
            with pytest.raises(Refused, match="may not write"):
                await collector.apply(path, body)
            await server.apply(path, body)
            for who in (operator, collector):
                with pytest.raises(Refused, match="may not write"):
                    await who.apply(path, other)
            with pytest.raises(Refused, match="may not write"):
                await operator.delete(path)
            with pytest.raises(Refused, match="may not write"):
                await operator.apply(path, {**body, "metadata": {"name": "main", "labels": {"a": "b"}}})
            await collector.apply(path, {**body, "metadata": {"name": "main", "labels": {"a": "b"}}})
            await server.apply(path, other)
            await collector.delete(path)
            await server.apply(path, body)
            await server.delete(path)
    finally:
        remove(cluster_api, found)
        shop.until(lambda: not _is_refused(cluster_api, path, body))


def _account(api: ApiServer, name: str) -> Path:
    user = api.credentials.client(name, "system:masters")
    return api.credentials.kubeconfig(name.rpartition(":")[2], api.url, user)


def _is_refused(api: ApiServer, path: str, body: dict[str, Any]) -> bool:
    try:
        api.request("PATCH", f"{path}?fieldManager=x&force=true&dryRun=All", body, "application/apply-patch+yaml")
    except ApiError:
        return True
    return False


# ---- admc inject NAME ----


class Injecting:
    def __init__(self, shop: Installation, admc: Admc, folder: Path) -> None:
        self.shop, self._admc, self._file = shop, admc, folder / "app.yaml"

    def __call__(self, text: str, *, name: str = "", kubeconfig: Path | None = None, namespace: str = "") -> Run:
        self._file.write_text(text)
        return self._admc(
            "inject", name or self.shop.name, "-f", self._file, "-n", namespace or self.shop.namespace,
            "--kubeconfig", kubeconfig or self.shop.api.kubeconfig,
        )  # fmt: skip


@pytest.fixture
def inject(shop: Installation, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Injecting:
    return Injecting(shop, Admc(capfd), tmp_path)


def pod(service: str) -> str:
    return MANIFEST.replace("SERVICE", service)


def test_inject_by_name(shop: Installation, inject: Injecting) -> None:
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: captured(shop) == EGRESS)
    made = inject(pod("web") + "---\n" + pod("cart") + "---\n" + pod("other"))
    assert made.code == 0, made.err
    web, cart, other = yaml.safe_load_all(made.out)
    init = {each["name"]: each for each in web["spec"]["initContainers"]}
    assert list(init) == ["admc-rules", "admc-proxy"]
    assert init["admc-rules"]["args"] == ["--service", "shop/web", "--egress", "8081"]
    (wait,) = cart["spec"]["initContainers"]
    assert wait["args"][:2] == ["--server", shop.reach]
    assert "initContainers" not in other["spec"]
    assert made.err.splitlines() == [
        f"Pod {shop.namespace}/web: service `web`: redirection, an ADM",
        f"Pod {shop.namespace}/cart: service `cart`: a wait",
        f"Pod {shop.namespace}/other: left alone: its pods are of no service that needs something",
    ]
    assert inject(made.out).out == made.out
    both = inject(pod("web").replace("labels: {app: web}", "labels: {app: web, tier: x}"))
    assert both.code == 0
    assert inject("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", name="nowhere").code == 0, "no pod in it"


def test_a_template_of_two_services_is_refused_by_their_selectors(shop: Installation, inject: Injecting) -> None:
    shop.service("cart", 8081, selector={"tier": "x"})
    with shop.server():
        shop.program(AT_EGRESS)
        shop.until(lambda: captured(shop) == EGRESS)
    run = inject(pod("web").replace("labels: {app: web}", "labels: {app: web, tier: x}"))
    assert (run.code, run.out) == (1, "")
    assert "ADM926" in run.err


def test_what_inject_says_if_there_is_nothing_to_go_by(shop: Installation, inject: Injecting) -> None:
    api = shop.api
    stranger = api.credentials.kubeconfig("stranger", api.url, api.credentials.client("stranger", "none"))
    closed = api.credentials.kubeconfig("closed", f"https://127.0.0.1:{free_port()}")
    newer = {"apiVersion": "admc.dev/v1alpha1", "kind": "Injection", "metadata": {"name": "newer"}}
    made = {"formatVersion": FORMAT + 1, "app": "a", "server": "a:1", "services": {}, "index": {}}
    api.apply(PATH.format(shop.namespace, "newer"), {**newer, "spec": made})
    api.apply(
        PATH.format(shop.namespace, "odd"),
        {**newer, "metadata": {"name": "odd"}, "spec": {**made, "formatVersion": 1, "app": "$(X)"}},
    )
    for run, said in (
        (inject(pod("web")), f"there is no `Injection` `{shop.name}` in namespace `{shop.namespace}`"),
        (inject(pod("web")), f"`admc.dev/controller={shop.name}`"),
        (inject(pod("web"), namespace="kube-system"), "so it takes part in no installation"),
        (inject(pod("web"), namespace="kube-system"), "give the pods another namespace"),
        (inject(pod("web"), kubeconfig=stranger), "the API server does not permit to read the `Injection`"),
        (inject(pod("web"), kubeconfig=stranger), "has the verb `get` on `injections.admc.dev`"),
        (inject(pod("web"), kubeconfig=closed), "the API server does not answer"),
        (inject(pod("web"), name="newer"), f"format version {FORMAT + 1}, and this admc reads {FORMAT}"),
        (inject(pod("web"), name="newer"), "use the release of admc that the server has"),
        (inject(pod("web"), name="odd"), "must be the name of an app or a service"),
    ):
        assert (run.code, run.out) == (1, "")
        assert said in run.err
