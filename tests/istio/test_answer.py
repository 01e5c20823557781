"""The answer of `admc advise`: reasons, features, calls, findings about what is in force, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from admc.base.exits import CommandError
from admc.istio.call_files import read_calls
from admc.istio.document import advice_of, json_of
from admc.istio.in_force.calls import Call
from admc.istio.wording import CallsGiven, about_calls
from admc.review.report.advice_page import advice_page
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity
from dsl.text import SourceText
from tests.cli.command import Admc
from tests.istio.in_force.meshes import (
    app,
    authorization,
    destination_rule,
    entry,
    injected,
    mesh,
    peer_authentication,
    port,
    resource,
    telemetry,
    to,
    virtual_service,
)
from tests.istio.objects import NETWORKING, Json, objects, thing

MESH: list[Json] = [*injected("shop"), *app("web", replicas=2), *app("cart")]
CART = "cart.shop.svc.cluster.local"
TIMEOUT = [{"route": [to(CART)], "timeout": "1s"}]
POOL = {"connectionPool": {"tcp": {"maxConnections": 1}}}
ROUTE = virtual_service("v", hosts=[CART], http=TIMEOUT)


@pytest.fixture
def admc(capfd: pytest.CaptureFixture[str]) -> Admc:
    return Admc(capfd)


@pytest.fixture
def advise(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command on documents, with JSON as its format."""
    monkeypatch.chdir(tmp_path)

    def run(*documents: Json, options: tuple[str, ...] = ()) -> dict[str, Any]:
        Path("mesh.yaml").write_text(objects(*documents), encoding="utf-8")
        made: dict[str, Any] = json.loads(admc("advise", "mesh.yaml", "--format", "json", *options).out)
        return made

    return run


def codes(made: dict[str, Any]) -> list[str]:
    return [item["code"] for item in made["diagnostics"]]


# ---- reasons ----


