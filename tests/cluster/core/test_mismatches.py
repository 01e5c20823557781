"""What of a cluster does not fit a program: one finding for each cause, at the service's line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import dsl
from admc.kubernetes.cluster.core.mismatches import findings, labels_without_effect, renewed
from admc.kubernetes.cluster.names import CONTROLLER
from admc.kubernetes.cluster.records import Namespace, ServicePort
from dsl.diagnostics.diagnostic import Severity
from tests.cluster.following import Following
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


def followed(*services: Service, namespace: Namespace | None = SHOP, text: str = PROGRAM) -> Following:
    following = Following(dsl.load_text(text))
    following.services(*services)
    if namespace is not None:
        following.namespace(namespace)
    return following


def all_of(following: Following) -> tuple[Diagnostic, ...]:
    selection = following.selection
    return findings(selection, renewed({}, selection, selection.keys), "prod")


def only(following: Following) -> Diagnostic:
    (item,) = all_of(following)
    return item


def test_all_fits() -> None:
    following = followed(SEARCH, RATE)
    assert all_of(following) == ()


def test_a_service_that_is_absent() -> None:
    following = followed(SEARCH, service("rates"))
    item = only(following)
    assert (item.code, item.severity) == ("ADM940", Severity.WARNING)
    assert item.message == "there is no Service `rate` in the namespace `shop` for `rate`"
    assert item.hint == "did you mean `rates`?"
    assert item.span is not None
    assert item.span.line == 3


def test_a_name_outside_of_the_cluster() -> None:
    following = followed(SEARCH, service("rate", external_name="rates.example", selector={}))
    item = only(following)
    assert (item.code, item.severity) == ("ADM940", Severity.ERROR)
    assert 'external rate { host "rates.example" }' in str(item.hint)


def test_a_service_without_selector() -> None:
    following = followed(SEARCH, service("rate", "10.96.0.1", selector={}, ports=(ServicePort(9000, 5),)))
    assert (only(following).code, only(following).severity) == ("ADM941", Severity.WARNING)


def test_a_selector_that_is_not_used() -> None:
    rate = replace(service("rate", "10.96.0.1", selector={}), unusable="it has 17 labels")
    following = followed(SEARCH, rate)
    item = only(following)
    assert (item.code, item.severity) == ("ADM965", Severity.WARNING), "an error would hold back all new plans"
    assert item.message.endswith("the Service `rate` in the namespace `shop` for `rate`")
    assert str(item.cause).startswith("it has 17 labels; the Service counts as absent")
    assert item.span is not None
    assert item.span.line == 3


def test_an_annotation_that_is_not_used() -> None:
    rate = replace(service("rate", "10.96.0.1", ports=RATE.ports), fault="`app=web` is no label")
    item = only(followed(SEARCH, rate))
    assert (item.code, item.severity) == ("ADM967", Severity.WARNING)
    assert "`admc.dev/pod-labels` of the Service `rate` in the namespace `shop`" in item.message
    assert str(item.cause).startswith("`app=web` is no label; the pods that its selector selects")


def test_the_labels_of_the_program_are_compared_with_those_of_all_colours() -> None:
    colours = replace(RATE, receivers={"app": "rate", "colour": "blue"})
    assert all_of(followed(SEARCH, colours)) == ()


def test_headless_and_dual_stack_are_fine() -> None:
    headless = service("rate", ports=())
    following = followed(service("search", "10.96.0.2", "fd00::2", ports=SEARCH.ports), headless)
    assert all_of(following) == ()


@pytest.mark.parametrize(
    ("port", "cause"),
    [
        (ServicePort(9005, 9001), "its Service has no TCP port 9000; it has 9005"),
        (ServicePort(9000, 9001, protocol="UDP"), "its Service has no TCP port 9000; it has none"),
        (ServicePort(9000, 9000), "the target of port 9000 is 9000, and 9001 in the program"),
    ],
)
def test_ports(port: ServicePort, cause: str) -> None:
    following = followed(SEARCH, service("rate", "10.96.0.1", ports=(port,)))
    assert (only(following).code, only(following).severity) == ("ADM943", Severity.ERROR)
    assert only(following).cause == cause


def test_a_named_port_of_some_pod() -> None:
    following = followed(SEARCH, service("rate", "10.96.0.1", ports=(ServicePort(9000, "web"),)))
    assert all_of(following) == ()
    following.pods(pod("a", "rate", ports={"web": 9001}))
    assert all_of(following) == ()
    wrong = pod("b", "rate", ports={"web": 9002})
    following.pods(wrong)
    assert only(following).code == "ADM943"
    assert "`web` is 9002" in str(only(following).cause)
    following.pod_gone(wrong.key)
    assert all_of(following) == ()


def test_a_pod_of_two_services_is_one_finding() -> None:
    following = followed(service("search", selector={"tier": "web"}, ports=SEARCH.ports), RATE)
    following.pods(pod("x", labels={"app": "rate", "tier": "web"}))
    item = only(following)
    assert (item.code, item.message) == ("ADM942", "`rate` and `search` have a pod in common")
    assert [each.span.line for each in item.related] == [2]


def test_two_services_of_one_name() -> None:
    text = "app shop\nservice a_b { http 80  namespace shop }\nservice a-b { http 80  namespace shop }\n"
    following = followed(service("a-b", ports=(ServicePort(80, 80),)), text=text)
    assert only(following).message == "`a-b` and `a_b` have the same Service"


def test_other_labels_than_the_selector() -> None:
    following = followed(SEARCH, service("rate", "10.96.0.1", selector={"app": "r"}, ports=RATE.ports))
    assert (only(following).code, only(following).severity) == ("ADM941", Severity.WARNING)
    assert following.selection.selector("rate") == {"app": "r"}


def test_the_hosts_network() -> None:
    following = followed(SEARCH, RATE)
    following.pods(pod("a", "rate", "10.0.0.1", host_network=True))
    assert (only(following).code, only(following).severity) == ("ADM940", Severity.WARNING)


@pytest.mark.parametrize(
    ("namespace", "cause"),
    [
        (None, "there is no such namespace"),
        (Namespace("shop", {}), "it has no label `admc.dev/controller`"),
        (Namespace("shop", {CONTROLLER: "other"}), "its label `admc.dev/controller` is `other`"),
        (Namespace("shop", {CONTROLLER: "prod"}, is_terminating=True), "it is being deleted"),
        (Namespace("shop", {CONTROLLER: "prod"}, reserved="it is the server's"), "it is the server's"),
        (Namespace("shop", {}, reserved="it is the server's"), "it is the server's"),
    ],
)
def test_a_namespace_that_takes_no_part(namespace: Namespace | None, cause: str) -> None:
    following = followed(namespace=namespace)  # its Services are absent, too: one cause, one finding
    item = only(following)
    assert (item.code, item.severity, item.cause) == ("ADM944", Severity.ERROR, cause)


def test_the_hint_about_a_namespace_that_cannot_take_part_says_so() -> None:
    """Its label decides nothing, so a finding that asks for the label would lead nowhere."""
    elsewhere = "run the services in another namespace, or take them out of the program"
    assert only(followed(namespace=Namespace("shop", {}, reserved="why"))).hint == elsewhere
    labelled = only(followed(namespace=Namespace("shop", {CONTROLLER: "prod"}, reserved="why"))).hint
    assert labelled == f"{elsewhere}; and take the label off: `kubectl label namespace shop admc.dev/controller-`"


def test_a_label_without_effect_is_said_without_a_service_there() -> None:
    spaces = (
        Namespace("kube-public", {CONTROLLER: "other"}, reserved="why"),
        Namespace("kube-system", {CONTROLLER: "prod"}, reserved="why"),
        Namespace("mesh", {}, reserved="why"),
        SHOP,
    )
    (item,) = labels_without_effect(spaces, "prod")
    assert (item.code, item.severity, item.cause) == ("ADM944", Severity.WARNING, "why")
    assert item.message == "the namespace `kube-system` has the label `admc.dev/controller=prod`, and takes no part"
    assert item.hint == "take the label off: `kubectl label namespace kube-system admc.dev/controller-`"


def test_a_namespace_that_loses_its_label() -> None:
    following = followed(SEARCH, RATE)
    assert all_of(following) == ()
    following.namespace(Namespace("shop", {}))
    assert only(following).code == "ADM944"
    following.namespace(SHOP)
    assert all_of(following) == ()


def test_pods_whose_containers_of_admc_were_altered_are_one_finding() -> None:
    """However many replicas there are, and however many reasons."""
    following = followed(SEARCH, RATE)
    following.pods(*(pod(f"a-{number}", "rate", unrecognised="reason 1") for number in range(5)))
    item = only(following)
    assert (item.code, item.severity, item.cause) == ("ADM953", Severity.WARNING, "reason 1")
    assert item.span is not None
    assert item.span.line == 3
    following.pods(*(pod(f"b-{number}", "rate", unrecognised=f"reason {number}") for number in range(4)))
    assert only(following).cause == "reason 0; reason 1; and 2 more"
    for letter, count in (("a", 5), ("b", 4)):
        for number in range(count):
            following.pods(pod(f"{letter}-{number}", "rate"))
    assert all_of(following) == ()
