"""Revisions with their mesh configurations, and resources that name what is not there."""

from __future__ import annotations

from typing import Any

import pytest

from admc.istio.mesh.build import build
from admc.istio.mesh.model import Revision
from admc.istio.mesh.references import reference_findings
from admc.istio.schemas.mesh_config import DEFAULTS, read_mesh_config, settings
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from tests.istio.objects import NETWORKING, Json, deployment, labelled, mesh_of, namespace, read, service, thing

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: istio-canary, namespace: istio-system}
data:
  meshNetworks: "networks: {}"
  mesh: |-
    outboundTrafficPolicy:
      mode: REGISTRY_ONLY
    # a comment
    defaultConfig:
      concurency: 2
    connectTimeout: 1m
    defaultHttpRetryPolicy: {attempts: 0}
"""


def revisions(text: str) -> tuple[dict[str, Revision], list[Diagnostic]]:
    inputs, wrong = read(text)
    assert wrong == []
    findings = Diagnostics()
    return dict(build(inputs.objects, findings).revisions), findings.items


def given(revision: Revision) -> dict[str, Any]:
    return {setting.name: setting.value for setting in revision.settings if not setting.is_default}


def test_a_mesh_configuration_in_a_config_map_has_its_lines() -> None:
    made, (finding,) = revisions(CONFIG_MAP)
    assert given(made["canary"]) == {
        "outboundTrafficPolicy.mode": "REGISTRY_ONLY",
        "defaultHttpRetryPolicy.attempts": 0,
    }
    assert (finding.code, finding.severity, finding.hint) == (
        "ADM917",
        Severity.WARNING,
        "did you mean `concurrency`?",
    )
    assert finding.span is not None
    assert (finding.span.line, finding.span.text) == (11, "concurency: 2")


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("mode: REGISTRY_ONLY", "mode: NOTHING", 8, "`outboundTrafficPolicy.mode`"),
        ("connectTimeout: 1m", "connectTimeout: soon", 12, "`connectTimeout`"),
        ("{attempts: 0}", "{attempts: [", 14, "cannot be read"),
        ("{attempts: 0}", "{attempts: x}", 13, "`defaultHttpRetryPolicy.attempts`"),
    ],
)
def test_a_wrong_mesh_configuration_has_its_line(before: str, after: str, line: int, words: str) -> None:
    text = CONFIG_MAP.replace("      concurency: 2\n", "      concurrency: 2\n").replace(before, after)
    _, (finding,) = revisions(text)
    assert (finding.code, finding.severity) == ("ADM916", Severity.ERROR)
    assert words in finding.message
    assert finding.span is not None
    assert finding.span.line in (line, line - 1)


def test_a_configuration_that_is_not_written_line_by_line_has_the_line_of_its_key() -> None:
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: istio}\ndata: {mesh: "a: 1\\nb: 2\\n"}\n'
    _, findings = revisions(text)
    assert [finding.span.line for finding in findings if finding.span is not None] == [4, 4]


def test_other_config_maps_are_none() -> None:
    for name in ("istiod", "istio-ca-root-cert", "other"):
        documents = thing("v1", "ConfigMap", name, "istio-system", data={"root-cert.pem": "x"})
        assert mesh_of(documents)[0].revisions == {}


def test_operators_have_a_mesh_configuration_and_a_revision() -> None:
    spec: Json = {
        "revision": "a",
        "meshConfig": {"enableAutoMtls": False},
        "values": {"meshConfig": {"trustDomain": "t"}},
    }
    operator = thing("install.istio.io/v1alpha1", "IstioOperator", "x", spec=spec)
    mesh, findings = mesh_of(operator)
    assert findings == []
    assert given(mesh.revisions["a"]) == {"enableAutoMtls": False, "trustDomain": "t"}
    spec = {
        "meshConfig": {"localityLbSetting": {"enabled": False}, "trustDomain": "x"},
        "values": {"meshConfig": {"localityLbSetting": {"distribute": []}, "trustDomain": "t"}},
    }
    mesh, _ = mesh_of({**operator, "spec": spec})
    assert given(mesh.revisions["default"]) == {"localityLbSetting.enabled": False, "trustDomain": "x"}
    values = {"meshConfig": {"rootNamespace": "root", "accesLogFile": "x"}}
    sail = thing("sailoperator.io/v1", "Istio", "prod", "", spec={"values": values})
    mesh, (finding,) = mesh_of(sail)
    assert given(mesh.revisions["prod"]) == {"rootNamespace": "root"}
    assert (finding.code, finding.hint) == ("ADM917", "did you mean `accessLogFile`?")


def test_selectors_of_the_injector_are_not_silently_left_out() -> None:
    values = {"sidecarInjectorWebhook": {"neverInjectSelector": [{"matchLabels": {"a": "b"}}]}}
    _, (finding,) = mesh_of(thing("install.istio.io/v1alpha1", "IstioOperator", "x", spec={"values": values}))
    assert (finding.code, finding.severity) == ("ADM982", Severity.WARNING)


def test_what_is_not_given_is_the_default_and_named() -> None:
    assert {setting.name: setting.value for setting in settings({})} == DEFAULTS
    assert all(setting.is_default for setting in settings({}))
    changed = settings({"pathNormalization": {"normalization": "NONE"}, "enableTracing": False})
    assert {setting.name for setting in changed if not setting.is_default} == {
        "pathNormalization.normalization",
        "enableTracing",
    }


def test_a_mesh_configuration_may_be_written_in_all_forms_of_protobuf() -> None:
    values, problems = read_mesh_config(
        {
            "outbound_traffic_policy": {"mode": 0},
            "connectTimeout": "1m30s",
            "dnsRefreshRate": "-1.5h",
            "trustDomain": None,
        }
    )
    assert problems == []
    assert values["outboundTrafficPolicy"] == {"mode": "REGISTRY_ONLY"}
    assert values["connectTimeout"] == "90.000000000s"
    assert values["dnsRefreshRate"] == "-5400.000000000s"
    assert read_mesh_config([1])[1][0].message == "the mesh configuration must be a mapping"


# ---- references ----


def findings_of(*documents: Json) -> list[Diagnostic]:
    mesh, findings = mesh_of(*documents)
    assert findings == []
    return list(reference_findings(mesh))


def route(*destinations: Json, **more: Any) -> Json:
    spec = {"hosts": ["a"], "http": [{"route": list(destinations), **more}]}
    return thing(NETWORKING, "VirtualService", "v", spec=spec)


def to(host: str, weight: int | None = None, **more: Any) -> Json:
    share = {} if weight is None else {"weight": weight}
    return {"destination": {"host": host, **more}, **share}


@pytest.mark.parametrize(
    "host",
    ["cart", "cart.shop.svc.cluster.local", "pay.bank.svc.cluster.local", "api.example.com", "x.wild.example"],
)
def test_hosts_that_are_there(host: str) -> None:
    entry = thing(NETWORKING, "ServiceEntry", "e", spec={"hosts": ["api.example.com", "*.wild.example"]})
    assert findings_of(service("cart"), service("pay", "bank"), entry, route(to(host))) == []
    rule = thing(NETWORKING, "DestinationRule", "r", spec={"host": host})
    assert findings_of(service("cart"), service("pay", "bank"), entry, rule) == []


@pytest.mark.parametrize(
    ("host", "hint"),
    [
        ("cort", "did you mean `cart.shop`?"),
        ("pay.bank", "Istio takes a name with a dot as it is: write `pay.bank.svc.cluster.local`"),
        ("pay", None),
        ("api.example.org", None),
        ("cart.shop.svc", "did you mean"),
    ],
)
def test_a_host_that_is_not_there(host: str, hint: str | None) -> None:
    (finding,) = findings_of(service("cart"), service("pay", "bank"), route(to(host, subset="v1")))
    assert (finding.code, finding.severity) == ("ADM919", Severity.WARNING)
    assert "has the host" in finding.message
    assert hint is None or hint in str(finding.hint)
    copy = route(to("cart"), mirror={"host": host})
    assert [each.code for each in findings_of(service("cart"), service("pay", "bank"), copy)] == ["ADM919"]


def test_without_any_service_one_finding_says_that_no_host_is_compared() -> None:
    rule = thing(NETWORKING, "DestinationRule", "r", spec={"host": "cart"})
    (finding,) = findings_of(route(to("cart", 50), to("pay", 50)), rule)
    assert (finding.code, finding.severity, finding.span) == ("ADM919", Severity.WARNING, None)
    assert "kubectl get services" in str(finding.hint)
    assert findings_of(thing(NETWORKING, "Gateway", "g", spec={"servers": []})) == []


def test_a_subset_that_is_not_there() -> None:
    rule = thing(NETWORKING, "DestinationRule", "r", spec={"host": "cart", "subsets": [{"name": "stable"}]})
    documents = service("cart"), rule
    assert findings_of(*documents, route(to("cart", subset="stable"))) == []
    (finding,) = findings_of(*documents, route(to("cart", subset="stabel")))
    assert (finding.code, finding.hint) == ("ADM919", "did you mean `stable`?")
    assert finding.span is not None
    assert finding.span.source.line(finding.span.line).strip() == '"subset": "stabel"'
    wild = thing(
        NETWORKING, "DestinationRule", "w", spec={"host": "*.shop.svc.cluster.local", "subsets": [{"name": "x"}]}
    )
    assert findings_of(service("cart"), wild, route(to("cart", subset="x"))) == []


def test_weights_that_are_all_zero() -> None:
    hosts = service("a"), service("b")
    (finding,) = findings_of(*hosts, route(to("a", 0), to("b", 0)))
    assert (finding.code, finding.severity) == ("ADM980", Severity.ERROR)
    assert [each.code for each in findings_of(*hosts, route(to("a"), to("b")))] == ["ADM980"]
    assert findings_of(*hosts, route(to("a", 0), to("b", 100))) == []
    assert findings_of(*hosts, route(to("a", 0))) == []


def sidecar(name: str, space: str = "shop", **labels: str) -> Json:
    spec = {"workloadSelector": {"labels": labels}} if labels else {"egress": [{"hosts": ["./*"]}]}
    return thing(NETWORKING, "Sidecar", name, space, spec=spec)


@pytest.mark.parametrize(
    ("sidecars", "subjects"),
    [
        ([sidecar("a"), sidecar("b")], ["the whole namespace"]),
        ([sidecar("a"), sidecar("b", "other")], []),
        ([sidecar("a"), sidecar("b", app="cart")], []),
        ([sidecar("a", app="cart"), sidecar("b", app="cart")], ["Deployment `shop/cart`"]),
        ([sidecar("a", app="cart"), sidecar("b", tier="web")], ["Deployment `shop/cart`"]),
        ([sidecar("a", app="cart"), sidecar("b", app="pay")], []),
        ([sidecar("a", app="none"), sidecar("b", app="none")], []),
    ],
)
def test_two_sidecars_for_one_workload(sidecars: list[Json], subjects: list[str]) -> None:
    found = findings_of(deployment("cart", labels={"tier": "web"}), deployment("pay"), *sidecars)
    assert [finding.code for finding in found] == ["ADM981"] * len(subjects)
    for finding, subject in zip(found, subjects, strict=True):
        assert finding.message.endswith(f"are both for {subject}")
        assert finding.related[0].message == "the other one, Sidecar `shop/a`"


def test_a_revision_that_is_not_there() -> None:
    istio = thing("v1", "ConfigMap", "istio-canary", "istio-system", data={"mesh": "{}"})
    tag = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "t", "labels": {"istio.io/rev": "canary", "istio.io/tag": "prod"}},
        "webhooks": [{"name": "rev.namespace.sidecar-injector.istio.io"}],
    }
    for name in ("canary", "prod"):
        assert findings_of(istio, tag, labelled("shop", {"istio.io/rev": name}), deployment("a")) == []
    (finding,) = findings_of(istio, tag, labelled("shop", {"istio.io/rev": "cannary"}), deployment("a"))
    assert (finding.code, finding.hint) == ("ADM983", "did you mean `canary`?")
    (finding,) = findings_of(istio, namespace("shop"), deployment("a", labels={"istio.io/rev": "old"}))
    assert finding.code == "ADM983"
    assert findings_of(labelled("shop", {"istio.io/rev": "old"}), deployment("a")) == []
