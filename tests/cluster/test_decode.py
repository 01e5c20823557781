"""Objects of the API as records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.cluster import decode
from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, ServicePort
from admc.kubernetes.inject.names import ADM_CONTAINER, KEEP_NET_RAW, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.recognised import Recognition
from emitters.health_probes import Probe, ProbeHeader
from emitters.interception.pod import PodCaptures
from tests.cluster.objects import container, pod_json
from tests.properties import examples
from tests.work import function_calls

if TYPE_CHECKING:
    from tests.cluster.api_server import ApiServer

OURS = frozenset((RULES_CONTAINER, WAIT_CONTAINER))
RULES = {"name": RULES_CONTAINER, "args": ["--service", "shop/rate", "--ingress", "9000", "--egress", "27017,8082"]}
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}


def decoded(item: dict[str, Any], ours: frozenset[str] = frozenset()) -> Pod:
    found = decode.PodDecoder(lambda _: Recognition(ours))(item)
    assert found is not None
    return found


def with_rules(state: dict[str, Any], last: dict[str, Any] | None = None) -> dict[str, Any]:
    status = {"name": RULES_CONTAINER, "state": state, "lastState": last or {}}
    other = {"name": "other", "state": ENDED}
    spec = {"initContainers": [RULES, {"name": WAIT_CONTAINER}]}
    return pod_json(spec=spec, status={"initContainerStatuses": [other, status]})


def test_a_pod() -> None:
    assert decoded(pod_json()) == Pod(
        Key("shop", "rate-1"),
        "uid-rate-1",
        {"app": "rate", "pod-template-hash": "7c5ddbdf54"},
        ("10.1.0.7", "fd00:1::7"),
        is_over=False,
        is_ready=True,
        is_terminating=False,
        host_network=False,
        account="rate",
        ports={},
        hosts_no_adm="",
        untrusted="",
        service="",
        captures=PodCaptures(),
        is_redirected=False,
        waits=False,
        created="2026-11-23T08:00:00Z",
    )


def test_a_pod_without_an_address() -> None:
    item = pod_json(status={"podIPs": None, "conditions": None, "phase": "Pending"})
    assert decoded(item).addresses == ()
    del item["status"]
    assert decoded(item).addresses == ()


@pytest.mark.parametrize(
    ("phase", "over"), [("Running", False), ("Succeeded", True), ("Failed", True), ("Unknown", False)]
)
def test_over(phase: str, over: bool) -> None:
    assert decoded(pod_json(status={"phase": phase})).is_over is over


def test_ready_and_terminating() -> None:
    item = pod_json(status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert not decoded(item).is_ready
    item["metadata"]["deletionTimestamp"] = "2026-11-23T09:00:00Z"
    assert decoded(item).is_terminating


def test_named_ports_as_kubernetes_resolves_them() -> None:
    def ports(*found: tuple[str, int, str]) -> list[dict[str, Any]]:
        return [{"name": name, "containerPort": number, "protocol": protocol} for name, number, protocol in found]

    spec = {
        "initContainers": [
            container("sidecar", restartPolicy="Always", ports=ports(("extra", 1, "TCP"), ("web", 2, "TCP"))),
            container("once", ports=ports(("never", 3, "TCP"))),
        ],
        "containers": [container("app", ports=ports(("dns", 53, "UDP"), ("web", 8080, "TCP"), ("web", 9, "TCP")))],
    }
    assert decoded(pod_json(spec=spec)).ports == {"web": 8080, "extra": 1}


def test_facts_as_injection_leaves_the_pod() -> None:
    plain = container(securityContext={"runAsUser": 1000})
    item = pod_json(spec={"containers": [plain]})
    assert decoded(item).untrusted == ""
    kept = pod_json(spec={"containers": [plain]}, annotations={KEEP_NET_RAW: "true"})
    assert decoded(kept).untrusted == "container `app` has NET_RAW"
    # Injection has been there already, and a container has it still.
    done = pod_json(spec={"containers": [plain], "initContainers": [RULES]})
    assert decoded(done, OURS).untrusted == "container `app` has NET_RAW"


def test_captures_of_the_rules_container() -> None:
    found = decoded(with_rules(ENDED), OURS)
    assert (found.service, found.captures) == ("shop/rate", PodCaptures(frozenset({9000}), frozenset({27017, 8082})))
    assert found.is_redirected
    assert found.waits


PROBE = {"httpGet": {"port": 15022, "path": "/probe/http/web/0123abcd/healthz?x", "scheme": "HTTP"}}
ADM = {"name": ADM_CONTAINER, "startupProbe": {"httpGet": {"port": 15021, "path": "/ready"}}}
WEB = [{"name": "web", "containerPort": 8080, "protocol": "TCP"}]


def with_probes(*containers: dict[str, Any], adm: dict[str, Any] | None = ADM) -> Pod:
    """The ADM need not be as injection writes it: an older release may have written it."""
    return decoded(pod_json(spec={"containers": list(containers), "initContainers": [adm] if adm else []}))


def test_probes_that_ask_the_adm() -> None:
    headers = [{"name": "Host", "value": "x"}, {"name": "X-A", "value": ""}]
    slow = {"httpGet": {**PROBE["httpGet"], "httpHeaders": headers}, "periodSeconds": 30, "timeoutSeconds": 5}
    tcp = {"httpGet": {"port": 15022, "path": "/probe/tcp/8081/0123abcd"}}
    app = container(ports=WEB, livenessProbe=PROBE, readinessProbe=slow, startupProbe={"tcpSocket": {"port": 9}})
    found = with_probes(app, container("other", readinessProbe=tcp, livenessProbe={"exec": {}}))
    path, own = "/probe/http/web/0123abcd/healthz?x", (ProbeHeader("Host", "x"), ProbeHeader("X-A", ""))
    assert found.probes == (
        Probe(path, 8080, (), 10, 1),
        Probe(path, 8080, own, 30, 5),
        Probe("/probe/tcp/8081/0123abcd", 8081, (), 10, 1),
    )
    assert found.probe_fault == ""
    again = with_probes(app, container("other", readinessProbe=tcp, livenessProbe={"exec": {}}))
    assert again.probes is found.probes, "pods of one template share them"
    assert with_probes(app, adm=None).probes == (), "without an ADM, a pod may listen there itself"


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/healthz", {}),
        ("", {}),
        ("/probe/http/nowhere/0123abcd/", {}),
        ("/probe/http/0/0123abcd/", {}),
        ("/probe/http/65536/0123abcd/", {}),
        ("/probe/http/99999999999999/0123abcd/", {}),
        ("/probe/http/-1/0123abcd/", {}),
        ("/probe/exec/8080/0123abcd/", {}),
        ("/probe/http/8080/0123abcd//evil", {}),
        ("/probe/http/8080/0123abcd/a\r\nb: c", {}),
        ("/probe/http/8080/0123abcd/" + "a" * 2_000, {}),
        ("/probe/tcp/8080/0123abcd/x", {}),
        ("/probe/http/8080/0123abcd/", {"httpHeaders": [{"name": "a", "value": "b\nc"}]}),
        ("/probe/http/8080/0123abcd/", {"httpHeaders": [{"name": "Connection", "value": "b"}]}),
        ("/probe/http/8080/0123abcd/", {"httpHeaders": [{"name": "a", "value": "b"}] * 17}),
    ],
)
def test_a_hostile_probe_is_left_out_and_is_no_malformed_pod(path: str, more: dict[str, Any]) -> None:
    found = with_probes(container(ports=WEB, livenessProbe={"httpGet": {"port": 15022, "path": path, **more}}))
    assert found.probes == ()
    assert found.probe_fault.startswith("livenessProbe: ")
    good = with_probes(
        container(ports=WEB, livenessProbe={"httpGet": {"port": 15022, "path": path, **more}}, readinessProbe=PROBE)
    )
    assert len(good.probes) == 1


def test_a_container_with_its_name_is_not_enough() -> None:
    found = decoded(with_rules(ENDED))
    assert (found.service, found.captures, found.is_redirected, found.waits) == ("", PodCaptures(), False, False)


@pytest.mark.parametrize(
    ("state", "last", "redirected"),
    [
        (ENDED, None, True),
        ({"terminated": {"exitCode": 1}}, None, False),
        ({"waiting": {"reason": "PodInitializing"}}, None, False),
        ({"running": {}}, None, False),
        ({}, None, False),
        # The pod has a new sandbox, without rules.
        ({"waiting": {"reason": "PodInitializing"}}, ENDED, False),
        ({"running": {}}, ENDED, False),
        ({"terminated": {"exitCode": 2}}, ENDED, False),
        (ENDED, {"terminated": {"exitCode": 2}}, True),
    ],
)
def test_redirected_in_its_present_sandbox(
    state: dict[str, Any], last: dict[str, Any] | None, redirected: bool
) -> None:
    assert decoded(with_rules(state, last), OURS).is_redirected is redirected


def service_json(**spec: Any) -> dict[str, Any]:
    made = {"creationTimestamp": "2026-11-23T08:00:00Z", "uid": "u"}
    return {"metadata": {"name": "rate", "namespace": "shop", **made}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [
        ({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00:96::1"]}, ("10.96.0.1", "fd00:96::1")),
        ({"clusterIP": "10.96.0.1"}, ("10.96.0.1",)),
        ({"clusterIP": "None", "clusterIPs": ["None"]}, ()),
        ({"clusterIPs": ["FD00:96:0::1", "::ffff:10.0.0.1"]}, ("fd00:96::1", "10.0.0.1")),
        ({"clusterIPs": ["010.096.000.077"]}, ("10.96.0.77",)),
    ],
)
def test_addresses_of_a_service(spec: dict[str, Any], addresses: tuple[str, ...]) -> None:
    found = decode.service(service_json(selector={"app": "rate"}, **spec))
    assert found is not None
    assert found.addresses == addresses


def test_a_service() -> None:
    ports = [
        {"port": 80, "targetPort": "web", "name": "http", "protocol": "TCP"},
        {"port": 81, "targetPort": 8081},
        {"port": 53, "protocol": "UDP"},
        {"port": 82, "targetPort": 0},
    ]
    assert decode.service(service_json(clusterIP="None", selector={"a": "b"}, ports=ports)) == Service(
        Key("shop", "rate"),
        "u",
        "2026-11-23T08:00:00Z",
        (),
        "",
        {"a": "b"},
        (ServicePort(80, "web", "http"), ServicePort(81, 8081), ServicePort(53, 53, "", "UDP"), ServicePort(82, 82)),
    )
    outside = decode.service(service_json(type="ExternalName", externalName="db.example", selector={"a": "b"}))
    assert outside is not None
    assert (outside.external_name, outside.addresses, outside.selector) == ("db.example", (), {})


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({f"k{number}": "v" for number in range(16)}, ""),
        ({f"k{number}": "v" for number in range(17)}, "it has 17 labels, and admc uses at most 16"),
        ({f"k{number}": "v" for number in range(20_000)}, "it has 20,000 labels, and admc uses at most 16"),
        ({"a" * 500: "b" * 500}, ""),
        ({"a" * 500: "b" * 501}, "its labels have 1,001 characters, and admc uses at most 1,000"),
    ],
    ids=["16", "17", "20,000", "1,000 characters", "1,001 characters"],
)
def test_a_selector_has_a_bound(selector: dict[str, str], why: str) -> None:
    record = decode.service(service_json(clusterIP="10.96.0.1", selector=selector))
    assert record is not None
    assert (record.unusable, record.selector) == (why, {} if why else selector)
    outside = decode.service(service_json(type="ExternalName", externalName="db.example", selector=selector))
    assert outside is not None
    assert outside.unusable == "", "the API server ignores it"


def test_the_pods_of_each_colour() -> None:
    selector = {"app": "rate", "colour": "blue"}
    item = service_json(clusterIP="10.96.0.1", selector=selector)
    item["metadata"]["annotations"] = {"admc.dev/pod-labels": "app=rate"}
    record = decode.service(item)
    assert record is not None
    assert (record.selector, record.receivers, record.fault) == ({"app": "rate"}, selector, "")
    item["metadata"]["annotations"] = {"admc.dev/pod-labels": "app=web"}
    record = decode.service(item)
    assert record is not None
    assert (record.selector, record.receivers) == (selector, {})
    assert record.fault == "`app=web` is not a label of the selector, as in `app=cart`"


def slice_json(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "rate-x", "namespace": "shop", "labels": {"kubernetes.io/service-name": "rate"}}
    return {"metadata": metadata, "addressType": "IPv4", **fields}


def test_a_slice() -> None:
    endpoints = [
        {"addresses": ["10.1.0.1"], "conditions": {}},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": False}},
        {"addresses": ["10.1.0.3"]},
    ]
    found = decode.endpoint_slice(slice_json(endpoints=endpoints))
    assert found is not None
    assert (found.service, found.addresses) == ("rate", ("10.1.0.1", "10.1.0.2", "10.1.0.3"))
    assert found.unready == ("10.1.0.2",)
    assert decode.endpoint_slice(slice_json(addressType="FQDN", endpoints=[{"addresses": ["db.example"]}])) is None
    assert decode.endpoint_slice({**slice_json(), "metadata": {"name": "x", "namespace": "shop"}}) is None
    empty = decode.endpoint_slice(slice_json(endpoints=None))
    assert empty is not None
    assert empty.addresses == ()


def test_addresses_that_the_api_server_takes(cluster_api: ApiServer) -> None:
    endpoints = [{"addresses": [text]} for text in ("010.001.002.003", "10.1.2.30", "10.0.0.0")]
    metadata = {"generateName": "rate-", "labels": {"kubernetes.io/service-name": "rate"}}
    made = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": [{"port": 9000}]}
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?dryRun=All"
    found = decode.endpoint_slice(cluster_api.request("POST", path, made))
    assert found is not None
    assert found.addresses == ("10.1.2.3", "10.1.2.30", "10.0.0.0")
    service = {"metadata": {"name": "zeros"}, "spec": {"clusterIP": "010.096.000.077", "ports": [{"port": 80}]}}
    stored = decode.service(cluster_api.request("POST", "/api/v1/namespaces/default/services?dryRun=All", service))
    assert stored is not None
    assert stored.addresses == ("10.96.0.77",)


def test_an_object_that_etcd_holds_may_have_too_many_labels(cluster_api: ApiServer) -> None:
    labels = {f"l{number}": "" for number in range(decode.MAX_ITEMS + 1)}
    spec = {"serviceAccountName": "default", "containers": [{"name": "x", "image": "x"}]}
    made = {"metadata": {"name": "many", "labels": labels}, "spec": spec}
    stored = cluster_api.request("POST", "/api/v1/namespaces/default/pods?dryRun=All", made)
    with pytest.raises(decode.MalformedError, match="more than 10,000 labels"):
        decoded(stored)


def test_a_namespace() -> None:
    metadata = {"name": "shop", "labels": {"a": "b"}}
    assert decode.namespace({"metadata": metadata}) == Namespace("shop", {"a": "b"})
    going = {**metadata, "deletionTimestamp": "2026-11-23T09:00:00Z"}
    assert decode.namespace({"metadata": going}) == Namespace("shop", {"a": "b"}, is_terminating=True)


def test_namespaces_that_take_no_part_whatever_their_labels() -> None:
    for name in ("kube-system", "kube-public", "kube-node-lease", "mesh"):
        record = decode.namespace({"metadata": {"name": name}}, own="mesh")
        assert record is not None
        assert record.reserved, name
    others = [decode.namespace({"metadata": {"name": name}}, own="mesh") for name in ("shop", "kube-systems", "mesh-2")]
    assert not any(record is None or record.reserved for record in others)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda item: item["metadata"].pop("uid"), "it has no `uid`"),
        (lambda item: item["metadata"].update(name=5), "5 is no name"),
        (lambda item: item["metadata"].update(labels={"a": 1}), "its labels are not texts"),
        (lambda item: item["metadata"].update(labels={str(n): "" for n in range(10_001)}), "more than 10,000 labels"),
        (lambda item: item["status"].update(podIPs=[{"ip": "10.1.0.300"}]), "does not appear to be an IP"),
        (
            lambda item: item["status"].update(podIPs=[{"ip": f"10.1.{n >> 8}.{n & 255}"} for n in range(10_001)]),
            "list",
        ),
        (lambda item: item.update(spec=None), "another type"),
        (lambda item: item["spec"].update(containers={"a": 1}), "is not a list"),
    ],
)
def test_a_malformed_pod_is_named(change: Any, said: str) -> None:
    item = pod_json()
    change(item)
    with pytest.raises(decode.MalformedError) as caught:
        decoded(item)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 800


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PLACES = ["metadata", "spec", "status", "metadata.labels", "metadata.name", "status.podIPs", "status.conditions"]
PLACES += ["spec.containers", "spec.initContainers", "spec.securityContext", "status.initContainerStatuses"]
PLACES += ["spec.os", "spec.nodeSelector", "metadata.annotations", "spec.clusterIPs", "spec.ports", "spec.selector"]


@examples(200)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_json_is_a_record_or_malformed(place: str, value: object) -> None:
    item = pod_json(spec={"initContainers": [RULES]})
    *outer, last = place.split(".")
    at = item
    for part in outer:
        at = at[part]
    at[last] = value
    for read in (
        decode.PodDecoder(lambda _: Recognition(OURS)),
        decode.service,
        decode.endpoint_slice,
        decode.namespace,
    ):
        try:
            read(item)
        except decode.MalformedError as error:
            said = str(error)
        else:
            continue
        assert "malformed" in said


def test_the_work_for_a_pod_is_bounded() -> None:
    spec = {"containers": [container(f"c{n}", env=[{"name": "A", "value": "x" * 40}] * 20) for n in range(3)]}
    item = json.loads(json.dumps(pod_json("rate-1", spec=spec)))
    decoder = decode.PodDecoder(lambda _: Recognition())
    decoder(item)
    assert function_calls(lambda: decoder(item)) < 300
