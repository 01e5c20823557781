"""The chart: what Helm makes of it, and what an API server says of that."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from admc.kubernetes.cluster.names import SYSTEM_NAMESPACES, reserved
from admc.kubernetes.cluster.webhook.configuration import WEBHOOK
from admc.kubernetes.cluster.webhook.listener import PATH
from tests.cluster.api_server import ApiError
from tests.cluster.node.cluster import path_of
from tests.cluster.tools import MissingError
from tests.deploy.chart import CHART, INSTALL, NAME, NAMESPACE, head, helm, install_text, installed, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.cluster.api_server import ApiServer

EVERYTHING: dict[str, Any] = {
    "installation": "production",
    "image": "registry.example.com:5000/mesh/admc@sha256:" + "0" * 64,
    "envoyImage": "registry.example.com:5000/mesh/envoy:v1.40.1",
    "alsoImages": ["registry.example.com:5000/old/admc"],
    "alsoEnvoyImages": ["docker.io/envoyproxy/envoy"],
    "admLimits": "cpu=500m,memory=256Mi",
    "imagePullPolicy": "Always",
    "imagePullSecrets": ["registry"],
    "replicas": 3,
    "tls": {"existingSecret": "admc-tls"},
    "namespaces": ["shop", "123"],
    "webhook": False,
    "guard": "Warn",
    "definitions": False,
    "createNamespace": False,
    "listenAddress": "[::]",
    "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
    "podAnnotations": {"prometheus.io/scrape": "true"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "control-plane", "operator": "Exists", "effect": "NoSchedule"}],
    "priorityClassName": "system-cluster-critical",
}
"""Each value other than its default."""


@pytest.fixture
def everything(tmp_path: Path) -> list[dict[str, Any]]:
    path = tmp_path / "values.json"
    path.write_text(json.dumps(EVERYTHING), encoding="utf-8")
    try:
        text = rendered("--values", str(path), namespace="mesh")
    except MissingError as error:
        pytest.skip(str(error))
    return [each for each in yaml.safe_load_all(text) if each]


def kinds(objects: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return sorted((each["kind"], each["metadata"]["name"]) for each in objects)


def only(objects: Iterable[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def test_the_manifests_are_made_from_the_chart_as_it_is() -> None:
    text = INSTALL.read_text(encoding="utf-8")
    assert text.startswith(head()), "write it anew with `python -m tests.deploy.chart` (Helm)"


@pytest.mark.cluster
def test_the_manifests_are_the_output_of_the_chart() -> None:
    try:
        expected = install_text()
    except MissingError as error:
        pytest.skip(str(error))
    assert INSTALL.read_text(encoding="utf-8") == expected, "write it anew with `python -m tests.deploy.chart`"


@pytest.mark.cluster
def test_the_linter_of_helm_has_nothing_to_say() -> None:
    try:
        done = helm("lint", "--strict", str(CHART))
    except MissingError as error:
        pytest.skip(str(error))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout + done.stderr


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (["--kube-version", "1.29.9"], "which is incompatible with Kubernetes v1.29.9"),
        (["--set", "replica=1"], "replica"),
        (["--set", "installation=Main"], "installation"),
    ],
)
def test_helm_refuses_an_older_cluster_and_unknown_values(given: list[str], answer: str) -> None:
    try:
        done = helm("template", "admc", str(CHART), *given)
    except MissingError as error:
        pytest.skip(str(error))
    assert done.returncode != 0
    assert answer in done.stderr


@pytest.mark.cluster
def test_every_value_has_its_effect(everything: list[dict[str, Any]]) -> None:
    assert kinds(everything) == [
        ("ClusterRole", "admc-production"),
        ("ClusterRole", "admc-production-namespace"),
        ("ClusterRoleBinding", "admc-production"),
        ("Deployment", "admc-production"),
        ("PodDisruptionBudget", "admc-production"),
        ("Role", "admc-production"),
        ("Role", "admc-production-events"),
        ("RoleBinding", "admc-production"),
        ("RoleBinding", "admc-production"),
        ("RoleBinding", "admc-production"),
        ("RoleBinding", "admc-production-events"),
        ("Service", "admc-production"),
        ("ServiceAccount", "admc-production"),
        ("ValidatingAdmissionPolicy", "admc-production-guard"),
        ("ValidatingAdmissionPolicy", "admc-production-guard-labels"),
        ("ValidatingAdmissionPolicy", "admc-production-guard-needs-definition-of-injections"),
        ("ValidatingAdmissionPolicy", "admc-production-guard-services"),
        ("ValidatingAdmissionPolicy", "admc-production-injections"),
        ("ValidatingAdmissionPolicyBinding", "admc-production-guard"),
        ("ValidatingAdmissionPolicyBinding", "admc-production-guard-labels"),
        ("ValidatingAdmissionPolicyBinding", "admc-production-guard-needs-definition-of-injections"),
        ("ValidatingAdmissionPolicyBinding", "admc-production-guard-services"),
        ("ValidatingAdmissionPolicyBinding", "admc-production-injections"),
    ]
    bound = [each["metadata"]["namespace"] for each in everything if each["kind"] == "RoleBinding"]
    assert sorted(bound) == ["123", "default", "mesh", "shop"]
    spec = only(everything, "Deployment")["spec"]
    assert spec["replicas"] == 3
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == EVERYTHING["image"]
    assert container["args"] == [
        "--cluster=production",
        "--xds=[::]:18000",
        "--ops=[::]:18001",
        f"--image={EVERYTHING['image']}",
        f"--envoy-image={EVERYTHING['envoyImage']}",
        "--also-image=registry.example.com:5000/old/admc",
        "--also-envoy-image=docker.io/envoyproxy/envoy",
        "--adm-limits=cpu=500m,memory=256Mi",
        "--tls-cert=/run/admc/tls/tls.crt",
        "--tls-key=/run/admc/tls/tls.key",
        "--tls-ca=/run/admc/tls/ca.crt",
    ]
    assert {"name": "tls", "secret": {"secretName": "admc-tls"}} in pod["volumes"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert (container["imagePullPolicy"], container["resources"]) == ("Always", EVERYTHING["resources"])
    assert spec["template"]["metadata"]["annotations"] == EVERYTHING["podAnnotations"]
    for name in ("nodeSelector", "tolerations", "priorityClassName"):
        assert pod[name] == EVERYTHING[name]


def selectors(value: Any) -> Iterator[Any]:
    """All selectors of namespaces in a document."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        if key == "namespaceSelector":
            yield inner
        else:
            yield from selectors(inner)


