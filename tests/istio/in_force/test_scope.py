"""What a sidecar knows by its Sidecar resource, by exportTo, and of hosts in several namespaces."""

from __future__ import annotations

import pytest

from tests.istio.in_force.meshes import (
    app,
    destination_rule,
    injected,
    lines,
    port,
    sidecar,
    to,
    unused_lines,
    virtual_service,
)
from tests.istio.objects import Json, thing

PAY, LOG = "pay.bank.svc.cluster.local", "log.ops.svc.cluster.local"
MESH = [*injected("shop", "bank", "ops"), *app("cart"), *app("pay", "bank"), *app("log", "ops")]
TIMEOUT = {"timeout": "1s"}
BALANCING = {"loadBalancer": {"simple": "RANDOM"}}


def route(host: str, space: str) -> Json:
    return virtual_service(f"v-{space}", space, hosts=[host], http=[{"route": [to(host)], **TIMEOUT}])


RESOURCES = [
    route(PAY, "bank"),
    route(LOG, "ops"),
    destination_rule("d-bank", "bank", host=PAY, trafficPolicy=BALANCING),
    destination_rule("d-ops", "ops", host=LOG, trafficPolicy=BALANCING),
]


def known(*documents: Json) -> set[str]:
    done = lines(*MESH, *RESOURCES, *documents)
    return {line.split()[2].rstrip(":") for line in done if line.startswith("cart>")}


BOTH, BANK, OPS = {"v-bank", "d-bank", "v-ops", "d-ops"}, {"v-bank", "d-bank"}, {"v-ops", "d-ops"}


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        (["*/*"], BOTH),
        (["bank/*"], BANK),
        (["./*"], set()),
        ([f"*/{PAY}"], BANK),
        (["*/*.ops.svc.cluster.local"], OPS),
        (["~/*"], set()),
        (["*/*", "~bank/*"], OPS),
        (["*/*", f"~/{PAY}"], OPS),
        (["shop/*", f"ops/{PAY}"], set()),
    ],
)
def test_hosts_that_a_sidecar_imports(hosts: list[str], names: set[str]) -> None:
    assert known(sidecar("s", egress=[{"hosts": hosts}])) == names


def egress(*hosts: str, **more: object) -> Json:
    return {"egress": [{"hosts": list(hosts)}], **more}


def test_a_selector_goes_before_the_namespace_and_that_before_the_root() -> None:
    mine = sidecar("mine", **egress("bank/*", workloadSelector={"labels": {"app": "cart"}}))
    other = sidecar("other", **egress("bank/*", workloadSelector={"labels": {"app": "x"}}))
    namespace, root = sidecar("all", **egress("ops/*")), sidecar("root", "istio-system", **egress("~/*"))
    assert known(root) == set()
    assert known(root, namespace) == OPS
    assert known(root, namespace, mine) == BANK
    assert known(root, namespace, other) == OPS
    assert unused_lines(*MESH, root, namespace, other) == {"other: NO_WORKLOAD"}


def test_of_two_the_older_one_counts() -> None:
    older = sidecar("z", **egress("bank/*"), created="2020-01-01T00:00:00Z")
    younger = sidecar("a", **egress("ops/*"), created="2021-01-01T00:00:00Z")
    assert known(older, younger) == BANK
    assert unused_lines(*MESH, older, younger) == {"a: OLDER_WINS z"}


def test_a_sidecar_of_the_root_with_a_selector_is_for_the_root_alone() -> None:
    root = sidecar("root", "istio-system", **egress("~/*", workloadSelector={"labels": {"app": "cart"}}))
    assert known(root) == BOTH
    assert unused_lines(*MESH, root) == {"root/spec/workloadSelector/labels: ROOT_SELECTOR"}


def test_settings_of_a_sidecar_keep_its_workloads() -> None:
    def kept(**spec: object) -> set[str]:
        done = lines(*MESH, sidecar("s", **spec))
        return {line.partition("=")[0] for line in done if line.endswith("not judged (7)")}

    assert kept(**egress("*/*")) == set()
    assert kept(outboundTrafficPolicy={"mode": "REGISTRY_ONLY"}, **egress("*/*")) == {"cart"}
    assert kept(egress=[{"port": {"number": 90, "protocol": "HTTP", "name": "x"}, "hosts": ["*/*"]}]) == {"cart"}
    assert kept(ingress=[{"port": {"number": 80, "protocol": "HTTP", "name": "x"}}]) == {"cart"}


def test_a_listener_for_a_port_knows_that_port_alone() -> None:
    own = {"port": {"number": 90, "protocol": "HTTP", "name": "x"}, "hosts": ["*/*"]}
    assert known(sidecar("s", egress=[own])) == set()
    assert known(sidecar("s", egress=[own, {"hosts": ["bank/*"]}])) == BANK


