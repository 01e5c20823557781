"""`admc advise`: its options, exit codes and formats, from files, folders and standard input."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Admc, Run
from tests.istio.objects import (
    NETWORKING,
    SECURITY,
    Json,
    deployment,
    labelled,
    namespace,
    objects,
    pod,
    service,
    thing,
)

AT_MOST = "; at most, since no --calls"
ENABLED = {"istio-injection": "enabled"}
STRICT = thing(SECURITY, "PeerAuthentication", "strict", spec={"mtls": {"mode": "STRICT"}})
BROKEN = thing(SECURITY, "PeerAuthentication", "broken", spec={"mtls": {"mod": "STRICT"}})
EDGE_ROUTE = thing(NETWORKING, "VirtualService", "edge", spec={"hosts": ["a.example"], "gateways": ["infra/main"]})
MESH: list[Json] = [
    namespace("shop", **ENABLED),
    namespace("bank"),
    deployment("cart", replicas=3),
    deployment("batch", labels={"sidecar.istio.io/inject": "false"}),
    pod("edge", "infra", containers=[{"name": "istio-proxy", "args": ["proxy", "router"]}]),
    service("cart"),
    EDGE_ROUTE,
    thing(NETWORKING, "Gateway", "main", "infra", spec={"selector": {"app": "edge"}, "servers": []}),
    STRICT,
]


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, *documents: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(objects(*documents), encoding="utf-8")
    return path


def named_service(name: str) -> Json:
    """A Service whose port is not 80: hosts that are none of the mesh have routes there."""
    return thing("v1", "Service", name, spec={"selector": {"app": name}, "ports": [{"port": 90, "name": "http"}]})


def document(run: Run) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(run.out)
    assert made["exit_code"] == run.code
    return made


def codes(run: Run) -> list[str]:
    return [item["code"] for item in document(run)["diagnostics"]]


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_what_is_known_and_what_is_not(admc: Admc, folder: Path) -> None:
    lines = write(folder / "mesh.yaml", *MESH).read_text(encoding="utf-8").splitlines()
    run = admc("advise", "mesh.yaml")
    assert (run.code, run.err) == (0, "")

    def line(text: str) -> int:
        return next(number for number, shown in enumerate(lines, 1) if text in shown)

    strict = line('"mtls"') + 1
    expected = f"""\
3 sidecars today (5 pods), by namespace labels; at most, since no --calls
  0  for routes, retries, pools, authorization  1 VirtualService is for gateways
  3  for mTLS                                   mesh.yaml:{strict} PeerAuthentication shop/strict; 0 if
    ztunnel carries layer 4
  3 for retries, 3 for metrics and spans; no resource asks for these
  1  in pods that are gateways or waypoints, which cost nothing more
  1  without a proxy, by labels of pods

3 of 3 sidecars do something that a resource asks for; 0 do not
3 of the 3 do it at layer 4 alone, which ztunnel carries

SIDECARS  ALONE  LAYER  REASON                                                 AT
       3      3      4  PeerAuthentication shop/strict: mTLS that is required  mesh.yaml:{strict}

UNASKED               SIDECARS  ADDED  ALL  WHAT
--keep retries               3      0    3  retries by default
--keep metrics               3      0    3  metrics and spans
--keep normalization         3      0    3  paths normalized

WORKLOAD                 PODS  PROXY    LAYER  BY
infra/edge (Pod)            1  gateway         the container `istio-proxy` [mesh.yaml:{line('"istio-proxy"') - 1}]
shop/batch (Deployment)     1  none            labels of pods [mesh.yaml:{line('"sidecar.istio.io/inject"')}]
shop/cart (Deployment)      3  sidecar      4  namespace labels [mesh.yaml:{line('"istio-injection"')}]
    PeerAuthentication shop/strict: mTLS that is required [mesh.yaml:{strict}]

