"""Manifests that do not fit the program, or that admc does not know: a finding each, and an error where a policy would
be enforced on nothing without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Admc, Run

PROGRAM = """\
app shop
service web { http 80 -> 8080  namespace shop }
service api { http 80 -> 8081  http admin 90 -> 9090  namespace shop }
service worker { namespace shop }
service db { tcp 5432  namespace shop }
call web, worker -> api:80
call worker -> api:admin
call api -> db
policy again = retry(attempts: 3) on worker -> api:80
policy quota = rate_limit(requests: 100, per: 1s) on * -> api:80
policy readers = allow(callers: [api]) on * -> db
"""
CALM = {"runAsNonRoot": True, "runAsUser": 1000}
CONTAINER = {"name": "main", "image": "m:1"}


def deployment(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": labels or {"app": name}},
        "spec": {"securityContext": CALM, "containers": [CONTAINER], **spec},
    }
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": template}}


def service(name: str, selector: dict[str, str], *ports: dict[str, Any], **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": selector, "ports": list(ports), **spec},
    }


API_PORTS: tuple[dict[str, Any], ...] = (
    {"name": "a", "port": 80, "targetPort": 8081},
    {"name": "b", "port": 90, "targetPort": 9090},
)


@pytest.fixture
def plan(tmp_path: Path, admc: Admc) -> Path:
    (tmp_path / "policies.adm").write_text(PROGRAM)
    assert admc("compile", tmp_path / "policies.adm").code == 0
    return tmp_path / "policies.plan.json"


class Injected:
    def __init__(self, admc: Admc, plan: Path) -> None:
        self._admc, self._plan = admc, plan

    def __call__(self, *manifests: dict[str, Any], options: tuple[str, ...] = ()) -> Run:
        path = self._plan.with_name("app.yaml")
        path.write_text("---\n".join(f"{json.dumps(each)}\n" for each in manifests))
        return self._admc("inject", "--plan", self._plan, "--cluster", "one", "-f", path, *options)


@pytest.fixture
def injected(admc: Admc, plan: Path) -> Injected:
    return Injected(admc, plan)


def codes(run: Run) -> list[str]:
    """The findings, such as `error ADM943`."""
    return [
        line.partition("]")[0].replace("[", " ")
        for line in run.err.splitlines()
        if line.startswith(("error[", "warning["))
    ]


def test_manifests_that_fit_have_no_finding(injected: Injected) -> None:
    run = injected(
        service("api", {"app": "api"}, *API_PORTS),
        deployment("api"),
        service("db", {"app": "db"}, {"port": 5432}, clusterIP="None"),
        deployment("db"),
        deployment("worker"),
    )
    assert (run.code, codes(run)) == (0, []), run.err


# ---- kinds that admc does not know ----

TEMPLATE = deployment("api")["spec"]["template"]
UNKNOWN: dict[str, dict[str, Any]] = {
    "argoproj.io/v1alpha1 Rollout": {"spec": {"template": TEMPLATE}},
    "apps.kruise.io/v1alpha1 CloneSet": {"spec": {"template": TEMPLATE}},
    "serving.knative.dev/v1 Service": {"spec": {"template": {"spec": {"containers": [{"image": "m"}]}}}},
    "apps.openshift.io/v1 DeploymentConfig": {"spec": {"template": TEMPLATE}},
    "extensions/v1beta1 Deployment": {"spec": {"template": TEMPLATE}},
    "template.openshift.io/v1 Template": {"objects": [deployment("api")]},
    "operators.coreos.com/v1alpha1 ClusterServiceVersion": {
        "spec": {"install": {"spec": {"deployments": [{"name": "x", "spec": {"template": TEMPLATE}}]}}}
    },
    "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet": {"spec": {"leaderWorkerTemplate": {"workerTemplate": TEMPLATE}}},
    "argoproj.io/v1alpha1 Workflow": {"spec": {"templates": [{"name": "a", "container": {"image": "m"}}]}},
    "tekton.dev/v1 Task": {"spec": {"steps": [{"image": "m", "script": "true"}]}},
    "example.com/v1 OnlyInit": {"pod": {"initContainers": [{"name": "a", "image": "m"}]}},
    "example.com/v1 AtTheTop": {"containers": [{"name": "a", "image": "m"}]},
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_kind_with_containers_is_refused_unless_it_is_skipped(injected: Injected, kind: str) -> None:
    version, _, name = kind.partition(" ")
    found = {"apiVersion": version, "kind": name, "metadata": {"name": "x", "namespace": "shop"}, **UNKNOWN[kind]}
    for wrapped in (found, {"apiVersion": "v1", "kind": "List", "items": [found]}):
        run = injected(wrapped, deployment("worker"))
        assert (run.code, run.out, codes(run)) == (1, "", ["error ADM947"])
        assert f"{name} `shop/x`: admc does not know this kind ({version})" in run.err
        run = injected(wrapped, deployment("worker"), options=("--skip-unknown",))
        assert (run.code, codes(run)) == (0, [])
        assert f"{name} shop/x: skipped: admc does not know this kind" in run.err
        assert json.dumps(found) in run.out


def test_the_line_of_an_unknown_kind_says_whose_pods_it_has(injected: Injected) -> None:
    found = {**deployment("api"), "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    assert "its pods are those of `api`, and would run without an ADM" in injected(found).err
    run = injected(found, options=("--skip-unknown",))
    assert "Rollout shop/api: skipped: admc does not know this kind, and its pods are those of service `api`" in run.err


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "ConfigMap", "data": {"a": "spec:\n  containers:\n  - image: m\n"}},
        {"kind": "CustomResourceDefinition", "spec": {"containers": {"type": "array"}, "required": ["containers"]}},
        {"kind": "Pipeline", "steps": [{"name": "build"}], "container": "m"},
        {"kind": "Any", "spec": {"containers": [1, "a", None, []]}},
        {"kind": "Any", "metadata": {"annotations": {"containers": [CONTAINER]}}},
    ],
)
def test_words_alone_make_no_pod_template(injected: Injected, data: dict[str, Any]) -> None:
    run = injected({"apiVersion": "v1", **data})
    assert (run.code, run.err) == (0, "")


# ---- Services ----


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ({"port": 80, "targetPort": 9999}, "port 80 leads to 9999, and to 8081 in the program"),
        ({"port": 80}, "port 80 leads to 80, and to 8081 in the program"),
        ({"port": 80, "targetPort": "9999"}, "port 80 leads to 9999"),
        ({"port": 80, "targetPort": "other"}, "port 80 leads to 7777 (`other` of Deployment `api`)"),
        ({"port": 81, "targetPort": 8081}, "it has no TCP port 80, which the program gives `api`"),
        ({"port": 80, "targetPort": 8081, "protocol": "UDP"}, "it has no TCP port 80"),
    ],
)
def test_another_port_is_an_error_where_a_policy_is_enforced_on_it(
    injected: Injected, port: dict[str, Any], said: str
) -> None:
    containers = [{**CONTAINER, "ports": [{"name": "other", "containerPort": 7777}]}]
    run = injected(
        service("api", {"app": "api"}, {**port, "name": "a"}, API_PORTS[1]), deployment("api", containers=containers)
    )
    assert (run.code, run.out) == (1, "")
    assert "error ADM943" in codes(run)
    assert said in run.err
    assert "`again`, `quota` would be enforced on no connection to it" in run.err


def test_a_named_target_that_is_the_port_of_the_program_fits(injected: Injected) -> None:
    containers = [{**CONTAINER, "ports": [{"name": "web", "containerPort": 8081}]}]
    ports = ({"name": "a", "port": 80, "targetPort": "web"}, API_PORTS[1])
    run = injected(service("api", {"app": "api"}, *ports), deployment("api", containers=containers))
    assert (run.code, codes(run)) == (0, [])
    run = injected(service("api", {"app": "api"}, *ports), deployment("api"))
    assert (run.code, codes(run)) == (0, ["warning ADM943"])
    assert "leads to a name that is not a port of Deployment `api`" in run.err
    run = injected(service("api", {"app": "api"}, *ports))
    assert (run.code, codes(run)) == (0, ["warning ADM943"])
    named = [{"name": "web", "protocol": "UDP", "containerPort": 8081}, {"name": "web", "containerPort": 7777}]
    containers = [{**CONTAINER, "ports": [port]} for port in named]
    run = injected(service("api", {"app": "api"}, *ports), deployment("api", containers=containers))
    assert (run.code, codes(run)) == (1, ["error ADM943"])


def test_another_port_without_a_policy_is_a_warning(injected: Injected) -> None:
    ports = (API_PORTS[0], {"name": "b", "port": 90, "targetPort": 9999})
    run = injected(service("api", {"app": "api"}, *ports), deployment("api"))
    assert (run.code, codes(run)) == (0, ["warning ADM943"])


def test_other_labels_are_an_error_where_a_network_policy_selects_by_them(injected: Injected) -> None:
    other = {"app.kubernetes.io/name": "db"}
    run = injected(service("db", other, {"port": 5432}), deployment("db", other))
    assert (run.code, codes(run)) == (1, ["error ADM941"])
    assert "the NetworkPolicies that close `db` select them: these select no pod" in run.err
    assert 'labels { "app.kubernetes.io/name" = "db" }' in run.err
    # Pods that have both are selected by both.
    run = injected(service("db", other, {"port": 5432}), deployment("db", {**other, "app": "db"}))
    assert (run.code, codes(run)) == (0, [])
    # A sender that is admitted by its labels, and a caller that no NetworkPolicy names.
    for name, code, ports in (("api", 1, API_PORTS), ("web", 0, ({"port": 80, "targetPort": 8080},))):
        run = injected(service(name, {"run": name}, *ports), deployment(name, {"run": name}))
        assert (run.code, codes(run)) == (code, ["error ADM941" if code else "warning ADM941"])


def test_pods_of_no_service_with_the_labels_of_one_would_be_admitted_as_it(injected: Injected) -> None:
    whole = service("api", {"app": "api", "track": "main"}, *API_PORTS)
    run = injected(whole, deployment("api", {"app": "api", "track": "main"}), deployment("test"))
    assert (run.code, codes(run)) == (0, [])
    run = injected(whole, deployment("api", {"app": "api", "track": "main"}), deployment("test", {"app": "api"}))
    assert (run.code, codes(run)) == (1, ["error ADM941"])
    assert "Deployment `shop/test`: its pods have the labels of `api`" in run.err


def test_templates_of_each_colour_are_of_the_service(injected: Injected) -> None:
    blue, green = ({"app": "api", "colour": colour} for colour in ("blue", "green"))
    manifest = service("api", blue, *API_PORTS)
    manifest["metadata"]["annotations"] = {"admc.dev/pod-labels": "app=api"}
    run = injected(manifest, deployment("api-blue", blue), deployment("api-green", green))
    assert (run.code, codes(run)) == (0, [])
    assert "Deployment shop/api-green: service `api`: redirection, an ADM" in run.err
    manifest["metadata"]["annotations"] = {"admc.dev/pod-labels": "app=web"}
    run = injected(manifest, deployment("api-blue", blue))
    assert codes(run) == ["warning ADM967"]
    assert "`app=web` is not a label of the selector" in run.err
    assert "Deployment shop/api-blue: service `api`: redirection, an ADM" in run.err


def test_a_selector_that_a_server_does_not_use(injected: Injected) -> None:
    many = {"app": "api", **{f"label-{number}": "x" for number in range(16)}}
    run = injected(service("api", many, *API_PORTS), deployment("api", many))
    assert (run.code, codes(run)[0]) == (1, "error ADM965")
    assert "it has 17 labels, and admc uses at most 16" in run.err


@pytest.mark.parametrize(
    ("spec", "code", "severity"),
    [
        ({"type": "ExternalName", "externalName": "db.example.com"}, "ADM940", "error"),
        ({"selector": None}, "ADM941", "error"),
        ({"selector": {}}, "ADM941", "error"),
    ],
)
def test_a_service_that_selects_nothing(injected: Injected, spec: dict[str, Any], code: str, severity: str) -> None:
    found = service("db", {"app": "db"}, {"port": 5432})
    run = injected({**found, "spec": {**found["spec"], **spec}})
    assert codes(run) == [f"{severity} {code}"]


@pytest.mark.parametrize(
    ("selector", "labels"),
    [
        ({"app": "api"}, {"app": "apii"}),
        ({"app": "api", "track": "main"}, {"app": "api"}),
        ({"app": "other"}, {"app": "api"}),
    ],
)
def test_a_service_that_does_not_select_the_pods_of_its_name_is_named(
    injected: Injected, plan: Path, admc: Admc, selector: dict[str, str], labels: dict[str, str]
) -> None:
    (plan.with_name("policies.adm")).write_text(PROGRAM.replace("policy readers", "// policy readers"))
    assert admc("compile", plan.with_name("policies.adm")).code == 0
    run = injected(service("api", selector, *API_PORTS), deployment("api", labels))
    assert run.code == 0
    assert set(codes(run)) == {"warning ADM941"}
    assert "it does not select the pods of Deployment `api`" in run.err
    assert "it does not select" not in injected(service("api", selector, *API_PORTS), deployment("web")).err


@pytest.mark.parametrize(
    "other",
    [
        service("api", {"app": "api"}, *API_PORTS, {"name": "c", "port": 8888, "targetPort": 8081}),
        service("api", {"app": "api"}, *API_PORTS, type="NodePort"),
        service("api", {"app": "api"}, *API_PORTS, externalIPs=["192.0.2.1"]),
        service("preview", {"app": "api"}, {"port": 80, "targetPort": 8081}),
    ],
)
def test_another_way_to_a_port_with_a_policy_at_its_senders_is_named(injected: Injected, other: dict[str, Any]) -> None:
    run = injected(other, deployment("api"))
    assert (run.code, codes(run)) == (0, ["warning ADM948"])
    assert "is another way to port 8081 of its pods" in run.err


def test_a_port_of_the_node_is_another_way(injected: Injected) -> None:
    containers = [
        {**CONTAINER, "ports": [{"containerPort": 8081, "hostPort": 80}, {"containerPort": 1, "hostPort": 1}]}
    ]
    run = injected(deployment("api", containers=containers))
    assert (run.code, codes(run)) == (0, ["warning ADM948"])
    assert "`hostPort` 80 is another way to port 8081 of its pods" in run.err


def test_a_headless_service_leads_to_the_addresses_of_pods(injected: Injected) -> None:
    run = injected(service("api-pods", {"app": "api"}, {"port": 8081}, clusterIP="None"), deployment("api"))
    assert (run.code, codes(run)) == (0, [])


# ---- namespaces ----


def without_namespace(name: str) -> dict[str, Any]:
    return {**deployment(name), "metadata": {"name": name}}


def test_objects_without_a_namespace_are_of_the_one_that_is_given(injected: Injected) -> None:
    run = injected(without_namespace("worker"), options=("-n", "shop"))
    assert run.code == 0
    assert "Deployment shop/worker: service `worker`: redirection, an ADM" in run.err
    run = injected(without_namespace("worker"), options=("-n", "other"))
    assert run.code == 0
    assert "Deployment other/worker: left alone" in run.err
    run = injected(deployment("worker"), options=("-n", "other"))
    assert (run.code, run.out, codes(run)) == (1, "", ["error ADM949"])


def test_without_one_it_is_said_where_pods_of_a_service_would_get_nothing(injected: Injected) -> None:
    run = injected(without_namespace("worker"))
    assert (run.code, run.out, codes(run)) == (1, "", ["error ADM949"])
    assert "give `-n shop`" in run.err
    assert injected(without_namespace("another")).code == 0


def test_a_service_without_a_namespace_is_compared_or_refused(injected: Injected) -> None:
    """It decides which port of the pods a call reaches, wherever the pods are named."""
    found = service("api", {"app": "api"}, {"port": 80, "targetPort": 9999}, API_PORTS[1])
    del found["metadata"]["namespace"]
    run = injected(found, deployment("api"))
    assert (run.code, run.out, codes(run)) == (1, "", ["error ADM949"])
    assert "Service `default/api`: it names no namespace, and in `shop` it would be the Service of `api`" in run.err
    run = injected(found, deployment("api"), options=("-n", "shop"))
    assert (run.code, codes(run)) == (1, ["error ADM943"])
    found["metadata"]["name"] = "another"
    assert injected(found, deployment("api")).code == 0


@pytest.mark.parametrize("name", ["Shop", "a b", "a/b", "x" * 64])
def test_a_name_that_is_none_of_a_namespace(injected: Injected, name: str) -> None:
    run = injected(deployment("worker"), options=("-n", name))
    assert (run.code, run.out) == (1, "")
    assert "ADM949" in run.err


# ---- what the plan relies on ----


def contained(**context: Any) -> dict[str, Any]:
    return deployment("api", containers=[{**CONTAINER, "securityContext": context}])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (contained(privileged=True), "container `main` is privileged"),
        (contained(capabilities={"add": ["NET_ADMIN"]}), "container `main` has NET_ADMIN"),
        (contained(capabilities={"add": ["all"]}), "container `main` has"),
        (contained(runAsUser=0), "container `main` may become any user (root with SETUID)"),
        (deployment("api", hostPID=True), "the pod has the process namespace of the host"),
        (
            deployment("api", initContainers=[{"name": "i", "image": "m", "securityContext": {"privileged": True}}]),
            "container `i` is privileged",
        ),
        (
            {
                **contained(),
                "spec": {
                    "template": {
                        "metadata": {"labels": {"app": "api"}, "annotations": {"admc.dev/keep-net-raw": "true"}},
                        "spec": {"containers": [{**CONTAINER, "securityContext": CALM}]},
                    }
                },
            },
            "container `main` has NET_RAW",
        ),
    ],
)
def test_a_container_that_goes_round_its_adm_is_an_error_where_a_guard_rests_on_it(
    injected: Injected, found: dict[str, Any], said: str
) -> None:
    run = injected(found)
    assert (run.code, run.out, codes(run)) == (1, "", ["error ADM948"])
    assert f"{said}" in run.err
    assert "the plan relies on it for `readers`" in run.err


def test_a_container_of_which_it_is_not_known_is_a_warning(injected: Injected) -> None:
    run = injected(deployment("api", securityContext={}))
    assert (run.code, codes(run)) == (0, ["warning ADM948"])
    assert "its user is not set" in run.err


def test_a_container_on_which_no_guard_rests_is_not_named(injected: Injected) -> None:
    for name in ("worker", "web", "db"):
        run = injected(deployment(name, containers=[{**CONTAINER, "securityContext": {"privileged": True}}]))
        assert (run.code, codes(run)) == (0, [])


def test_a_second_time_has_the_same_findings(injected: Injected, tmp_path: Path, admc: Admc) -> None:
    first = injected(deployment("api", securityContext={}))
    again = tmp_path / "again.yaml"
    again.write_text(first.out)
    run = admc("inject", "--plan", tmp_path / "policies.plan.json", "--cluster", "one", "-f", again)
    assert (run.out, codes(run)) == (first.out, codes(first))


def test_a_pod_on_its_nodes_network_is_not_told_apart(injected: Injected) -> None:
    run = injected(deployment("db", hostNetwork=True))
    assert (run.code, codes(run)) == (1, ["warning ADM928", "error ADM922"])
    assert "the plan closes `db`" in run.err


def test_an_untrusted_service_is_not_relied_on(injected: Injected, admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(PROGRAM.replace("90 -> 9090  namespace", "90 -> 9090  untrusted namespace"))
    assert admc("compile", tmp_path / "policies.adm").code == 0
    run = injected(contained(privileged=True))
    assert (run.code, codes(run)) == (0, [])


@pytest.mark.parametrize("text", ["", "\n", "---\n---\n", "# nothing\n", "null\n", "{}\n", "[]\n", "a\n"])
def test_empty_documents(admc: Admc, plan: Path, text: str) -> None:
    (plan.with_name("app.yaml")).write_text(text)
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", plan.with_name("app.yaml"))
    assert (run.code, run.out, run.err) == (0, text, "")
