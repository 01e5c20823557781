"""Annotations of a pod: it keeps its ADM out, or gives it other resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.amounts import in_bytes, millicores
from admc.kubernetes.inject.model import NOTHING, Installation, PodNeeds
from admc.kubernetes.inject.names import CPU, MEMORY
from admc.kubernetes.inject.recognised import recognised
from admc.kubernetes.inject.spec import Amounts, Resources
from admc.kubernetes.inject.template import injected
from dsl.diagnostics.diagnostic import Severity
from emitters.interception.pod import PodCaptures
from tests.cli.command import Admc
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

HERE = Installation("one", "admc-one.default.svc:18000", "admc:1", "envoy:1")
RATE = PodNeeds("hotel/rate", PodCaptures(frozenset({9000})), waits=True)
LIMITED = RATE._replace(resources=Resources(Amounts("100m", "128Mi"), Amounts("200m", "256Mi")))
CALLER = PodNeeds("hotel/search", None, waits=True)


def template(annotations: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "rate"}]}}


def resources(annotations: dict[str, Any], needs: PodNeeds = RATE) -> dict[str, Any]:
    made = injected(template(annotations), needs, HERE)
    assert made.template is not None, made.findings
    found: dict[str, Any] = made.template["spec"]["initContainers"][1]["resources"]
    return found


@pytest.mark.parametrize("needs", [RATE, CALLER])
def test_a_pod_that_opts_out_gets_nothing_and_loses_what_it_had(needs: PodNeeds) -> None:
    plain = template({"admc.dev/inject": "false"})
    made = injected(plain, needs, HERE)
    assert made.template == plain
    (finding,) = made.findings
    assert (finding.code, finding.severity) == ("ADM959", Severity.WARNING)
    before = injected(template({}), needs, HERE).template
    assert before is not None
    annotations = {**before["metadata"]["annotations"], "admc.dev/inject": "false"}
    again = injected({**before, "metadata": {"annotations": annotations}}, needs, HERE).template
    assert again is not None
    assert again["metadata"] == plain["metadata"]
    assert not again["spec"].keys() & {"initContainers", "volumes"}


def test_a_pod_that_needs_nothing_may_say_anything() -> None:
    made = injected(template({"admc.dev/inject": "no", "admc.dev/adm-cpu": "much"}), NOTHING, HERE)
    assert made.template is not None
    assert not made.findings
    assert injected(template({"admc.dev/adm-cpu": "much"}), CALLER, HERE).template is not None, "it has no ADM"


@pytest.mark.parametrize(
    ("annotations", "needs", "requests", "limits"),
    [
        ({}, RATE, ("50m", "64Mi"), (None, None)),
        ({"admc.dev/inject": "true"}, RATE, ("50m", "64Mi"), (None, None)),
        ({"admc.dev/adm-cpu": "2"}, RATE, ("2", "64Mi"), (None, None)),
        ({"admc.dev/adm-memory": "1Gi"}, RATE, ("50m", "1Gi"), (None, None)),
        ({"admc.dev/adm-memory-limit": "1Gi"}, RATE, ("50m", "64Mi"), (None, "1Gi")),
        ({"admc.dev/adm-cpu-limit": "20m"}, RATE, ("20m", "64Mi"), ("20m", None)),
        ({"admc.dev/adm-cpu": "1"}, LIMITED, ("1", "128Mi"), ("1", "256Mi")),
        ({"admc.dev/adm-cpu": "10m"}, LIMITED, ("10m", "128Mi"), ("200m", "256Mi")),
        ({"admc.dev/adm-memory-limit": "100Mi"}, LIMITED, ("100m", "100Mi"), ("200m", "100Mi")),
        (
            {"admc.dev/adm-memory": "300Mi", "admc.dev/adm-memory-limit": "1Gi"},
            LIMITED,
            ("100m", "300Mi"),
            ("200m", "1Gi"),
        ),
    ],
)
def test_an_amount_with_an_annotation_counts_and_the_other_follows(
    annotations: dict[str, Any], needs: PodNeeds, requests: tuple[str, str], limits: tuple[str | None, str | None]
) -> None:
    found = resources(annotations, needs)
    assert (found["requests"]["cpu"], found["requests"]["memory"]) == requests
    given = found.get("limits", {})
    assert (given.get("cpu"), given.get("memory")) == limits


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("inject", "no"),
        ("inject", "False"),
        ("inject", False),
        ("inject", ""),
        ("inject", None),
        ("adm-cpu", "0"),
        ("adm-cpu", "0.5"),
        ("adm-cpu", "-1"),
        ("adm-cpu", 1),
        ("adm-cpu", "1" * 17),
        ("adm-cpu-limit", "64Mi"),
        ("adm-memory", "64M"),
        ("adm-memory", "\u0661Mi"),
        ("adm-memory-limit", ["64Mi"]),
        ("adm-memory-limit", "64Mi\n"),
    ],
)
def test_nonsense_is_refused_with_its_place(name: str, value: object) -> None:
    made = injected(template({f"admc.dev/{name}": value}), RATE, HERE)
    assert made.template is None
    (finding,) = made.findings
    assert (finding.code, finding.severity) == ("ADM958", Severity.ERROR)
    assert finding.where == ("metadata", "annotations", f"admc.dev/{name}")
    assert f"admc.dev/{name}" in finding.message
    assert "\n" not in finding.message


def test_a_request_above_its_limit_is_refused() -> None:
    both = {"admc.dev/adm-cpu": "2", "admc.dev/adm-cpu-limit": "1999m"}
    (finding,) = injected(template(both), RATE, HERE).findings
    assert (finding.code, finding.hint) == ("ADM958", "write at most the amount of `admc.dev/adm-cpu-limit`")
    assert injected(template(both | {"admc.dev/adm-cpu-limit": "2000m"}), RATE, HERE).template is not None


CPUS = st.none() | st.from_regex(f"\\A{CPU}\\Z")
MEMORIES = st.none() | st.from_regex(f"\\A{MEMORY}\\Z")


@given(CPUS, CPUS, MEMORIES, MEMORIES, st.sampled_from([RATE, LIMITED]))
@examples(100)
def test_no_request_is_above_its_limit_and_a_pod_is_recognised_whatever_it_asks_for(
    cpu: str | None, cpu_limit: str | None, memory: str | None, memory_limit: str | None, needs: PodNeeds
) -> None:
    asked = {"adm-cpu": cpu, "adm-cpu-limit": cpu_limit, "adm-memory": memory, "adm-memory-limit": memory_limit}
    annotations = {f"admc.dev/{name}": value for name, value in asked.items() if value is not None}
    made = injected(template(annotations), needs, HERE)
    if made.template is None:
        assert {finding.code for finding in made.findings} == {"ADM958"}
        return
    found = made.template["spec"]["initContainers"][1]["resources"]
    limits = found.get("limits", {})
    for name, value in (("cpu", millicores), ("memory", in_bytes)):
        assert name not in limits or value(found["requests"][name]) <= value(limits[name])
    assert recognised(made.template, HERE).names == {"admc-rules", "admc-proxy", "admc-wait"}


def test_the_command_says_that_a_template_opts_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "policies.adm"
    policy = "policy q = rate_limit(requests: 1, per: 1s) on a -> a\n"
    program.write_text(f"app shop\nservice a {{ http 80 }}\ncall a -> a\n{policy}")
    admc = Admc(capfd)
    assert admc("compile", program).code == 0
    manifest = tmp_path / "pod.yaml"
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: a}, annotations: {admc.dev/inject: 'false'}}\n"
    manifest.write_text(text + "spec: {containers: [{name: a}]}\n")
    plan = tmp_path / "policies.plan.json"
    run = admc("inject", "--plan", plan, "--cluster", "main", "-f", manifest, "-n", "default")
    assert (run.code, run.out) == (0, manifest.read_text())
    assert "ADM959" in run.err
    assert "Pod default/a: service `a`: gets nothing, as its annotation says (unchanged)" in run.err
    manifest.write_text(manifest.read_text().replace("'false'", "false"))
    run = admc("inject", "--plan", plan, "--cluster", "main", "-f", manifest, "-n", "default")
    assert (run.code, run.out) == (1, "")
    assert "ADM958" in run.err
