"""One pod template: what it gets, that a second time changes nothing, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.model import NOTHING, Installation, PodNeeds
from admc.kubernetes.inject.names import KEEP_NET_RAW
from admc.kubernetes.inject.template import injected
from dsl.diagnostics.diagnostic import Severity
from emitters.envoy.bootstrap import pod as bootstrap
from emitters.interception.pod import PodCaptures, parse_arguments
from emitters.ports import ADM_USER, OWN_PORTS, STARTUP_PORT, STOP_PATH, STOP_PORT
from tests.properties import examples

HERE = Installation("one", "admc-one.default.svc:18000", "admc:1", "envoy:1")
RATE = PodNeeds("hotel/rate", PodCaptures(frozenset({9000, 8083}), frozenset({27017})), waits=True)
CALLER = PodNeeds("hotel/search", None, waits=True)
CALM = PodNeeds("hotel/rate", PodCaptures(frozenset({9000})), waits=False)


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "rate"}}, "spec": {"containers": [{"name": "rate"}], **spec}}


def made(given: dict[str, Any], wanted: PodNeeds = RATE) -> dict[str, Any]:
    before = copy.deepcopy(given)
    found = injected(given, wanted, HERE)
    assert given == before
    assert found.template is not None, found.findings
    return dict(found.template)


def refused(given: dict[str, Any], wanted: PodNeeds = RATE) -> list[str]:
    found = injected(given, wanted, HERE)
    assert found.template is None
    return [item.code for item in found.findings if item.severity is Severity.ERROR]


def named(spec: dict[str, Any], part: str = "initContainers") -> list[str]:
    return [item["name"] for item in spec.get(part, ())]


def test_rules_then_envoy_then_the_wait_then_the_containers_of_the_user() -> None:
    spec = made(template(initContainers=[{"name": "migrate"}], volumes=[{"name": "data"}]))["spec"]
    assert named(spec) == ["admc-rules", "admc-proxy", "admc-wait", "migrate"]
    assert named(spec, "volumes") == ["data", "admc-config", "admc-token"]
    rules, proxy, wait, _ = spec["initContainers"]
    assert parse_arguments(rules["args"]) == (RATE.service, RATE.captures)
    assert "restartPolicy" not in rules
    assert proxy["restartPolicy"] == "Always"
    assert proxy["startupProbe"]["httpGet"]["port"] == STARTUP_PORT
    assert proxy["lifecycle"] == {"preStop": {"httpGet": {"path": STOP_PATH, "port": STOP_PORT}}}
    assert {"--disable-hot-restart", "--drain-time-s", "rate"} <= set(proxy["args"])
    assert wait["args"][:2] == ["--server", HERE.server]
    assert spec["volumes"][1]["configMap"] == {"name": "admc-one"}
    token = spec["volumes"][2]["projected"]["sources"][0]["serviceAccountToken"]
    assert token == {"audience": "admc.dev/one", "expirationSeconds": 3600, "path": "token"}


def test_files_are_where_the_bootstrap_looks_for_them() -> None:
    _, proxy, wait = made(template())["spec"]["initContainers"]
    assert proxy["args"][:2] == ["-c", f"{bootstrap.CONFIG_FOLDER}/{bootstrap.BOOTSTRAP_FILE}"]
    assert wait["args"][2:6] == ["--ca", bootstrap.AUTHORITY_FILE, "--token", bootstrap.TOKEN_FILE]
    folders = [bootstrap.CONFIG_FOLDER, bootstrap.TOKEN_FILE.rpartition("/")[0]]
    for container in (proxy, wait):
        assert [mount["mountPath"] for mount in container["volumeMounts"]] == folders


def test_only_the_rules_have_rights() -> None:
    spec = made(template(securityContext={"runAsNonRoot": True, "runAsUser": 1000}))["spec"]
    rules, proxy, wait = (item["securityContext"] for item in spec["initContainers"])
    assert rules["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]}
    assert (rules["runAsUser"], rules["runAsNonRoot"]) == (0, False)  # overrides the pod's
    for context in (proxy, wait):
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert (context["runAsNonRoot"], context["allowPrivilegeEscalation"]) == (True, False)
        assert context["readOnlyRootFilesystem"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert proxy["runAsUser"] == ADM_USER
    assert wait["runAsUser"] not in (0, ADM_USER)


def test_a_pod_without_an_adm_whose_address_is_needed_gets_the_wait_alone() -> None:
    spec = made(template(), CALLER)["spec"]
    assert named(spec) == ["admc-wait"]
    assert spec["containers"] == [{"name": "rate"}]
    assert named(made(template(), CALM)["spec"]) == ["admc-rules", "admc-proxy"]
    assert made(template(), NOTHING) == template()


def test_another_plan_replaces_what_the_earlier_one_wrote() -> None:
    plain = template(initContainers=[{"name": "migrate"}])
    for first in (RATE, CALLER, CALM, NOTHING):
        for second in (RATE, CALLER, CALM, NOTHING):
            both, direct = made(made(plain, first), second), made(plain, second)
            assert made(both, second) == both
            if first.adm and not second.adm:  # what admc dropped stays dropped
                both["spec"]["containers"] = direct["spec"]["containers"]
                both["spec"]["initContainers"] = [
                    {"name": "migrate"} if it["name"] == "migrate" else it for it in both["spec"]["initContainers"]
                ]
            assert both == direct
    other = Installation("two", "server:1", "admc:2", "envoy:2")
    moved = injected(made(plain), RATE, other).template
    assert moved == injected(plain, RATE, other).template


@pytest.mark.parametrize(
    ("given", "drop", "add"),
    [
        ({}, ["NET_RAW"], None),
        ({"capabilities": {"drop": ["ALL"]}}, ["ALL"], None),
        ({"capabilities": {"drop": ["KILL"]}}, ["KILL", "NET_RAW"], None),
        ({"capabilities": {"drop": ["cap_net_raw"]}}, ["cap_net_raw"], None),
        ({"capabilities": {"add": ["NET_RAW"]}}, ["NET_RAW"], None),
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_RAW", "CHOWN"]}}, ["ALL"], ["CHOWN"]),
        ({"capabilities": None, "runAsUser": 5}, ["NET_RAW"], None),
    ],
)
def test_other_containers_lose_net_raw(given: dict[str, Any], drop: list[str], add: list[str] | None) -> None:
    containers = [{"name": "rate", "securityContext": given}]
    plain = template(containers=containers, initContainers=[{"name": "migrate", "securityContext": given}])
    spec = made(plain)["spec"]
    for container in (spec["containers"][0], spec["initContainers"][-1]):
        capabilities = container["securityContext"]["capabilities"]
        assert capabilities["drop"] == drop
        assert capabilities.get("add") == add
    kept = {**plain, "metadata": {"annotations": {KEEP_NET_RAW: "true"}}}
    assert made(kept)["spec"]["containers"] == containers


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"hostNetwork": True}, "ADM922"),
        ({"os": {"name": "windows"}}, "ADM922"),
        ({"nodeSelector": {"kubernetes.io/os": "windows"}}, "ADM922"),
        ({"securityContext": {"runAsUser": ADM_USER}}, "ADM924"),
        ({"containers": [{"name": "x", "securityContext": {"runAsUser": ADM_USER}}]}, "ADM924"),
        *(
            ({"containers": [{"name": "x", "ports": [{"containerPort": port}]}]}, "ADM925")
            for port in (*OWN_PORTS, STARTUP_PORT)
        ),
        ({"containers": [{"name": "admc-proxy"}]}, "ADM921"),
        ({"initContainers": [{"name": "admc-rules", "command": ["sh"]}]}, "ADM921"),
        ({"volumes": [{"name": "admc-token", "emptyDir": {}}]}, "ADM921"),
        ({"volumes": [{"name": "admc-config", "configMap": {"name": "mine"}}]}, "ADM921"),
        ({"containers": []}, "ADM920"),
        ({"containers": ["x"]}, "ADM920"),
        ({"initContainers": {}}, "ADM920"),
    ],
)
def test_what_stands_against_an_adm_is_refused(spec: dict[str, Any], code: str) -> None:
    assert refused(template(**spec)) == [code]


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"initContainers": [{"name": "admc-rules", "command": ["sh"]}]},
            "its `command` is not `python -m admc.pod rules`",
        ),
        ({"initContainers": [{"name": "admc-wait"}]}, "its `command` is not `python -m admc.pod wait`"),
        (
            {"initContainers": [{"name": "admc-proxy", "command": ["envoy"], "args": ["-c", "/x"]}]},
            "its `args` do not have `/run/admc/config/bootstrap.yaml`",
        ),
        (
            {"containers": [{"name": "admc-wait", "command": ["python", "-m", "admc.pod", "wait"]}]},
            "it is no init container",
        ),
        ({"volumes": [{"name": "admc-token", "emptyDir": {}}]}, "its source is another"),
    ],
)
def test_a_name_of_admc_is_refused_with_what_is_not_admcs(spec: dict[str, Any], why: str) -> None:
    (finding,) = injected(template(**spec), RATE, HERE).findings
    assert finding.code == "ADM921"
    assert str(finding.cause).startswith(f"{why}; ")


def test_the_user_of_a_container_goes_before_that_of_the_pod() -> None:
    own = {"name": "x", "securityContext": {"runAsUser": 1000}}
    made(template(securityContext={"runAsUser": ADM_USER}, containers=[own]))


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({"containers": [{"name": "istio-proxy"}]}, 1),
        ({"containers": [{"name": "x", "securityContext": {"capabilities": {"add": ["NET_RAW"]}}}]}, 1),
        ({"shareProcessNamespace": True}, 0),
        (
            {
                "shareProcessNamespace": True,
                "containers": [{"name": "x", "securityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}}],
            },
            1,
        ),
        ({"dnsPolicy": "Default"}, 1),
        ({"dnsPolicy": "None"}, 0),
    ],
)
def test_what_an_adm_does_not_hold_against_is_a_warning(spec: dict[str, Any], count: int) -> None:
    found = injected(template(**spec), RATE, HERE)
    assert found.template is not None
    assert [item.code for item in found.findings] == ["ADM928"] * count


def test_a_pod_on_its_nodes_network_may_wait_and_one_on_windows_does_not() -> None:
    host = template(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    assert named(made(host, CALLER)["spec"]) == ["admc-wait"]
    windows = injected(template(os={"name": "windows"}), CALLER, HERE)
    assert windows.template == template(os={"name": "windows"})
    assert [item.code for item in windows.findings] == ["ADM928"]


def test_findings_name_the_place_in_the_template_that_was_given() -> None:
    spec = made(template())["spec"]
    spec["initContainers"].append({"name": "x", "securityContext": {"runAsUser": ADM_USER}})
    (finding,) = injected(template(**spec), RATE, HERE).findings
    assert finding.where == ("spec", "initContainers", 3, "securityContext", "runAsUser")


NAMES = st.sampled_from(["name", "containers", "ports", "securityContext", "capabilities", "add", "drop", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 70_000) | st.sampled_from(["a", "NET_RAW", "9000"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON, JSON, JSON)
@examples(150)
def test_no_template_whatever_its_types_ends_in_anything_but_a_template_or_findings(
    containers: Any, ports: Any, context: Any, volumes: Any
) -> None:
    rate = {"name": "rate", "ports": ports, "securityContext": context, "livenessProbe": ports, "lifecycle": context}
    for listed in (containers, [rate], [rate, containers]):
        found = injected(template(containers=listed, volumes=volumes, securityContext=context), RATE, HERE)
        if found.template is None:
            assert found.findings
        else:
            assert made(dict(found.template)) == found.template
