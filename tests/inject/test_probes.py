"""Probes of redirected ports: what they become, that they come back as they were, and which are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.model import NOTHING, Installation, PodNeeds, TemplateFinding
from admc.kubernetes.inject.template import injected
from dsl.diagnostics.diagnostic import Severity
from emitters.health_probes import MAX_PROBES, parse
from emitters.interception.pod import PodCaptures
from emitters.ports import PROBE_PORT
from tests.properties import examples

HERE = Installation("one", "admc-one.default.svc:18000", "admc:1", "envoy:1")
RATE = PodNeeds("hotel/rate", PodCaptures(frozenset({8080, 9000})), waits=True)
OTHERS = PodNeeds("hotel/rate", PodCaptures(frozenset({9000, 7000}), frozenset({80})), waits=False)
SENDER = PodNeeds("hotel/rate", PodCaptures(frozenset(), frozenset({80})), waits=False)
CALLER = PodNeeds("hotel/rate", None, waits=True)
PORTS = [{"name": "web", "containerPort": 8080}, {"name": "free", "containerPort": 1234}, {"containerPort": 9000}]


def template(**probes: Any) -> dict[str, Any]:
    """NET_RAW is dropped already: that a container drops it stays, whatever the plan is."""
    context = {"capabilities": {"drop": ["ALL"]}}
    container = {"name": "rate", "ports": PORTS, "securityContext": context, **probes}
    return {"metadata": {"labels": {"app": "rate"}}, "spec": {"containers": [container]}}


def made(given: Any, needs: PodNeeds = RATE) -> dict[str, Any]:
    before = copy.deepcopy(given)
    outcome = injected(given, needs, HERE)
    assert given == before
    assert outcome.template is not None, outcome.findings
    return dict(outcome.template)


def readiness(probe: dict[str, Any], needs: PodNeeds = RATE) -> Any:
    return made(template(readinessProbe=probe), needs)["spec"]["containers"][0]["readinessProbe"]


def findings(probe: Any, **others: Any) -> tuple[TemplateFinding, ...]:
    return injected(template(readinessProbe=probe, **others), RATE, HERE).findings


HEADERS = [{"name": "Host", "value": "shop.example"}, {"name": "X-A", "value": "50%"}, {"name": "X-Empty"}]
ANSWERED = [
    ({"httpGet": {"port": 8080}}, "http/8080", None),
    ({"httpGet": {"port": "web", "path": "/"}}, "http/web", "/"),
    ({"httpGet": {"port": 8080, "path": "/healthz?x=y&z", "scheme": "HTTP"}}, "http/8080", "/healthz?x=y&z"),
    (
        {"httpGet": {"port": 8080, "path": "/a/../b/%2f..%2F;c", "httpHeaders": HEADERS}},
        "http/8080",
        "/a/../b/%2f..%2F;c",
    ),
    ({"httpGet": {"scheme": "HTTPS", "port": 9000, "path": "/x", "httpHeaders": []}}, "https/9000", "/x"),
    ({"tcpSocket": {"port": 9000}, "periodSeconds": 3, "timeoutSeconds": 2}, "tcp/9000", None),
    ({"initialDelaySeconds": 1, "tcpSocket": {"port": "web"}, "failureThreshold": 9}, "tcp/web", None),
    ({"grpc": {"port": 9000}}, "grpc/9000", None),
    ({"grpc": {"port": 9000, "service": ""}, "periodSeconds": 0}, "grpc/9000", "/"),
    ({"grpc": {"port": 9000, "service": "shop.v1/Rate"}, "successThreshold": 1}, "grpc/9000", "/shop.v1/Rate"),
]


@pytest.mark.parametrize(("probe", "kind_and_port", "rest"), ANSWERED)
@pytest.mark.parametrize("name", ["livenessProbe", "readinessProbe", "startupProbe"])
def test_a_probe_of_a_redirected_port_asks_the_adm(
    name: str, probe: dict[str, Any], kind_and_port: str, rest: str | None
) -> None:
    given = template(**{name: probe})
    new = made(given)["spec"]["containers"][0][name]
    written = parse(new["httpGet"]["path"])
    assert written is not None
    assert f"{written.kind}/{written.port}" == kind_and_port
    assert written.rest == rest
    assert new["httpGet"]["port"] == PROBE_PORT
    assert "scheme" not in new["httpGet"] or new["httpGet"]["scheme"] == "HTTP"
    asked = next(iter(probe.keys() & {"httpGet", "tcpSocket", "grpc"}))
    assert new["httpGet"].get("httpHeaders") == probe[asked].get("httpHeaders")
    assert {key: new[key] for key in new if key != "httpGet"} == {key: probe[key] for key in probe if key != asked}
    for needs in (NOTHING, CALLER, SENDER):
        assert made(made(given), needs) == made(given, needs)
        assert made(given, needs)["spec"]["containers"][0][name] == probe


def test_probes_of_one_path_with_other_times_or_headers_have_paths_of_their_own() -> None:
    probes = [
        {"httpGet": {"port": "web", "path": "/healthz"}, **times}
        for times in ({}, {"periodSeconds": 5}, {"timeoutSeconds": 2})
    ]
    probes.append({"httpGet": {"port": "web", "path": "/healthz", "httpHeaders": [{"name": "a", "value": "b"}]}})
    assert len({readiness(probe)["httpGet"]["path"] for probe in probes}) == 4
    # Defaults and what does not concern the check make no other probe.
    alike = {**probes[0], "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 5}
    assert readiness(alike)["httpGet"]["path"] == readiness(probes[0])["httpGet"]["path"]
    # The name of a port leads to another number after an edit.
    moved = template(readinessProbe=probes[0])
    moved["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 9000}]
    new = made(moved)["spec"]["containers"][0]["readinessProbe"]
    assert new["httpGet"]["path"] != readiness(probes[0])["httpGet"]["path"]


@pytest.mark.parametrize(
    "probe",
    [
        {"exec": {"command": ["true"]}},
        {"httpGet": {"port": 1234, "path": "no slash"}},
        {"httpGet": {"port": "free"}},
        {"tcpSocket": {"port": 1234}},
        {"grpc": {"port": 1234}},
        {"httpGet": {"port": 8080, "host": "127.0.0.1"}},
        {"tcpSocket": {"port": "web", "host": "db.example"}},
        {"httpGet": "x"},
        {},
        None,
        "x",
    ],
)
def test_other_probes_stay(probe: Any) -> None:
    assert made(template(readinessProbe=probe))["spec"]["containers"][0]["readinessProbe"] == probe


def test_a_probe_of_another_host_is_a_warning_only_where_it_may_mean_the_pod() -> None:
    (warning,) = findings({"httpGet": {"port": "web", "host": "127.0.0.1"}})
    assert (warning.code, warning.severity) == ("ADM928", Severity.WARNING)
    assert findings({"httpGet": {"port": 1234, "host": "127.0.0.1"}}) == ()


def of_http(**fields: Any) -> dict[str, Any]:
    return {"httpGet": {"port": 8080, **fields}}


def with_headers(*headers: Any) -> dict[str, Any]:
    return of_http(httpHeaders=list(headers))


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        # What a kubelet sends for these differs from what is written, or is no legal request.
        (of_http(path=""), "`path` is empty"),
        (of_http(path="healthz"), "does not begin with `/`"),
        (of_http(path="http://other/x"), "does not begin with `/`"),
        (of_http(path="?x"), "does not begin with `/`"),
        (of_http(path=8), "does not begin with `/`"),
        (of_http(path="//other/x"), "begin with one `/`"),
        (of_http(path="/a#b"), "fragment"),
        (of_http(path="/a b"), "legal in no URL"),
        (of_http(path="/a\r\nHost: x"), "legal in no URL"),
        (of_http(path="/a\0"), "legal in no URL"),
        (of_http(path="/ä"), "legal in no URL"),
        (of_http(path='/"x"'), "legal in no URL"),
        (of_http(path="/%zz"), "two hexadecimal digits"),
        (of_http(path="/100%"), "two hexadecimal digits"),
        (of_http(path="/a?b=%"), "two hexadecimal digits"),
        (of_http(path="/" + "a" * 1_024), "more than 1,024"),
        (of_http(host=""), "`host` is empty"),
        (of_http(path=None), "`path` is empty"),
        (of_http(scheme=""), "`scheme` is empty"),
        (of_http(scheme="https"), "scheme"),
        (of_http(scheme=1), "scheme"),
        (of_http(scheme=["HTTP"]), "scheme"),
        (of_http(scheme={}), "scheme"),
        (of_http(method="POST"), "`method`"),
        ({**of_http(), "tcpSocket": {"port": 8080}}, "more than one way"),
        ({**of_http(), "exec": {"command": ["true"]}}, "more than one way"),
        ({**of_http(), "periodSeconds": -1}, "positive"),
        ({**of_http(), "periodSeconds": 2**31}, "positive"),
        ({**of_http(), "timeoutSeconds": -1}, "between 1 and 300 s"),
        ({**of_http(), "timeoutSeconds": 301}, "between 1 and 300 s"),
        ({**of_http(), "periodSeconds": "5"}, "whole number"),
        ({**of_http(), "timeoutSeconds": True}, "whole number"),
        (of_http(httpHeaders="x"), "names and values"),
        (with_headers({"name": "a", "value": 1}), "names and values"),
        (with_headers({"value": "a"}), "names and values"),
        (with_headers({"name": "a", "value": "b", "c": "d"}), "names and values"),
        (with_headers({"name": "", "value": "b"}), "not legal in HTTP"),
        (with_headers({"name": ":path", "value": "/b"}), "not legal in HTTP"),
        (with_headers({"name": "a b", "value": "b"}), "not legal in HTTP"),
        (with_headers({"name": "a", "value": "b\r\nc: d"}), "printable ASCII"),
        (with_headers({"name": "a", "value": "b\n"}), "printable ASCII"),
        (with_headers({"name": "a", "value": " b"}), "blank at an end"),
        (with_headers({"name": "a", "value": "ä"}), "printable ASCII"),
        (with_headers({"name": "a", "value": "b" * 1_025}), "1,024"),
        (with_headers(*({"name": f"a{index}", "value": "b"} for index in range(17))), "more than 16"),
        (with_headers({"name": "Connection", "value": "x"}), "about the connection"),
        (with_headers({"name": "transfer-encoding", "value": "chunked"}), "about the connection"),
        (with_headers({"name": "Content-Length", "value": "9"}), "about the connection"),
        ({"httpGet": {"port": "nowhere"}}, "port `nowhere` is neither a number"),
        ({"httpGet": {"port": "8080"}}, "port `8080` is neither a number"),
        ({"httpGet": {}}, "is neither a number"),
        ({"tcpSocket": {"port": [8080]}}, "is neither a number"),
        ({"tcpSocket": {"port": 8080, "host": ""}}, "`host`"),
        ({"grpc": {"port": "web"}}, "port is not a number"),
        ({"grpc": {"port": 9000, "service": 1}}, "not a text"),
        ({"grpc": {"port": 9000, "service": "a b"}}, "legal in no URL"),
        ({"grpc": {"port": 9000, "service": "a?b"}}, "legal in no URL"),
        ({"grpc": {"port": 9000, "service": "a%2fb"}}, "legal in no URL"),
        # At the ADM's port, only what admc wrote.
        ({"httpGet": {"port": PROBE_PORT}}, "did not write"),
        ({"httpGet": {"port": PROBE_PORT, "path": "/probe/udp/8080/0123abcd"}}, "did not write"),
        ({"httpGet": {"port": PROBE_PORT, "path": "/probe/http/8080/0123ABCD/healthz"}}, "did not write"),
        ({"httpGet": {"port": PROBE_PORT, "path": "/probe/http/80_80/0123abcd"}}, "did not write"),
        ({"tcpSocket": {"port": PROBE_PORT}}, "did not write"),
        ({"grpc": {"port": PROBE_PORT}}, "did not write"),
    ],
)
def test_a_probe_that_the_adm_cannot_ask_exactly_is_refused(probe: dict[str, Any], words: str) -> None:
    outcome = injected(template(readinessProbe=probe), RATE, HERE)
    assert outcome.template is None
    (finding,) = outcome.findings
    assert finding.code == "ADM923"
    assert finding.severity is Severity.ERROR
    assert words in finding.message
    assert finding.where[:4] == ("spec", "containers", 0, "readinessProbe")


def test_without_an_adm_in_the_pod_any_probe_stays() -> None:
    for probe in ({"httpGet": {"port": PROBE_PORT}}, of_http(path="healthz"), {"httpGet": {"port": "nowhere"}}):
        assert readiness(probe, CALLER) == probe


@pytest.mark.parametrize("hook", ["postStart", "preStop"])
@pytest.mark.parametrize("port", [8080, "web"])
def test_a_hook_of_a_redirected_port_is_refused(hook: str, port: int | str) -> None:
    for way in ("httpGet", "tcpSocket"):
        (finding,) = findings(None, lifecycle={hook: {way: {"port": port}}})
        assert finding.code == "ADM923"
        assert finding.where == ("spec", "containers", 0, "lifecycle", hook, way, "port")
    assert findings(None, lifecycle={hook: {"httpGet": {"port": "free"}}}) == ()
    assert findings(None, lifecycle={hook: {"httpGet": {"port": port, "host": "other.example"}}}) == ()


def test_sidecars_of_the_user_too_and_each_container_has_its_own_names() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "ports": [{"name": "web", "containerPort": 9000}]}
    given = template(readinessProbe={"tcpSocket": {"port": "web"}})
    given["spec"]["initContainers"] = [{**sidecar, "startupProbe": {"tcpSocket": {"port": "web"}}}]
    spec = made(given)["spec"]
    ours, own = spec["containers"][0]["readinessProbe"], spec["initContainers"][-1]["startupProbe"]
    assert ours["httpGet"]["path"] != own["httpGet"]["path"], "the numbers differ"
    assert made(made(given), NOTHING)["spec"]["initContainers"][-1]["startupProbe"] == {"tcpSocket": {"port": "web"}}


def test_a_pod_with_too_many_different_probes_is_refused() -> None:
    containers = [{"name": f"c{index}", "livenessProbe": of_http(path=f"/{index}")} for index in range(MAX_PROBES + 1)]
    given = {"metadata": {}, "spec": {"containers": containers}}
    (finding,) = (item for item in injected(given, RATE, HERE).findings if item.severity is Severity.ERROR)
    assert finding.code == "ADM923"
    made({"metadata": {}, "spec": {"containers": containers[1:]}})


def test_what_the_api_server_fills_in_does_not_stay() -> None:
    """Defaults of an object that comes from the API."""
    for probe in ({"tcpSocket": {"port": 9000}}, {"grpc": {"port": 9000}}, of_http(scheme="HTTPS", path="/x")):
        given = made(template(readinessProbe=probe))
        stored = given["spec"]["containers"][0]["readinessProbe"]["httpGet"]
        stored["scheme"] = "HTTP"
        assert made(given, NOTHING)["spec"]["containers"][0]["readinessProbe"] == probe


TEXTS = st.sampled_from(["/", "/healthz", "/a/../b", "/%2f", "/a?b=c&d", "/~x", "/;a=b,c"])
NUMBERS = st.sampled_from([8080, 9000, 7000, 1234, "web", "free"])
TIMES = st.fixed_dictionaries(
    {},
    optional={"periodSeconds": st.integers(0, 99), "timeoutSeconds": st.integers(0, 9), "failureThreshold": st.just(7)},
)
HEADER = st.fixed_dictionaries(
    {"name": st.sampled_from(["Host", "X-A", "User-Agent"]), "value": st.sampled_from(["", "a%"])}
)
HANDLERS = st.one_of(
    st.fixed_dictionaries({"exec": st.just({"command": ["true"]})}),
    st.fixed_dictionaries({"tcpSocket": st.fixed_dictionaries({"port": NUMBERS})}),
    st.fixed_dictionaries(
        {
            "grpc": st.fixed_dictionaries(
                {"port": NUMBERS.filter(lambda port: isinstance(port, int))},
                optional={"service": st.sampled_from(["", "a.B", "a/b"])},
            )
        }
    ),
    st.fixed_dictionaries(
        {
            "httpGet": st.fixed_dictionaries(
                {"port": NUMBERS},
                optional={
                    "path": TEXTS,
                    "scheme": st.sampled_from(["HTTP", "HTTPS"]),
                    "httpHeaders": st.lists(HEADER, max_size=3),
                },
            )
        }
    ),
)
PROBES = st.builds(lambda handler, times: {**handler, **times}, HANDLERS, TIMES)
SOME = st.fixed_dictionaries({}, optional={"livenessProbe": PROBES, "readinessProbe": PROBES, "startupProbe": PROBES})
PLANS = st.sampled_from([RATE, OTHERS, SENDER, CALLER, NOTHING])


@given(SOME, PLANS, PLANS)
@examples(200)
def test_one_plan_after_another_is_the_later_one_alone(
    probes: dict[str, Any], first: PodNeeds, second: PodNeeds
) -> None:
    given = template(**probes)
    once = made(given, first)
    assert made(once, first) == once
    assert made(once, second) == made(given, second)
    assert made(once, NOTHING) == given