def test_a_service_that_is_not_exported() -> None:
    hidden = thing(
        "v1",
        "Service",
        "hidden",
        "bank",
        metadata={"annotations": {"networking.istio.io/exportTo": "."}},
        spec={"selector": {"app": "pay"}, "ports": [{"port": 80, "name": "http"}]},
    )
    host = "hidden.bank.svc.cluster.local"
    rule = destination_rule("d", "bank", host=host, trafficPolicy=BALANCING)
    assert "pay> hidden.bank:80 d: balancing (7)" in lines(*MESH, hidden, rule)
    assert not any(line.startswith("cart>") for line in lines(*MESH, hidden, rule))


def test_a_route_makes_its_destinations_known() -> None:
    narrow = sidecar("s", egress=[{"hosts": ["bank/*"]}])
    split = virtual_service("split", "bank", hosts=[PAY], http=[{"route": [to(LOG)]}])
    done = lines(*MESH, narrow, split, RESOURCES[3])
    assert "cart> log.ops:80 d-ops: balancing (7)" in done


def test_a_route_makes_a_host_of_its_own_namespace_known_though_it_is_not_exported_there() -> None:
    metadata = {"annotations": {"networking.istio.io/exportTo": "ops"}}
    spec = {"selector": {"app": "pay"}, "ports": [{"port": 80, "name": "http"}]}
    hidden = thing("v1", "Service", "hidden", "bank", metadata=metadata, spec=spec)
    host = "hidden.bank.svc.cluster.local"
    rule = destination_rule("d", "bank", host=host, trafficPolicy=BALANCING)
    leading = virtual_service("leading", "bank", hosts=[PAY], http=[{"route": [to(host)]}])
    assert not any(line.startswith("pay>") for line in lines(*MESH, hidden, rule))
    done = lines(*MESH, hidden, rule, leading)
    assert "pay> hidden.bank:80 d: balancing (7)" in done
    assert not any(line.startswith("cart> hidden") for line in done)


def test_a_route_for_another_namespace_makes_nothing_known() -> None:
    narrow = sidecar("s", egress=[{"hosts": ["bank/*"]}])

    def rules(**match: object) -> set[str]:
        http = [{"match": [{"uri": {"prefix": "/a"}}, match], "route": [to(LOG)]}, {"route": [to(PAY)]}]
        done = lines(*MESH, narrow, virtual_service("split", "bank", hosts=[PAY], http=http), RESOURCES[3])
        return {line for line in done if line.startswith("cart>") and "d-ops" in line}

    assert rules(sourceNamespace="shop") == {"cart> log.ops:80 d-ops: balancing (7)"}
    assert rules(sourceNamespace="bank") == set()


def test_a_route_to_one_port_makes_that_port_known() -> None:
    narrow = sidecar("s", egress=[{"hosts": ["bank/*"]}])
    mesh = [
        *injected("shop", "bank", "ops"),
        *app("cart"),
        *app("pay", "bank"),
        *app("log", "ops", port(80), port(90, "tcp")),
    ]

    def ports(*numbers: int | None) -> set[str]:
        routes = [to(LOG, **({} if number is None else {"port": {"number": number}})) for number in numbers]
        http = [{"route": [{**it, "weight": 50} for it in routes]}]
        done = lines(*mesh, narrow, virtual_service("split", "bank", hosts=[PAY], http=http), RESOURCES[3])
        return {line.partition(" d-ops")[0] for line in done if line.startswith("cart>") and "d-ops" in line}

    assert ports(80) == {"cart> log.ops:80"}
    assert ports(90) == {"cart> log.ops:90"}
    assert ports(90, None) == {"cart> log.ops:80", "cart> log.ops:90"}
    assert ports(7) == set()


def test_routes_of_two_resources_make_the_ports_of_both_known() -> None:
    pay = app("pay", "bank", port(80), port(81))
    mesh = [*injected("shop", "bank"), *app("cart"), *app("log", "bank"), *app("audit", "bank"), *pay]
    audit = "audit.bank.svc.cluster.local"
    narrow = sidecar("s", egress=[{"hosts": ["*/log.bank.svc.cluster.local", f"*/{audit}"]}])
    leading = [
        virtual_service(f"v-{number}", "bank", hosts=[host], http=[{"route": [to(PAY, port={"number": number})]}])
        for number, host in ((80, "log"), (81, audit))
    ]
    rule = destination_rule("d", "bank", host=PAY, trafficPolicy=BALANCING)
    done = lines(*mesh, narrow, rule, *leading)
    assert {"cart> pay.bank:80 d: balancing (7)", "cart> pay.bank:81 d: balancing (7)"} <= done
