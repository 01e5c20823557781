"""What is wrong with manifests is named with a code, a file and a line, and the rest is read."""

from __future__ import annotations

from typing import Any

import pytest

from admc.istio.schemas.violation import shown
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from tests.istio.objects import NETWORKING, SECURITY, objects, read, service, thing

NAME = "metadata: {name: a, namespace: shop}"
VIRTUAL = f"apiVersion: {NETWORKING}\nkind: VirtualService\n{NAME}\nspec:\n  hosts: [a]\n"
ENVOY = f"apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\n{NAME}\nspec:\n"
PEER = f"apiVersion: {SECURITY}\nkind: PeerAuthentication\n{NAME}\n"
DEPLOYMENT = f"apiVersion: apps/v1\nkind: Deployment\n{NAME}\nspec:\n"


def facts(finding: Diagnostic) -> tuple[str, str, int]:
    assert finding.span is not None
    return finding.code, finding.span.source.path, finding.span.line


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        # YAML
        ("a: [\n", "ADM927", 2, "not YAML"),
        (f"{VIRTUAL}  hosts: [b]\n", "ADM927", 6, "the key `hosts` is there twice"),
        ("a: &a [*a]\n", "ADM927", 1, "an alias stands for what it is in"),
        ("- just\n- a list\n", "ADM911", 1, "no object of Kubernetes"),
        ("kind: Deployment\n", "ADM911", 1, "lacks `apiVersion` or `kind`"),
        # what is not rendered
        ("kind: X\n{{- if .Values.x }}\na: b\n{{- end }}\n", "ADM910", 2, "a template of Helm"),
        (VIRTUAL.replace("name: a", 'name: "{{ .Release.Name }}"'), "ADM910", 3, "a template of Helm"),
        (VIRTUAL.replace("[a]", '["{{ $host }}"]'), "ADM910", 5, "a template of Helm"),
        (VIRTUAL.replace("shop", '"${NAMESPACE}"'), "ADM910", 3, "a variable"),
        (VIRTUAL.replace("shop", "$NAMESPACE"), "ADM910", 3, "a variable"),
        (VIRTUAL.replace("[a]", "#@ data.values.hosts"), "ADM910", 5, "a comment of ytt"),
        ('#@ load("@ytt:data", "data")\n' + VIRTUAL, "ADM910", 1, "a comment of ytt"),
        ("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n", "ADM910", 1, "kustomization"),
        # kinds and versions
        (f"apiVersion: rbac.istio.io/v1alpha1\nkind: ServiceRole\n{NAME}\n", "ADM911", 2, "no kind of Istio any more"),
        (f"apiVersion: config.istio.io/v1alpha2\nkind: rule\n{NAME}\n", "ADM911", 2, "no kind of Istio any more"),
        (f"apiVersion: authentication.istio.io/v1\nkind: Policy\n{NAME}\n", "ADM911", 2, "no kind of Istio any more"),
        (VIRTUAL.replace("VirtualService", "VirtualServices"), "ADM911", 2, "has no kind `VirtualServices`"),
        (VIRTUAL.replace("/v1", "/v1alpha2"), "ADM911", 1, "there is no version"),
        # schemas
        (f"{PEER}spec:\n  workloadLabels: {{app: a}}\n", "ADM912", 5, "`spec` has no field `workloadLabels`"),
        (f"{PEER}spec:\n  mtls: {{mode: strict}}\n", "ADM912", 5, "must be one of"),
        (f"{PEER}spec:\n  mtls:\n    mode: on\n", "ADM912", 6, "`spec.mtls.mode` must be a text"),
        (f"{VIRTUAL}  http:\n  - timeout: 5\n", "ADM912", 7, "must be a text"),
        (f"{VIRTUAL}  http:\n  - match:\n    - uri: {{exact: a, prefix: b}}\n", "ADM912", 8, "may have only one of"),
        (
            f"{VIRTUAL}  http:\n  - route:\n    - weight: 1\n",
            "ADM912",
            8,
            "`spec.http[0].route[0].destination` is missing",
        ),
        (
            VIRTUAL.replace("VirtualService", "ServiceEntry").replace("[a]", "[]"),
            "ADM912",
            5,
            "has fewer entries than 1",
        ),
        # rules
        (f"{VIRTUAL}  http:\n  - timeout: 0s\n", "ADM913", 7, "must be a valid duration"),
        # Kubernetes
        (f"{DEPLOYMENT}  replicas: many\n", "ADM918", 5, "`spec.replicas` must be a whole number"),
        (f"{DEPLOYMENT}  replicas: -4\n", "ADM918", 5, "`spec.replicas` must be at least 0"),
        (f"{DEPLOYMENT}  replicas: {10**20}\n", "ADM918", 5, "`spec.replicas` must be at most 2147483647"),
        (f"{DEPLOYMENT}  template:\n    spec: {{hostNetwork: 'yes'}}\n", "ADM918", 6, "must be `true` or `false`"),
        (DEPLOYMENT.replace("namespace: shop", "labels: {x: on}"), "ADM918", 3, "`metadata.labels.x` must be a text"),
        (
            f"{DEPLOYMENT}  template:\n    metadata:\n      annotations:\n        sidecar.istio.io/inject: no\n",
            "ADM918",
            8,
            "must be a text",
        ),
        (f"apiVersion: v1\nkind: Service\n{NAME}\nspec: {{ports: 80}}\n", "ADM918", 4, "`spec.ports` must be a list"),
    ],
)
def test_what_is_wrong_has_a_code_a_file_and_a_line(text: str, code: str, line: int, words: str) -> None:
    right = objects(service("right"))
    inputs, findings = read(right, f"{right}---\n{text}---\n{objects(service('other'))}")
    first = findings[0]
    assert facts(first) == (code, "1.yaml", line + right.count("\n") + 1)
    assert words in first.message
    assert first.severity is Severity.ERROR
    assert {manifest.name for manifest in inputs.objects} == {"right", "other"}
    assert inputs.skipped >= 1


