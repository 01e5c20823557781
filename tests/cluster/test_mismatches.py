"""What of a cluster does not fit a program: one finding for each cause, at the service's line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dsl
from admc.kubernetes.cluster.mismatches import Mismatches
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.records import Namespace, ServicePort
from admc.kubernetes.cluster.selection import Selection
from dsl.diagnostics.diagnostic import Severity
from tests.cluster.objects import pod, service

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Service
    from dsl.diagnostics.diagnostic import Diagnostic

PROGRAM = """app shop
service search { http 8080  namespace shop }
service rate { http 9000 -> 9001  namespace shop  labels { app = "rate" } }
call search -> rate
"""
SEARCH = service("search", "10.96.0.2", ports=(ServicePort(8080, 8080),))
RATE = service("rate", "10.96.0.1", ports=(ServicePort(9000, 9001),))
SHOP = Namespace("shop", {CONTROLLER: "prod"})


def found(*services: Service, namespace: Namespace | None = SHOP, text: str = PROGRAM) -> tuple[Selection, Mismatches]:
    selection = Selection(dsl.load_text(text))
    for each in services:
        selection.service_changed(None, each)
    selection.namespace_changed(None, namespace)
    return selection, Mismatches(selection, "prod")


def only(findings: Mismatches) -> Diagnostic:
    (item,) = findings.all()
    return item


def test_all_fits() -> None:
    _, findings = found(SEARCH, RATE)
    assert findings.all() == ()


def test_a_service_that_is_absent() -> None:
    _, findings = found(SEARCH, service("rates"))
    item = only(findings)
    assert (item.code, item.severity) == ("ADM940", Severity.WARNING)
    assert item.message == "there is no Service `rate` in the namespace `shop` for `rate`"
    assert item.hint == "did you mean `rates`?"
    assert item.span is not None
    assert item.span.line == 3


def test_a_name_outside_of_the_cluster() -> None:
    _, findings = found(SEARCH, service("rate", external_name="rates.example", selector={}))
    item = only(findings)
    assert (item.code, item.severity) == ("ADM940", Severity.ERROR)
    assert 'external rate { host "rates.example" }' in str(item.hint)


def test_a_service_without_selector() -> None:
    _, findings = found(SEARCH, service("rate", "10.96.0.1", selector={}, ports=(ServicePort(9000, 5),)))
    assert (only(findings).code, only(findings).severity) == ("ADM941", Severity.WARNING)


def test_headless_and_dual_stack_are_fine() -> None:
    headless = service("rate", ports=())
    _, findings = found(service("search", "10.96.0.2", "fd00::2", ports=SEARCH.ports), headless)
    assert findings.all() == ()


@pytest.mark.parametrize(
    ("port", "cause"),
    [
        (ServicePort(9005, 9001), "its Service has no TCP port 9000; it has 9005"),
        (ServicePort(9000, 9001, protocol="UDP"), "its Service has no TCP port 9000; it has none"),
        (ServicePort(9000, 9000), "the target of port 9000 is 9000, and 9001 in the program"),
    ],
)
def test_ports(port: ServicePort, cause: str) -> None:
    _, findings = found(SEARCH, service("rate", "10.96.0.1", ports=(port,)))
    assert (only(findings).code, only(findings).severity) == ("ADM943", Severity.ERROR)
    assert only(findings).cause == cause


def test_a_named_port_of_some_pod() -> None:
    selection, findings = found(SEARCH, service("rate", "10.96.0.1", ports=(ServicePort(9000, "web"),)))
    assert findings.all() == ()
    findings.update(selection.pod_changed(None, pod("a", "rate", ports={"web": 9001})))
    assert findings.all() == ()
    wrong = pod("b", "rate", ports={"web": 9002})
    findings.update(selection.pod_changed(None, wrong))
    assert only(findings).code == "ADM943"
    assert "`web` is 9002" in str(only(findings).cause)
    findings.update(selection.pod_changed(wrong, None))
    assert findings.all() == ()


def test_a_pod_of_two_services_is_one_finding() -> None:
    selection, findings = found(service("search", selector={"tier": "web"}, ports=SEARCH.ports), RATE)
    findings.update(selection.pod_changed(None, pod("x", labels={"app": "rate", "tier": "web"})))
    item = only(findings)
    assert (item.code, item.message) == ("ADM942", "`rate` and `search` have a pod in common")
    assert [each.span.line for each in item.related] == [2]


def test_two_services_of_one_name() -> None:
    text = "app shop\nservice a_b { http 80  namespace shop }\nservice a-b { http 80  namespace shop }\n"
    _, findings = found(service("a-b", ports=(ServicePort(80, 80),)), text=text)
    assert only(findings).message == "`a-b` and `a_b` have the same Service"


def test_other_labels_than_the_selector() -> None:
    selection, findings = found(SEARCH, service("rate", "10.96.0.1", selector={"app": "r"}, ports=RATE.ports))
    assert (only(findings).code, only(findings).severity) == ("ADM941", Severity.WARNING)
    assert selection.selector("rate") == {"app": "r"}


def test_the_hosts_network() -> None:
    selection, findings = found(SEARCH, RATE)
    findings.update(selection.pod_changed(None, pod("a", "rate", "10.0.0.1", host_network=True)))
    assert (only(findings).code, only(findings).severity) == ("ADM940", Severity.WARNING)


@pytest.mark.parametrize(
    ("namespace", "cause"),
    [
        (None, "there is no such namespace"),
        (Namespace("shop", {}), "it has no label `admc.dev/controller`"),
        (Namespace("shop", {CONTROLLER: "other"}), "its label `admc.dev/controller` is `other`"),
        (Namespace("shop", {CONTROLLER: "prod"}, is_terminating=True), "it is being deleted"),
    ],
)
def test_a_namespace_that_takes_no_part(namespace: Namespace | None, cause: str) -> None:
    _, findings = found(namespace=namespace)  # its Services are absent, too: one cause, one finding
    item = only(findings)
    assert (item.code, item.severity, item.cause) == ("ADM944", Severity.ERROR, cause)


def test_a_namespace_that_loses_its_label() -> None:
    selection, findings = found(SEARCH, RATE)
    assert findings.all() == ()
    findings.update(selection.namespace_changed(SHOP, Namespace("shop", {})))
    assert only(findings).code == "ADM944"
    findings.update(selection.namespace_changed(Namespace("shop", {}), SHOP))
    assert findings.all() == ()
