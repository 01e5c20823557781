"""`admc inject --plan`: from a plan, over all kinds of manifests, to one stream of documents or none."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from admc.kubernetes.inject.needs import Place, needs_of_plan, united
from admc.kubernetes.inject.spec import Captures
from admc.serve.compiling.inputs import Inputs
from admc.serve.compiling.reviewed_plan import placed
from tests.cli.command import ROOT, Admc

PROGRAM = """\
app shop
service web  { http 80 -> 8080  namespace shop }
service cart { http 80 -> 8081  namespace shop  labels { app = "cart"  tier = "mid" } }
service rate { http 9000  namespace shop }
service log  { http 9100  namespace shop }
call web -> cart
call cart -> rate
call rate -> log
@ingress
policy known = allow(callers: [web]) on * -> cart
@egress
policy again = retry(attempts: 3) on cart -> rate
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {run: basket}, ports: [{port: 80, targetPort: 8081}]}
"""


VERSIONS = {"Pod": "v1", "ReplicationController": "v1", "Job": "batch/v1", "CronJob": "batch/v1"}


def workload(kind: str, name: str, labels: str, namespace: str = "shop", containers: str = "") -> str:
    version = VERSIONS.get(kind, "apps/v1")
    spec = f"{{containers: [{{name: main, image: m{containers}}}]}}"
    template = f"metadata: {{labels: {{{labels}}}}}, spec: {spec}"
    inner = f"{{template: {{{template}}}}}"
    head = f"---\napiVersion: {version}\nkind: {kind}\n"
    if kind == "Pod":
        return f"{head}metadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\nspec: {spec}\n"
    if kind == "CronJob":
        inner = f"{{jobTemplate: {{spec: {inner}}}}}"
    return f"{head}metadata: {{name: {name}, namespace: {namespace}}}\nspec: {inner}\n"


@pytest.fixture
def plan(tmp_path: Path, admc: Admc) -> Path:
    program = tmp_path / "policies.adm"
    program.write_text(PROGRAM)
    assert admc("compile", program).code == 0
    return tmp_path / "policies.plan.json"


def inits(text: str) -> dict[str, list[str]]:
    found = {}
    for data in yaml.safe_load_all(text):
        for each in data["items"] if data["kind"] == "List" else [data]:
            spec = each.get("spec", {})
            for part in ("jobTemplate", "spec", "template", "spec"):
                spec = spec.get(part, spec)
            found[f"{each['kind']} {each['metadata']['name']}"] = [
                item["name"] for item in spec.get("initContainers", [])
            ]
    return found


def test_each_kind_gets_what_its_service_needs(plan: Path, admc: Admc, tmp_path: Path) -> None:
    app = tmp_path / "app.yaml"
    kinds = ("Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job", "CronJob")
    app.write_text("".join(workload(kind, kind.lower(), "app: cart, tier: mid") for kind in kinds))
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", app)
    assert run.code == 0, run.err
    found = inits(run.out)
    assert len(found) == len(kinds)
    assert set(map(tuple, found.values())) == {("admc-rules", "admc-proxy")}
    assert run.err.splitlines()[0] == "Pod shop/pod: service `cart`: redirection, an ADM"
    out = tmp_path / "out.yaml"
    assert admc("inject", "--plan", plan, "--cluster", "one", "-f", app, "-o", out).code == 0
    assert out.read_text() == run.out
    again = admc("inject", "--plan", plan, "--cluster", "one", "-f", out)
    assert again.out == run.out
    assert again.err.count("(unchanged)") == len(kinds)


def test_callers_and_destinations_without_an_adm_wait_and_others_are_left_alone(
    plan: Path, admc: Admc, tmp_path: Path
) -> None:
    app = tmp_path / "app.yaml"
    app.write_text(
        workload("Deployment", "web", "app: web")  # a caller that `cart` tells by its address
        + workload("Deployment", "rate", "app: rate")  # a destination of `cart`
        + workload("Deployment", "log", "app: log")
        + workload("Deployment", "other", "app: other")
        + workload("Deployment", "far", "app: web", namespace="elsewhere").replace("main", "admc-proxy")
    )
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", app)
    assert inits(run.out) == {
        "Deployment web": ["admc-wait"],
        "Deployment rate": ["admc-wait"],
        "Deployment log": [],
        "Deployment other": [],
        "Deployment far": [],
    }
    assert run.err.splitlines()[2:] == [
        "Deployment shop/log: service `log`: needs no ADM and no wait (unchanged)",
        "Deployment shop/other: left alone: its pods are of no service that needs something",
        "Deployment elsewhere/far: left alone: its pods are of no service that needs something",
    ]


def test_a_service_in_the_manifests_goes_before_labels_in_the_program(plan: Path, admc: Admc, tmp_path: Path) -> None:
    app, services = tmp_path / "app.yaml", tmp_path / "services.yaml"
    labels = workload("Deployment", "old", "app: cart, tier: mid")
    app.write_text(labels + workload("Deployment", "new", "run: basket, app: x"))
    services.write_text(SERVICE)
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", services, "-f", app)
    assert inits(run.out) == {"Service cart": [], "Deployment old": [], "Deployment new": ["admc-rules", "admc-proxy"]}
    assert run.out.startswith(SERVICE + "---\n")


@pytest.mark.long
def test_hundreds_of_documents_take_seconds(plan: Path, admc: Admc, tmp_path: Path) -> None:
    one = workload("Deployment", "web", "app: web").replace("spec: {", "# kept\nspec: {")
    app = tmp_path / "app.yaml"
    app.write_text(one * 300)
    began = time.process_time()
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", app)
    assert time.process_time() - began < 20
    assert run.out.count("# kept") == run.out.count("name: admc-wait\n") == 300


def test_lists_and_other_documents_pass_byte_by_byte(plan: Path, admc: Admc, tmp_path: Path) -> None:
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name:   x}  # odd\ndata: {k: 'v', e: !!str 1}\n"
    items = "---\napiVersion: v1\nkind: List\nitems:\n" + "".join(
        f"- {line[4:] if line.startswith('---') else line}"
        for line in [json.dumps(yaml.safe_load(workload("Pod", "p", "app: web"))) + "\n"]
    )
    app = tmp_path / "app.yaml"
    app.write_text(other + items + "---\n" + other + "...\n")
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", app)
    assert inits(run.out) == {"ConfigMap x": [], "Pod p": ["admc-wait"]}
    assert run.out.startswith(other + "---\n")
    assert run.out.endswith("---\n" + other + "...\n")


def test_standard_input(plan: Path) -> None:
    text = workload("Deployment", "web", "app: web")
    command = [sys.executable, "-m", "admc", "inject", "--plan", str(plan), "--cluster", "one", "-f", "-"]
    run = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert inits(run.stdout.decode()) == {"Deployment web": ["admc-wait"]}


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (
            workload("Pod", "p", "app: cart, tier: mid", containers=", ports: [{containerPort: 15006}]"),
            "ADM925",
            "app.yaml:10:",
        ),
        (
            workload(
                "Pod", "p", "app: cart, tier: mid", containers=", livenessProbe: {httpGet: {port: 8081, path: x}}"
            ),
            "ADM923",
            "Pod `shop/p`: the livenessProbe of container `main`",
        ),
        (workload("Pod", "p", "app: [cart"), "ADM927", "not YAML"),
        (workload("Pod", "p", "app: web, tier: mid, app: cart"), "ADM927", "twice"),
    ],
)
def test_a_refusal_writes_nothing(plan: Path, admc: Admc, tmp_path: Path, text: str, code: str, said: str) -> None:
    app, out = tmp_path / "app.yaml", tmp_path / "out.yaml"
    app.write_text(workload("Deployment", "web", "app: web") + text)
    for more in ((), ("-o", out)):
        run = admc("inject", "--plan", plan, "--cluster", "one", "-f", app, *more)
        assert (run.code, run.out) == (1, "")
        assert code in run.err
        assert said in run.err
    assert not out.exists()


def test_a_template_of_two_services_is_refused(tmp_path: Path, admc: Admc) -> None:
    program, app = tmp_path / "policies.adm", tmp_path / "app.yaml"
    program.write_text(PROGRAM + 'service twin { http 80  namespace shop  labels { tier = "mid" } }\n')
    app.write_text(workload("Deployment", "cart", "app: cart, tier: mid"))
    assert admc("compile", program).code == 0
    run = admc("inject", "--plan", tmp_path / "policies.plan.json", "--cluster", "one", "-f", app)
    assert run.code == 1
    assert "its pods are those of `cart` and `twin`" in run.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("one", "--plan", "PLAN", "--cluster", "one"),
        ("one", "--cluster", "one"),
        ("one", "--xds", "admc-one.x.svc:18000"),
        ("One",),
        ("--plan", "PLAN", "--cluster", "one", "--kubeconfig", "config"),
        ("--plan", "PLAN"),
        ("--plan", "PLAN", "--cluster", "One"),
        ("--plan", "PLAN", "--cluster", "one", "--xds", "nowhere"),
        ("--plan", "PLAN", "--cluster", "one", "--xds", "x:70000"),
        ("--plan", "PLAN", "--cluster", "one", "-f", "-", "-f", "-"),
    ],
)
def test_wrong_usage(plan: Path, admc: Admc, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "app.yaml").write_text("")
    run = admc("inject", "-f", tmp_path / "app.yaml", *(str(plan) if it == "PLAN" else it for it in arguments))
    assert run.code == 1
    assert run.out == ""


def test_a_plan_that_does_not_fit_its_program_is_not_used(plan: Path, admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "policies.adm").write_text(PROGRAM.replace("attempts: 3", "attempts: 4"))
    (tmp_path / "app.yaml").write_text(workload("Pod", "p", "app: web"))
    run = admc("inject", "--plan", plan, "--cluster", "one", "-f", tmp_path / "app.yaml")
    assert run.code == 1
    assert "ADM852" in run.err


def test_in_a_rollout_a_pod_gets_what_both_plans_need(plan: Path, admc: Admc, tmp_path: Path) -> None:
    old = placed(plan, Inputs(plan))
    (tmp_path / "policies.adm").write_text(PROGRAM.replace("cart -> rate\n@", "cart -> rate\n@").replace(
        "@egress\npolicy again = retry(attempts: 3) on cart -> rate",
        "@egress\npolicy late = timeout(after: 1s) on rate -> log",
    ))  # fmt: skip
    assert admc("compile", tmp_path / "policies.adm").code == 0
    new = placed(plan, Inputs(plan))
    both = united([needs_of_plan(*old), needs_of_plan(*new)])
    assert both[Place("shop", "cart")].captures == Captures((8081,), (9000,))
    assert both[Place("shop", "rate")].captures == Captures((), (9100,))
    assert sorted(place.service for place, own in both.items() if own.waits) == ["log", "rate", "web"]