def test_a_hint_names_the_field_that_was_meant() -> None:
    for text, hint in [
        (f"{PEER}spec:\n  selectors: {{}}\n", "did you mean `selector`?"),
        (f"{PEER}spec:\n  mtls: {{mode: strict}}\n", "did you mean `STRICT`?"),
        (f"{PEER}spec:\n  portlevelmtls: {{}}\n", "did you mean `portLevelMtls`?"),
        (PEER.replace("PeerAuthentication", "PeerAuthetication"), "did you mean `PeerAuthentication`?"),
        (f"{PEER}spec:\n  mtls: {{mode: on}}\n", "write it in quotes"),
        (f"{VIRTUAL}  http:\n  - appendHeaders: {{a: b}}\n", "`headers.request`"),
        (f"{VIRTUAL}  http:\n  - websocketUpgrade: true\n", "without a setting"),
        (f"{ENVOY}  workloadLabels: {{}}\n", "Istio has given it up: it is `workloadSelector.labels` now"),
        (f"{ENVOY}  filters: []\n", "`configPatches`"),
        (f"{PEER}spec:\n  filters: []\n", "known are"),
    ]:
        (finding,) = read(text)[1]
        assert finding.hint is not None
        assert hint in finding.hint


def test_a_template_in_a_value_that_is_not_used_is_no_mistake() -> None:
    dashboards = thing("v1", "ConfigMap", "dashboards", data={"a": "{{ $labels.x }} ${VAR}"})
    rule = thing("monitoring.coreos.com/v1", "PrometheusRule", "r", spec={"groups": ["{{ x }}"]})
    env = [{"name": "A", "value": "${B} {{ c }}"}]
    deployment = thing(
        "apps/v1", "Deployment", "d", spec={"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}
    )
    values = {"sidecarInjectorWebhook": {"templates": {"custom": "{{ .Spec }}"}}}
    operator = thing("install.istio.io/v1alpha1", "IstioOperator", "i", spec={"values": values})
    inputs, findings = read(objects(dashboards, rule, deployment, operator))
    assert findings == []
    assert len(inputs.objects) == 4


def test_raw_reads_templates_as_they_are() -> None:
    text = VIRTUAL.replace("shop", '"${NAMESPACE}"').replace("[a]", "[a] #@ ytt")
    inputs, findings = read(text, raw=True)
    assert findings == []
    assert [manifest.namespace for manifest in inputs.objects] == ["${NAMESPACE}"]


def test_an_alias_bomb_is_refused_and_the_rest_is_read() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    bomb = "\n".join(levels)
    inputs, findings = read(f"{bomb}\n---\n{objects(service('right'))}")
    assert [finding.message for finding in findings] == ["the manifests are too large"]
    assert [manifest.name for manifest in inputs.objects] == ["right"]


def test_two_objects_of_one_name_are_an_error_if_they_differ() -> None:
    one = thing(SECURITY, "PeerAuthentication", "a", spec={"mtls": {"mode": "STRICT"}})
    other = thing(SECURITY, "PeerAuthentication", "a", spec={"mtls": {"mode": "DISABLE"}})
    elsewhere = thing(SECURITY, "PeerAuthentication", "a", "other", spec={"mtls": {"mode": "DISABLE"}})
    inputs, findings = read(objects(one, elsewhere), objects(one), objects(other))
    (finding,) = findings
    assert facts(finding) == ("ADM914", "2.yaml", 5)
    assert finding.related[0].span.source.path == "0.yaml"
    assert [manifest.data["spec"] for manifest in inputs.objects] == [one["spec"], elsewhere["spec"]]
    same_in_another_version = {**one, "apiVersion": "security.istio.io/v1beta1"}
    assert read(objects(one, same_in_another_version))[1] == []
    labelled = {**one, "metadata": {**one["metadata"], "labels": {"x": "y"}}}
    assert [each.code for each in read(objects(one, labelled))[1]] == ["ADM914"]


def test_a_secret_is_neither_kept_nor_shown() -> None:
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"
    inputs, findings = read(text)
    assert (inputs.objects, findings) == ((), [])
    broken = read(text.replace("}\n", "]\n"))[1]
    assert broken
    assert "hunter2" not in repr(broken) + broken[0].span.source.text  # type: ignore[union-attr]
    listed = thing("v1", "List", "l", items=[{"apiVersion": "v1", "kind": "Secret", "data": {"password": "hunter2"}}])
    inputs, _ = read(objects(listed))
    assert "hunter2" not in repr([manifest.data for manifest in inputs.objects])


def test_messages_do_not_quote_values() -> None:
    for spec in ({"mtls": {"mode": "hunter2"}}, {"portLevelMtls": {"80": {"mode": "hunter2"}}}):
        (finding,) = read(objects(thing(SECURITY, "PeerAuthentication", "a", spec=spec)))[1]
        assert "hunter2" not in f"{finding.message} {finding.cause} {finding.hint}"


def test_a_file_from_a_folder_may_be_something_else() -> None:
    inputs, findings = read("replicas: 3\nimage: x\n", objects(service("right")), named=False)
    assert [(finding.code, finding.severity) for finding in findings] == [("ADM911", Severity.WARNING)]
    assert inputs.skipped == 0
    assert [finding.severity for finding in read("replicas: 3\n")[1]] == [Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ('{\n  // a comment\n  "compilerOptions": {}\n}\n', Severity.WARNING),
        ("strict: [true\nname: x\n", Severity.WARNING),
        ("name: x\nname: y\n", Severity.WARNING),
        ('{"apiVersion": "v1", "kind": "Namespace" "metadata": {}}', Severity.ERROR),
        ("metadata: [\nkind: Service\n", Severity.ERROR),
        ("name: x\n---\nvalues: [\n---\napiVersion: v1\nkind: Namespace\n", Severity.ERROR),
        ("name: [{{ .Values.name }\n", Severity.ERROR),
    ],
)
def test_a_file_from_a_folder_that_cannot_be_read_may_be_something_else(text: str, severity: Severity) -> None:
    inputs, findings = read(text, named=False)
    (finding,) = [it for it in findings if it.code != "ADM911"]
    assert (finding.severity, inputs.skipped) == (severity, int(severity is Severity.ERROR))
    assert finding.span is not None
    assert finding.span.source.path == "0.yaml"
    assert {it.severity for it in read(text)[1]} == {Severity.ERROR}


@pytest.mark.parametrize("kind", ["Pod", ""])
def test_objects_of_a_list_may_have_their_kind_from_it(kind: str) -> None:
    inner: dict[str, Any] = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "istio-proxy"}]}}
    named = {"apiVersion": "v1", "kind": kind, **inner} if kind else inner
    inputs, findings = read(objects({"apiVersion": "v1", "kind": "PodList", "items": [named]}))
    assert findings == []
    (manifest,) = inputs.objects
    assert (manifest.kind, manifest.data["spec"]["containers"][0]["name"]) == ("Pod", "istio-proxy")


def test_a_place_is_shown_as_a_person_writes_it() -> None:
    assert shown(("spec", "http", 0, "route", 1)) == "spec.http[0].route[1]"