def test_reasons_are_sorted_by_what_they_keep_alone(advise: Any) -> None:
    some = authorization("some", rules=[{"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}])
    some["spec"]["selector"] = {"matchLabels": {"app": "cart"}}
    logs = telemetry("logs", accessLogging=[{}])
    made = advise(*MESH, some, logs)
    assert [(it["group"], it["reason"], it["sidecars"], it["alone"], it["layer"]) for it in made["reasons"]] == [
        ("telemetry", "Telemetry shop/logs", 3, 2, 7),
        ("routes, retries, pools, authorization", "AuthorizationPolicy shop/some", 1, 0, 4),
    ]
    assert [(it["group"], it["sidecars"], it["of_layer_7"]) for it in made["groups"]] == [
        ("routes, retries, pools, authorization", 1, 0),
        ("telemetry", 3, 3),
    ]


def test_a_resource_of_two_groups_has_the_layer_of_each(advise: Any) -> None:
    plain = app("plain", labels={"sidecar.istio.io/inject": "false"})
    policy = {**POOL, "tls": {"mode": "ISTIO_MUTUAL"}}
    made = advise(*MESH, *plain, destination_rule("d", host="plain", trafficPolicy=policy))
    assert [(it["group"], it["sidecars"], it["of_layer_7"]) for it in made["groups"]] == [
        ("routes, retries, pools, authorization", 3, 3),
        ("mTLS", 3, 0),
    ]


def test_reasons_of_a_workload_have_the_order_of_all_reasons(advise: Any) -> None:
    rules = [destination_rule(name, host=name, trafficPolicy={"tls": {"mode": "SIMPLE"}}) for name in ("web", "cart")]
    some = authorization("some", rules=[{"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}])
    some["spec"]["selector"] = {"matchLabels": {"app": "cart"}}
    made = advise(*MESH, some, telemetry("logs", accessLogging=[{}]), *rules)
    order = [it["reason"] for it in made["reasons"]]
    assert len(order) == 4
    for workload in made["workloads"]:
        own = [it["reason"] for it in workload["reasons"]]
        assert own == [name for name in order if name in own]
        assert len(own) == (4 if workload["name"] == "cart" else 3)


def test_reasons_that_many_workloads_have_in_common_are_written_once(
    advise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"app-{number}" for number in range(4)]
    rules = [destination_rule(name, host=name, trafficPolicy={"tls": {"mode": "SIMPLE"}}) for name in names]
    own = authorization("own", selector={"matchLabels": {"app": "app-0"}})
    strict = peer_authentication("strict", selector={"matchLabels": {"app": "app-1"}}, mtls={"mode": "STRICT"})
    documents = [*injected("shop"), *(it for name in names for it in app(name)), *rules, own, strict]
    whole = advise(*documents)
    assert whole["common_reasons"] is None
    monkeypatch.setattr("admc.istio.common_reasons.MOST_REPEATED", 4)
    short = advise(*documents)
    assert [len(listed) for listed in short["common_reasons"]["lists"]] == [5]
    assert [len(it["reasons"]) for it in short["workloads"]] == [1, 1, 0, 0]
    assert short == {**whole, "common_reasons": short["common_reasons"], "workloads": short["workloads"]}
    read = advice_of(json.dumps(short).encode(), Path("ADVICE.json"))
    assert json.loads(json_of(read)) == short
    assert advice_page(read) == advice_page(advice_of(json.dumps(whole).encode(), Path("ADVICE.json")))


def of_first(made: Any) -> Any:
    return made["workloads"][0]["common_reasons"]


def first_list(made: Any) -> Any:
    return made["common_reasons"]["lists"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: of_first(made).update(list=1), "`workloads[0]` refers to a list that `common_reasons` does not"),
        (lambda made: of_first(made).update(list=2**126), "`workloads[0]` refers to a list that"),
        (lambda made: of_first(made).update(list=-1), "`workloads[0].common_reasons.list` must be at least 0"),
        (lambda made: made.update(common_reasons=None), "`workloads[0]` refers to a list that `common_reasons` does"),
        (lambda made: first_list(made).append(1), "`common_reasons.lists[0]` refers to a reason that"),
        (lambda made: first_list(made).append(2**126), "`common_reasons.lists[0]` refers to a reason that"),
        (lambda made: first_list(made).append(-1), "`common_reasons.lists[0][1]` must be at least 0"),
        (lambda made: first_list(made).append(0), "`common_reasons.lists[0]` has a reason twice"),
        (lambda made: of_first(made)["without"].extend([0, 0]), "`workloads[0]` is without a common reason twice"),
        (lambda made: of_first(made)["without"].append(1), "`workloads[0]` is without a reason that its list does not"),
        (lambda made: of_first(made)["without"].append(-1), "common_reasons.without[0]` must be at least 0"),
        (lambda made: first_list(made).clear() or of_first(made)["without"].append(0), "is without a reason that its"),
    ],
)
def test_references_to_common_reasons_that_are_not_there_or_there_twice_are_refused(
    change: Callable[[Any], None], message: str, advise: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("admc.istio.common_reasons.MOST_REPEATED", 0)
    made = advise(*MESH, ROUTE)
    change(made)
    with pytest.raises(CommandError) as refused:
        advice_of(json.dumps(made).encode(), Path("ADVICE.json"))
    (finding,) = refused.value.diagnostics
    assert (refused.value.exit_code, finding.code) == (1, "ADM994")
    assert message in str(finding.cause)


def test_a_reason_has_the_line_of_what_is_in_force(advise: Any) -> None:
    plain = {"match": [{"sourceLabels": {"app": "other"}}], "route": [to(CART)], "timeout": "9s"}
    made = advise(*MESH, virtual_service("v", hosts=[CART], http=[plain, *TIMEOUT]))
    lines = Path("mesh.yaml").read_text(encoding="utf-8").splitlines()
    (reason,) = made["reasons"]
    shown = lines[reason["location"]["line"] - 1 :]
    assert next(line for line in shown if "timeout" in line).strip() == '"timeout": "1s"'


def test_what_is_not_judged_is_a_group_of_its_own(advise: Any) -> None:
    patch = {"applyTo": "CLUSTER", "patch": {"operation": "MERGE"}}
    unjudged = resource("networking.istio.io/v1alpha3", "EnvoyFilter", "f", "shop", None, {"configPatches": [patch]})
    made = advise(*MESH, unjudged)
    assert made["groups"] == [{"group": "what admc does not judge", "sidecars": 3, "of_layer_7": 3}]
    assert made["free"] == 0


def test_settings_of_the_mesh_configuration_hold_everywhere(advise: Any) -> None:
    text = "defaultTrafficPolicy: {connectionPool: {tcp: {maxConnections: 5}}}\naccessLogFile: /dev/stdout\n"
    made = advise(*MESH, thing("v1", "ConfigMap", "istio", "istio-system", data={"mesh": text}))
    assert [(it["group"], it["reason"], it["does"], it["sidecars"]) for it in made["reasons"]] == [
        ("routes, retries, pools, authorization", "ConfigMap istio-system/istio", ["connection pools"], 3),
        ("telemetry", "ConfigMap istio-system/istio", ["telemetry"], 3),
    ]


def test_pods_and_not_workloads_are_counted(advise: Any) -> None:
    made = advise(*MESH, ROUTE)
    assert (made["reasons"][0]["sidecars"], made["kept"]["sidecars"], made["free"]) == (3, 3, 0)


# ---- features ----


def unasked(made: dict[str, Any]) -> dict[str, list[int]]:
    return {it["feature"]: [it["sidecars"], it["added"], it["kept_in_all"]] for it in made["unasked"]}


def test_a_feature_costs_what_it_adds_and_with_those_before_it(advise: Any) -> None:
    own = [
        *injected("shop"),
        *app("web", replicas=2),
        *app("rpc", "shop", port(90, "grpc")),
        *app("db", "shop", port(91, "tcp")),
    ]
    policy = authorization("a", rules=[{"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}])
    policy["spec"]["selector"] = {"matchLabels": {"app": "db"}}
    assert unasked(advise(*own, policy)) == {
        "mtls": [4, 3, 4],
        "retries": [4, 3, 4],
        "balancing": [4, 3, 4],
        "metrics": [4, 3, 4],
        "normalization": [3, 3, 4],
    }
    made = advise(*own, policy, options=("--keep", "normalization"))
    assert (made["kept"]["sidecars"], made["kept"]["features"], made["free"]) == (4, ["normalization"], 0)
    assert [(it["reason"], it["alone"]) for it in made["reasons"]] == [
        ("paths normalized", 3),
        ("AuthorizationPolicy shop/a", 1),
    ]


def settings(text: str) -> list[Json]:
    return [thing("v1", "ConfigMap", "istio", "istio-system", data={"mesh": text})]


def in_network(name: str) -> Json:
    return app(f"far-{name}", "other", labels={"topology.istio.io/network": name})[0]


ENTRY = entry("e", hosts=["a.example"], ports=[{"number": 443, "name": "t", "protocol": "TLS"}])
CAPTURE = {"environmentVariables": {"ISTIO_META_DNS_CAPTURE": "true"}}
OF_CART = {"selector": {"matchLabels": {"app": "cart"}}}
EJECTING = destination_rule("d", host="cart", trafficPolicy={"outlierDetection": {"consecutive5xxErrors": 3}})


@pytest.mark.parametrize(
    ("feature", "documents", "number"),
    [
        ("registry-only", settings("outboundTrafficPolicy: {mode: REGISTRY_ONLY}"), 3),
        ("registry-only", [], 0),
        ("service-entries", [ENTRY], 3),
        ("dns", settings('defaultConfig: {proxyMetadata: {ISTIO_META_DNS_CAPTURE: "true"}}'), 3),
        ("dns", [resource("networking.istio.io/v1beta1", "ProxyConfig", "p", "shop", None, {**OF_CART, **CAPTURE})], 1),
        ("dns", [], 0),
        ("locality", [EJECTING], 3),
        ("locality", [EJECTING, *settings("localityLbSetting: {enabled: false}")], 0),
        ("locality", [], 0),
        ("networks", [in_network("a"), in_network("b")], 3),
        ("networks", [in_network("a")], 0),
        ("mtls", [], 3),
        ("mtls", settings("enableAutoMtls: false"), 0),
        ("mtls", [peer_authentication("p", mtls={"mode": "DISABLE"})], 0),
        ("retries", settings("defaultHttpRetryPolicy: {attempts: 0}"), 0),
        ("normalization", settings("pathNormalization: {normalization: NONE}"), 0),
    ],
)
def test_features(advise: Any, feature: str, documents: list[Json], number: int) -> None:
    assert unasked(advise(*MESH, *documents)).get(feature, [0])[0] == number


def test_an_unknown_feature_or_code_is_refused(advise: Any) -> None:
    made = advise(*MESH, options=("--keep", "mtsl"))
    assert (made["exit_code"], codes(made)) == (1, ["ADM801"])
    assert made["diagnostics"][0]["hint"] == "did you mean `mtls`?"
    made = advise(*MESH, options=("--fail-on", "ADM001"))
    assert (made["exit_code"], codes(made)) == (1, ["ADM801"])


# ---- findings ----


def test_fields_of_http_at_a_port_without_http(advise: Any) -> None:
    own = [*injected("shop"), *app("db", "shop", port(90, "tcp"))]
    rule = {"to": [{"operation": {"paths": ["/a"]}}]}
    for action, words in (("ALLOW", "admits nothing"), ("DENY", "holds for more than it says")):
        (finding,) = advise(*own, authorization("a", action=action, rules=[rule]))["diagnostics"]
        assert (finding["code"], finding["severity"]) == ("ADM989", "warning")
        assert f"this rule {words}" in finding["message"]
        assert finding["message"].endswith("shop/db:90")


def test_an_allow_of_everything(advise: Any) -> None:
    some = authorization("some", rules=[{"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}])
    made = advise(*MESH, authorization("all", rules=[{}]), some)
    (finding,) = made["diagnostics"]
    assert finding["code"] == "ADM990"
    assert "AuthorizationPolicy `shop/some`: it refuses nothing at 2 workloads" in finding["message"]
    assert made["free"] == 3


def times(document: Json, created: str) -> Json:
    return {**document, "metadata": {**document["metadata"], "creationTimestamp": created}}


def test_age_that_is_not_known(advise: Any) -> None:
    other = virtual_service("w", hosts=[CART], http=TIMEOUT)
    made = advise(*MESH, ROUTE, other)
    assert codes(made) == ["ADM991", "ADM992"]
    assert (
        "whether it counts, or VirtualService `shop/v` does, depends on their age" in made["diagnostics"][0]["message"]
    )
    known = times(ROUTE, "2020-01-01T00:00:00Z"), times(other, "2021-01-01T00:00:00Z")
    assert codes(advise(*MESH, *known)) == ["ADM992"]
    private = virtual_service("w", hosts=[CART], http=TIMEOUT, exportTo=["."])
    assert codes(advise(*MESH, ROUTE, private)) == ["ADM992"]  # its scope decides, and not its age
    modes = [peer_authentication(name, mtls={"mode": "STRICT"}) for name in ("a", "b")]
    assert codes(advise(*MESH, *modes)) == ["ADM991", "ADM992"]


def test_what_is_in_force_nowhere_is_a_note_and_may_fail(admc: Admc, advise: Any) -> None:
    gone = peer_authentication("p", "empty", mtls={"mode": "STRICT"})
    made = advise(*MESH, gone)
    (finding,) = made["diagnostics"]
    assert (finding["code"], finding["severity"], made["exit_code"]) == ("ADM992", "note", 0)
    assert finding["message"] == "PeerAuthentication `empty/p`: it is in force nowhere: it selects no workload"
    assert advise(*MESH, gone, options=("--fail-on", "ADM992"))["exit_code"] == 4
    assert advise(*MESH, gone, options=("--fail-on", "ADM989"))["exit_code"] == 0
    run = admc("advise", "mesh.yaml", "--fail-on", "ADM992", "--fail-on", "ADM989")
    assert (run.code, run.err) == (4, "`--fail-on`: there are findings with the code ADM992\n")


def test_an_error_goes_before_a_breach(advise: Any) -> None:
    broken = thing(NETWORKING, "VirtualService", "broken", spec={"hsts": ["a"]})
    gone = peer_authentication("p", "empty", mtls={"mode": "STRICT"})
    assert advise(*MESH, gone, broken, options=("--fail-on", "ADM992", "--keep-going"))["exit_code"] == 1


def test_notes_are_a_list_in_the_text(admc: Admc, advise: Any) -> None:
    advise(*MESH, peer_authentication("p", "empty", mtls={"mode": "STRICT"}))
    run = admc("advise", "mesh.yaml")
    assert "ADM992" not in run.err
    assert "PeerAuthentication empty/p  it selects no workload  mesh.yaml:" in run.out


@pytest.mark.parametrize("format_", ["sarif", "github", "markdown"])
def test_other_formats_have_the_findings(admc: Admc, advise: Any, format_: str) -> None:
    advise(*MESH, peer_authentication("p", "empty", mtls={"mode": "STRICT"}))
    run = admc("advise", "mesh.yaml", "--format", format_)
    assert (run.code, run.err) == (0, "")
    assert "ADM992" in run.out
    if format_ == "markdown":
        assert run.out.startswith("```text\n3 sidecars today (3 pods)")
    if format_ == "sarif":
        (result,) = json.loads(run.out)["runs"][0]["results"]
        assert result["level"] == "note"


def test_a_long_reason_has_its_place_behind_it(admc: Admc, advise: Any) -> None:
    advise(*MESH, ROUTE)
    short = admc("advise", "mesh.yaml").out
    assert (
        "REASON                          AT\n       3      3      7  VirtualService shop/v: a route  mesh.yaml:"
        in short
    )
    name = "v" * 50
    advise(*MESH, virtual_service(name, hosts=[CART], http=TIMEOUT))
    long = admc("advise", "mesh.yaml").out
    assert f"SIDECARS  ALONE  LAYER  REASON\n       3      3      7  VirtualService shop/{name}" in long
    assert "[mesh.yaml:" in long.partition("UNASKED")[0]


def test_markdown_has_the_reasons_as_a_table(admc: Admc, advise: Any) -> None:
    advise(*MESH, ROUTE)
    run = admc("advise", "mesh.yaml", "--format", "markdown")
    (row,) = [line for line in run.out.splitlines() if line.startswith("| 3")]
    assert row.startswith("| 3 | 3 | 7 | VirtualService shop/v\\: a route | `mesh.yaml:")
    assert run.out.endswith("No findings.\n")


# ---- calls ----


def series(caller: str, host: str, *values: str, namespace: str = "shop", **labels: str) -> Json:
    metric = {"source_workload": caller, "source_workload_namespace": namespace, "destination_service": host, **labels}
    return {"metric": metric, "values": [[index * 86_400, value] for index, value in enumerate(values)]}


def response(*result: Json, kind: str = "matrix") -> Json:
    return {"status": "success", "data": {"resultType": kind, "result": list(result)}}


def calls(data: object) -> tuple[Any, list[Diagnostic]]:
    findings = Diagnostics()
    text = data if isinstance(data, str) else json.dumps(data)
    return read_calls(SourceText("calls.json", text), mesh(*MESH), findings), findings.items


def test_metrics_say_which_calls_there_are_and_over_how_long() -> None:
    one, none = series("web", CART, "1", "5", "9"), series("cart", "web.shop.svc.cluster.local", "0", "0")
    measured, findings = calls(response(one, none, series("unknown", CART, "1", "2")))
    assert findings == []
    assert measured.calls.known == frozenset((Call("shop", "web", CART),))
    assert (measured.days, measured.unattributed) == (2.0, 1)


def test_a_counter_that_did_not_grow_in_the_time_is_no_call() -> None:
    still, new = series("web", CART, "7", "7", "7"), series("cart", "web.shop.svc.cluster.local", "1", "1")
    for sample in new["values"]:
        sample[0] += 86_400  # its first call was in that time
    measured, findings = calls(response(still, new))
    assert findings == []
    assert {it.host for it in measured.calls.known} == {"web.shop.svc.cluster.local"}


def test_several_answers_and_one_without_a_time() -> None:
    vector = {"metric": series("web", CART)["metric"], "value": [1_700_000_000, "3"]}
    tcp = series("cart", "db.shop.svc.cluster.local", "1", __name__="istio_tcp_connections_opened_total")
    measured, findings = calls([response(vector, kind="vector"), response(tcp)])
    assert findings == []
    assert {it.host for it in measured.calls.known} == {CART, "db.shop.svc.cluster.local"}
    assert calls(response(vector, kind="vector"))[0].days is None


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{", "it is no JSON"),
        ([1], "must be a mapping"),
        ({**response(), "status": "fine"}, "must be one of `success`"),
        ({"status": "error", "errorType": "bad_data", "error": "x"}, "Prometheus answered with an error (bad_data)"),
        ({"status": "error"}, "Prometheus answered with an error"),
        (response({"metric": series("web", CART)["metric"], "histograms": []}), "neither `value` nor `values`"),
        (response({"metric": {"source_workload": "a"}, "values": []}), "lacks the label `source_workload_namespace`"),
        (response(series("a", "b", "1", __name__="up")), "`up` is not a metric of calls"),
        (response({"metric": {}, "values": [[1, 2]]}), "must be a text"),
    ],
)
def test_calls_that_cannot_be_read(data: object, words: str) -> None:
    measured, (finding,) = calls(data)
    assert measured is None
    assert finding.code == "ADM993"
    assert words in finding.message


DB = "db.shop.svc.cluster.local"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (response(), "it has no call"),
        (response(series("web", CART, "7", "7")), "it has no call"),
        (response(series("web", CART, "NaN", "NaN")), "it has no call"),
        (response(series("unknown", CART, "1", "2")), "it has no call"),
        (response(series("web", "PassthroughCluster", "1", "2")), "it has no call"),
        (
            response(series("a", CART, "1", "2"), series("web", CART, "1", "2", namespace="b")),
            "no caller is a workload",
        ),
        (response(series("web", "a.b.svc.cluster.local", "1", "2")), "no call is to a host of this mesh"),
        ({**response(series("web", CART, "1", "2")), "warnings": ["x"]}, "may lack data"),
        ({**response(series("web", CART, "1", "2")), "isPartial": True}, "may lack data"),
    ],
)
def test_calls_that_may_lack_some_are_a_warning(data: object, words: str) -> None:
    measured, (finding,) = calls(data)
    assert measured is not None
    assert (finding.code, finding.severity) == ("ADM995", Severity.WARNING)
    assert words in finding.message


def test_one_caller_and_one_host_of_the_mesh_are_enough() -> None:
    others = series("edge", CART, "1", "2", namespace="infra"), series("web", "api.example", "1", "2")
    measured, findings = calls({**response(series("web", CART, "1", "2"), *others), "warnings": [], "infos": ["x"]})
    assert findings == []
    assert len(measured.calls.known) == 3


@pytest.mark.parametrize(
    "host", ["cart", "Cart.shop", "cart.shop.svc:80", "CART.shop.svc.cluster.local", "cart.shop.svc.cluster.local:80"]
)
def test_a_host_that_a_client_wrote_in_another_way_is_that_host(host: str) -> None:
    """Where Istio knows no host, the label has what the client sent."""
    assert calls(response(series("web", host, "1", "2")))[0].calls.known == frozenset((Call("shop", "web", CART),))


def test_a_call_is_one_of_a_host_with_a_wildcard_too() -> None:
    documents = (*MESH, entry("e", hosts=["*.example"], ports=[{"number": 80, "name": "http", "protocol": "HTTP"}]))
    findings = Diagnostics()
    text = json.dumps(response(series("web", "api.example", "1", "2")))
    measured = read_calls(SourceText("calls.json", text), mesh(*documents), findings)
    assert findings.items == []
    assert measured is not None
    assert measured.calls.known == frozenset((Call("shop", "web", "*.example"),))


def test_series_without_a_caller_or_a_host_are_counted() -> None:
    hosts = ("unknown", "PassthroughCluster", "BlackHoleCluster", "")
    unknown = [series("web", host, "1", "2") for host in hosts]
    measured, _ = calls(response(series("web", CART, "1", "2"), *unknown, series("unknown", DB, "1", "2")))
    assert (measured.unattributed, measured.hostless) == (1, 4)
    given = CallsGiven("calls.json", False, 1, 0.25, measured.unattributed, measured.hostless)
    expected = "1 call of calls.json over 6.0 hours (and 1 of callers without a name, 4 to unknown hosts)"
    assert about_calls(given) == expected


def test_a_topology_says_which_calls_there_are() -> None:
    topology = {
        "app": "shop",
        "services": [{"name": "web", "protocol": "http", "port": 80}, {"name": "cart", "protocol": "http", "port": 80}],
        "externals": [{"name": "world"}],
        "calls": [{"source": "web", "destination": "cart"}, {"source": "world", "destination": "web"}],
    }
    measured, findings = calls(topology)
    assert findings == []
    assert measured.calls.known == frozenset((Call("shop", "web", CART),))
    topology["calls"].append({"source": "web", "destination": "crt"})
    _, (finding,) = calls(topology)
    assert (finding.code, finding.hint) == ("ADM993", "did you mean `cart`?")


def test_calls_narrow_the_answer(advise: Any, admc: Admc) -> None:
    advise(*MESH, ROUTE)
    Path("calls.json").write_text(json.dumps(response(series("web", CART, "1", "2"))), encoding="utf-8")
    made = advise(*MESH, ROUTE, options=("--calls", "calls.json"))
    assert (made["kept"]["sidecars"], made["free"]) == (2, 1)
    assert made["calls"] == {
        "source": "calls.json",
        "guessed": False,
        "days": 1.0,
        "calls": 1,
        "without_caller": 0,
        "without_host": 0,
        "guesses": [],
    }
    run = admc("advise", "mesh.yaml", "--calls", "calls.json")
    assert run.out.startswith("3 sidecars today (3 pods), by namespace labels; 1 call of calls.json over 1.0 days\n")
    Path("calls.json").write_text("{}", encoding="utf-8")
    made = advise(*MESH, ROUTE, options=("--calls", "calls.json"))
    assert (made["exit_code"], codes(made)) == (1, ["ADM993"])


def test_the_answer_says_that_it_guesses(advise: Any, admc: Admc) -> None:
    web = app("web", replicas=2, containers=[{"name": "a", "env": [{"name": "CART", "value": "cart:80"}]}])
    made = advise(*injected("shop"), *web, *app("cart"), ROUTE, options=("--guess-calls",))
    assert (made["kept"]["sidecars"], made["calls"]["guessed"]) == (2, True)
    run = admc("advise", "mesh.yaml", "--guess-calls")
    said = "; 1 call, guessed from the pods' commands, arguments, environment and ConfigMaps"
    assert said in run.out.replace("\n  ", " ")
    assert "GUESSED CALL" in run.out
    made = advise(*MESH, options=("--guess-calls", "--calls", "calls.json"))
    assert (made["exit_code"], codes(made)) == (1, ["ADM801"])


# ---- prices ----


def test_sidecars_without_a_reason_have_the_price_of_their_rest(advise: Any, admc: Admc) -> None:
    some = authorization("some", rules=[{"from": [{"source": {"ipBlocks": ["10.0.0.0/8"]}}]}])
    some["spec"]["selector"] = {"matchLabels": {"app": "cart"}}
    made = advise(*MESH, some, options=("--profile", "shared_2core_envoy_1_40"))
    assert made["free"] == 2
    price = made["price"]
    assert (price["sidecars"], price["cores"], price["bytes"]) == (2, 2 * 0.001515653, 2 * 66882560)
    run = admc("advise", "mesh.yaml", "--profile", "shared_2core_envoy_1_40")
    assert "the 2 that do not take at least 0.00303 cores and 134 MB at rest, by the profile" in run.out


def test_a_figure_that_a_profile_lacks_is_not_made_up(advise: Any, admc: Admc) -> None:
    made = advise(*MESH, options=("--profile", "meshinsight"))
    assert (made["price"]["cores"], made["price"]["bytes"]) == (None, None)
    assert "has no figure of a sidecar at rest" in admc("advise", "mesh.yaml", "--profile", "meshinsight").out
    assert codes(advise(*MESH, options=("--profile", "nothing"))) == ["ADM866"]