def test_webhook_and_guard_are_for_the_namespaces_that_take_part_by_the_server() -> None:
    """A pod of a namespace that the webhook leaves out could only be refused by the guard."""
    listed = list(selectors(installed()))
    assert len(listed) >= 4
    for selector in listed:
        assert selector["matchLabels"] == {"admc.dev/controller": "main"}
        (expression,) = selector["matchExpressions"]
        assert (expression["key"], expression["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
        assert all(reserved(name, NAMESPACE) for name in expression["values"])
        assert sorted(expression["values"]) == sorted([NAMESPACE, *SYSTEM_NAMESPACES])


def test_the_webhook_is_asked_about_new_pods_of_namespaces_that_take_part_and_never_about_its_own() -> None:
    (webhook,) = only(installed(), "MutatingWebhookConfiguration")["webhooks"]
    assert webhook["namespaceSelector"] == {
        "matchLabels": {"admc.dev/controller": "main"},
        "matchExpressions": [
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": [NAMESPACE, *SYSTEM_NAMESPACES],
            }
        ],
    }
    (rule,) = webhook["rules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE"], ["pods"])
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"], webhook["sideEffects"]) == ("Ignore", 2, "None")
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert "caBundle" not in webhook["clientConfig"], "the active replica writes it, and an update has to leave it"
    service = webhook["clientConfig"]["service"]
    assert service == {"name": f"{NAME}-webhook", "namespace": NAMESPACE, "path": PATH, "port": 443}
    assert webhook["name"] == WEBHOOK
    (container,) = only(installed(), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert "--webhook=0.0.0.0:18002" in container["args"]
    assert {"name": "webhook", "containerPort": 18002} in container["ports"]
    (leads,) = (
        each for each in installed() if each["kind"] == "Service" and each["metadata"]["name"] == service["name"]
    )
    assert leads["spec"]["ports"] == [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    labels = only(installed(), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert leads["spec"]["selector"].items() <= labels.items()


@pytest.mark.cluster
def test_the_guard_has_the_values_in_it(everything: list[dict[str, Any]]) -> None:
    named = {(each["kind"], each["metadata"]["name"]): each.get("spec") for each in everything}
    policy = named["ValidatingAdmissionPolicy", "admc-production-guard"]
    variables = {each["name"]: each["expression"] for each in policy["variables"]}
    image, old = EVERYTHING["image"], EVERYTHING["alsoImages"][0]
    assert variables["ownRepositories"].startswith(f'["{image}","{old}"] .map(')
    envoy, old = EVERYTHING["envoyImage"], EVERYTHING["alsoEnvoyImages"][0]
    assert variables["envoyRepositories"].startswith(f'["{envoy}","{old}"] .map(')
    assert "main" not in json.dumps([policy["matchConstraints"], policy["validations"]]).replace("remain", "")
    for part in ("", "-labels", "-needs-definition-of-injections", "-services"):
        name = f"admc-production-guard{part}"
        assert named["ValidatingAdmissionPolicyBinding", name]["validationActions"] == ["Warn", "Audit"]
    assert named["ValidatingAdmissionPolicyBinding", "admc-production-guard"]["paramRef"]["name"] == "production"


@pytest.mark.cluster
def test_the_guard_can_be_left_out() -> None:
    try:
        objects = [each for each in yaml.safe_load_all(rendered("--set", "guard=Off")) if each]
    except MissingError as error:
        pytest.skip(str(error))
    assert not [name for _, name in kinds(objects) if "guard" in name]


def test_no_role_that_others_take_in_writes_anything() -> None:
    """An editor of Programs decides over the whole mesh: nothing grants that by itself."""
    aggregated = [
        each for each in installed() if any("aggregate-to" in name for name in each["metadata"].get("labels", ()))
    ]
    assert {each["metadata"]["name"] for each in aggregated} == {"admc-injections-view", "admc-programs-view"}
    verbs = {verb for each in aggregated for rule in each["rules"] for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch"}


def test_a_slow_start_is_not_ended_by_the_liveness_probe() -> None:
    """On a node with ten times as much work as it has cores, Python took 73 s to its first answer."""
    (container,) = only(installed(), "Deployment")["spec"]["template"]["spec"]["containers"]
    startup, liveness = container["startupProbe"], container["livenessProbe"]
    assert startup["httpGet"] == liveness["httpGet"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300


def dry_run(api: ApiServer, each: dict[str, Any]) -> None:
    """`kubectl apply --dry-run=server --validate=strict`. Raises `ApiError`."""
    path = f"{path_of(each)}?dryRun=All&fieldValidation=Strict&fieldManager=tests"
    api.request("PATCH", path, each, "application/apply-patch+yaml")


def make_namespaces(api: ApiServer, *names: str) -> None:
    """A dry run does not make those in which the other objects are."""
    for name in names:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        api.apply(f"/api/v1/namespaces/{name}", body)


def test_the_api_server_takes_the_manifests(cluster_api: ApiServer) -> None:
    make_namespaces(cluster_api, NAMESPACE)
    for each in installed():
        dry_run(cluster_api, each)
    wrong = copy.deepcopy(only(installed(), "Deployment"))
    wrong["spec"]["template"]["spec"]["runAsNonRoot"] = True
    with pytest.raises(ApiError, match="runAsNonRoot"):
        dry_run(cluster_api, wrong)


def test_the_api_server_takes_every_value(cluster_api: ApiServer, everything: list[dict[str, Any]]) -> None:
    make_namespaces(cluster_api, "mesh", "shop", "123")
    for each in everything:
        dry_run(cluster_api, each)


def test_the_server_runs_where_pod_security_is_restricted(cluster_api: ApiServer) -> None:
    namespace = copy.deepcopy(only(installed(), "Namespace"))
    namespace["metadata"]["name"] = "admc-restricted"
    cluster_api.apply("/api/v1/namespaces/admc-restricted", namespace)
    template = copy.deepcopy(only(installed(), "Deployment")["spec"]["template"])
    path = "/api/v1/namespaces/admc-restricted/pods?dryRun=All"

    def create() -> None:
        metadata = {**template["metadata"], "name": NAME}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
        cluster_api.request("POST", path, body)

    create()
    del template["spec"]["containers"][0]["securityContext"]["capabilities"]
    with pytest.raises(ApiError, match=r"violates PodSecurity .*unrestricted capabilities"):
        create()