no mesh configuration was given: Istio's defaults are taken
"""
    assert run.out == expected


def test_json_has_each_workload_with_its_place(admc: Admc, folder: Path) -> None:
    path = write(folder / "mesh.yaml", *MESH)
    made = document(admc("advise", "mesh.yaml", "--format", "json"))
    assert made["sidecars"]["today"] == 3
    assert made["sidecars"]["by_declaration"] == [{"by": "namespace labels", "pods": 3}]
    assert (made["kept"]["sidecars"], made["free"]) == (3, 0)
    assert [(it["reason"], it["layer"]) for it in made["reasons"]] == [("PeerAuthentication shop/strict", 4)]
    cart = next(item for item in made["workloads"] if item["name"] == "cart")
    assert (cart["proxy"], cart["pods"], cart["counted_by"]) == ("sidecar", 3, "replicas")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "istio-injection" in lines[cart["declared"]["line"] - 1]
    assert {(item["kind"], item["concerns"]) for item in made["resources"]} == {
        ("Gateway", "gateways"),
        ("PeerAuthentication", "sidecars"),
        ("VirtualService", "gateways"),
    }


@pytest.mark.parametrize(
    ("spec", "concerns"),
    [
        ({"hosts": ["a"], "gateways": ["g"]}, "gateways"),
        ({"hosts": ["a"], "gateways": ["g", "mesh"]}, "sidecars"),
        ({"hosts": ["a"], "gateways": []}, "sidecars"),
        ({"hosts": ["a"]}, "sidecars"),
        ({"hosts": ["b"]}, "nowhere"),
        ({}, "nowhere"),  # a part of another one, which is not there
    ],
)
def test_a_route_of_gateways_alone(admc: Admc, folder: Path, spec: Json, concerns: str) -> None:
    http = [{"route": [{"destination": {"host": "a"}}], "timeout": "1s"}]
    route = thing(NETWORKING, "VirtualService", "v", spec={"http": http, **spec})
    write(folder / "a.yaml", namespace("shop", **ENABLED), deployment("a"), named_service("a"), route)
    (judged,) = document(admc("advise", "a.yaml", "--format", "json"))["resources"]
    assert judged["concerns"] == concerns


@pytest.mark.parametrize(
    ("kind", "spec", "concerns"),
    [
        ("HTTPRoute", {"parentRefs": [{"name": "g"}]}, "gateways"),
        ("HTTPRoute", {"parentRefs": [{"kind": "Service", "group": "", "name": "a"}]}, "not judged"),
        ("HTTPRoute", {"parentRefs": [{"name": "g"}, {"kind": "Service", "group": "", "name": "a"}]}, "not judged"),
        ("HTTPRoute", {"parentRefs": [{"kind": "Service", "group": "", "name": "b"}]}, "nowhere"),
        ("HTTPRoute", {}, "nowhere"),
        ("GRPCRoute", {"parentRefs": [{"name": "g"}]}, "gateways"),
    ],
)
def test_a_route_of_the_gateway_api(admc: Admc, folder: Path, kind: str, spec: Json, concerns: str) -> None:
    route = thing("gateway.networking.k8s.io/v1", kind, "r", spec=spec)
    write(folder / "a.yaml", namespace("shop", **ENABLED), deployment("a"), named_service("a"), route)
    (judged,) = document(admc("advise", "a.yaml", "--format", "json"))["resources"]
    assert judged["concerns"] == concerns


def test_nothing_declared_asks_for_it(admc: Admc, folder: Path) -> None:
    write(folder / "a.yaml", namespace("shop"), deployment("cart"), STRICT)
    run = admc("advise", "a.yaml")
    assert run.code == 1
    assert run.out == ""
    assert "error[ADM915]: these manifests do not say which pods have a sidecar" in run.err
    assert "`--injected all`, or with `--injected NAMESPACE,...`" in run.err
    assert document(admc("advise", "a.yaml", "--injected", "all", "--format", "json"))["sidecars"]["today"] == 1
    assert document(admc("advise", "a.yaml", "--injected", "shop", "--format", "json"))["sidecars"]["today"] == 1
    run = admc("advise", "a.yaml", "--injected", "shp", "--format", "json")
    assert run.code == 1
    assert "ADM988" in codes(run)
    assert document(run)["diagnostics"][0]["hint"] == "did you mean `shop`?"


def test_an_annotation_alone_declares_nothing_and_the_error_says_so(admc: Admc, folder: Path) -> None:
    annotated = deployment("cart", annotations={"sidecar.istio.io/inject": "true"})
    write(folder / "a.yaml", namespace("shop"), annotated)
    run = admc("advise", "a.yaml")
    assert run.code == 1
    assert "ADM915" in run.err
    assert "no pod has a label for it (an annotation alone calls no webhook)" in run.err


@pytest.mark.parametrize("option", ["all", "shop"])
def test_injected_is_not_asked_for_where_it_is_given(admc: Admc, folder: Path, option: str) -> None:
    """Nothing else declares it, and no pod can have a sidecar."""
    write(folder / "a.yaml", namespace("shop"), deployment("agent", hostNetwork=True))
    assert admc("advise", "a.yaml").code == 1
    run = admc("advise", "a.yaml", "--injected", option, "--format", "json")
    assert run.code == 0
    assert document(run)["sidecars"]["today"] == 0


def test_replicas_with_a_fraction_of_zero_count(admc: Admc, folder: Path) -> None:
    """`kubectl` sends `3.0` as 3."""
    write(folder / "a.yaml", {**deployment("cart"), "spec": {**deployment("cart")["spec"], "replicas": 3.0}})
    assert document(admc("advise", "a.yaml", "--injected", "all", "--format", "json"))["sidecars"]["today"] == 3


def test_one_error_stops_and_keep_going_does_the_rest(admc: Admc, folder: Path) -> None:
    write(folder / "a.yaml", *MESH, BROKEN)
    run = admc("advise", "a.yaml")
    assert (run.code, run.out) == (1, "")
    assert "`spec.mtls` has no field `mod`" in run.err
    assert "did you mean `mode`?" in run.err
    run = admc("advise", "a.yaml", "--keep-going")
    assert run.code == 1
    assert run.out.startswith("3 sidecars today")
    assert run.out.endswith("without 1 object or document that was refused: these numbers lack it\n")
    made = document(admc("advise", "a.yaml", "--keep-going", "--format", "json"))
    assert (made["exit_code"], made["skipped"], made["sidecars"]["today"]) == (1, 1, 3)


def test_warnings_leave_the_advice(admc: Admc, folder: Path) -> None:
    http = [{"route": [{"destination": {"host": "crt"}}]}]
    route = thing(NETWORKING, "VirtualService", "v", spec={"hosts": ["a"], "http": http})
    write(folder / "a.yaml", *MESH, route)
    run = admc("advise", "a.yaml", "--format", "json")
    assert (run.code, codes(run)) == (0, ["ADM919", "ADM992"])
    assert document(run)["sidecars"]["today"] == 3


def test_without_workloads_there_is_a_warning(admc: Admc, folder: Path) -> None:
    write(folder / "a.yaml", STRICT)
    run = admc("advise", "a.yaml")
    assert run.code == 0
    assert "warning[ADM985]" in run.err
    assert "no workloads were given" in run.out


def test_standard_input(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin(monkeypatch, json.dumps({"apiVersion": "v1", "items": MESH, "kind": "List"}))
    run = admc("advise", "-", "--format", "json")
    assert document(run)["sidecars"]["today"] == 3
    assert document(run)["workloads"][0]["location"]["path"] == "<standard input>"
    assert admc("advise", "-", "-", "--format", "json").code == 1


def test_a_folder_stands_for_its_manifests(admc: Admc, folder: Path) -> None:
    write(folder / "mesh/a.yaml", *MESH[:3])
    write(folder / "mesh/deep/b.yml", *MESH[3:5])
    write(folder / "mesh/c.json", MESH[5])
    (folder / "mesh/values.yaml").write_text("replicas: 3\n", encoding="utf-8")
    (folder / "mesh/README.md").write_text("{{ no manifest }}", encoding="utf-8")
    write(folder / "mesh/.hidden/x.yaml", BROKEN)
    write(folder / "other/x.yaml", STRICT)
    (folder / "mesh/link").symlink_to(folder / "other", target_is_directory=True)
    made = document(admc("advise", "mesh", "mesh/a.yaml", "--format", "json"))
    assert [(item["code"], item["severity"]) for item in made["diagnostics"]] == [("ADM911", "warning")]
    assert made["sidecars"]["today"] == 3
    assert made["resources"] == []


@pytest.mark.parametrize(
    ("file", "what", "tool"),
    [
        ("kustomization.yaml", "the source of a kustomization", "kustomize build mesh/deep"),
        ("Kustomization", "the source of a kustomization", "kustomize build mesh/deep"),
        ("Chart.yaml", "a Helm chart", "helm template mesh/deep"),
    ],
)
def test_a_folder_that_is_not_rendered_is_refused(admc: Admc, folder: Path, file: str, what: str, tool: str) -> None:
    write(folder / "mesh/a.yaml", *MESH)
    write(folder / "mesh/deep/templates/b.yaml", BROKEN)
    (folder / "mesh/deep" / file).write_text("resources: []\n", encoding="utf-8")
    run = admc("advise", "mesh")
    assert run.code == 1
    assert f"error[ADM910]: `mesh/deep` is {what}" in run.err
    assert f"`{tool} | admc advise -`" in run.err
    assert "ADM912" not in run.err  # nothing in it is read
    run = admc("advise", "mesh", "--keep-going")
    assert (run.code, run.out.splitlines()[0]) == (1, f"3 sidecars today (5 pods), by namespace labels{AT_MOST}")
    run = admc("advise", "mesh", "--raw", "--format", "json")
    assert {"ADM910", "ADM912"} <= set(codes(run))
    assert next(item for item in document(run)["diagnostics"] if item["code"] == "ADM910")["severity"] == "warning"


def test_a_template_of_a_chart_names_its_chart(admc: Admc, folder: Path) -> None:
    template = folder / "charts/shop/templates/a.yaml"
    template.parent.mkdir(parents=True)
    (folder / "charts/shop/Chart.yaml").write_text("name: shop\n", encoding="utf-8")
    template.write_text("{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", encoding="utf-8")
    run = admc("advise", "charts/shop/templates/a.yaml")
    assert run.code == 1
    assert "`helm template charts/shop | admc advise -` renders it" in run.err
    (folder / "charts").rename(folder / "my charts")
    assert "`helm template 'my charts/shop' | admc advise -`" in admc("advise", "my charts").err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], "ADM801", "needs paths or `--cluster`"),
        (["--cluster", "a.yaml"], "ADM801", "needs paths or `--cluster`"),
        (["a.yaml", "--kubeconfig", "k"], "ADM801", "`--kubeconfig` is for `--cluster`"),
        (["a.yaml", "--injected", "a,,b"], "ADM801", "not the name of a namespace"),
        (["a.yaml", "-n", "A B"], "ADM801", "not the name of a namespace"),
        (["absent.yaml"], "ADM802", "cannot read the manifests"),
        (["empty"], "ADM984", "there are no manifests"),
        (["binary.yaml"], "ADM927", "not UTF-8"),
        (["a.yaml", "--format", "xml"], "ADM801", "xml"),
    ],
)
def test_wrong_usage(admc: Admc, folder: Path, arguments: list[str], code: str, words: str) -> None:
    write(folder / "a.yaml", *MESH)
    (folder / "empty").mkdir()
    (folder / "binary.yaml").write_bytes(b"a: \xff\n")
    run = admc("advise", *arguments)
    assert (run.code, run.out) == (1, "")
    assert f"error[{code}]" in run.err
    assert words in run.err


def test_names_cannot_control_the_terminal(admc: Admc, folder: Path) -> None:
    evil = "x\x1b[2J"
    named = {**deployment("a"), "metadata": {"name": evil, "namespace": "shop"}}
    write(folder / "a.yaml", namespace("shop", **ENABLED), named)
    run = admc("advise", "a.yaml")
    assert "\x1b" not in run.out + run.err
    assert "x\\x1b[2J" in run.out


def test_ambient_beside_sidecars(admc: Admc, folder: Path) -> None:
    write(
        folder / "a.yaml",
        namespace("shop", **ENABLED),
        labelled("bank", {"istio.io/dataplane-mode": "ambient"}),
        deployment("cart", replicas=2),
        deployment("pay", "bank", replicas=4),
    )
    sidecars = document(admc("advise", "a.yaml", "--format", "json"))["sidecars"]
    assert (sidecars["today"], sidecars["ambient"], sidecars["pods"]) == (2, 4, 6)


def test_at_least_where_more_may_run(admc: Admc, folder: Path) -> None:
    template = {"spec": {"containers": [{"name": "a"}]}}
    agent = thing("apps/v1", "DaemonSet", "agent", spec={"template": template})
    write(folder / "a.yaml", namespace("shop", **ENABLED), agent)
    run = admc("advise", "a.yaml")
    assert run.out.startswith(f"at least 1 sidecar today (1 pod), by namespace labels{AT_MOST}\n")
    assert ">=1" in run.out


def test_missing_packages_are_named(admc: Admc, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run = admc("advise", "a.yaml")
    assert run.code == 1
    assert "cel-python, jsonschema-rs" in run.err
    assert "pip install 'admc[istio]'" in run.err
