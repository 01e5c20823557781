"""The endpoints document: what is in it, and when a service is left out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import dsl
from admc.compile.facts import ServiceFacts, to_json, with_facts
from admc.compile.pipeline import place_program
from admc.kubernetes.cluster.core.addresses import findings
from admc.kubernetes.cluster.records import Key, Slice
from emitters.addresses import from_json
from emitters.addresses.conflicts import check
from emitters.envoy.checks.missing_addresses import Unlisted, unlisted
from emitters.hops import hops
from tests.cluster.following import Following
from tests.cluster.objects import pod, service

if TYPE_CHECKING:
    from admc.kubernetes.cluster.core.addresses import Endpoints
    from admc.kubernetes.cluster.records import Pod, Service
    from dsl.diagnostics.diagnostic import Diagnostic

PROGRAM = """app shop
service search { http 8080  namespace shop }
service rate { http 9000  namespace shop }
service node_agent { http 9100  namespace shop  host_network }
call search -> rate
"""


class Cluster:
    """A program that follows a cluster, with its document."""

    def __init__(self, text: str = PROGRAM) -> None:
        self.program = dsl.load_text(text)
        self.following = Following(self.program)

    @property
    def endpoints(self) -> Endpoints:
        return self.following.endpoints

    @property
    def findings(self) -> tuple[Diagnostic, ...]:
        return findings(self.endpoints, self.following.selection)

    def services(self, *found: Service) -> Cluster:
        self.following.services(*found)
        return self

    def pods(self, *found: Pod) -> Cluster:
        self.following.pods(*found)
        return self

    def slices(self, *found: Slice) -> Cluster:
        self.following.slices(*found)
        return self

    def gone(self, each: Pod) -> Cluster:
        self.following.pod_gone(each.key)
        return self

    @property
    def listed(self) -> dict[str, Any]:
        content = self.endpoints.document
        addresses = from_json(content, self.program)
        assert not check(self.program, addresses, redirected=True)
        found = json.loads(content)["services"]
        assert {*found, *self.endpoints.unlisted} == set(self.program.services)
        return dict(found)


def test_nothing_is_known_without_services() -> None:
    cluster = Cluster().pods(pod("rate-1", "rate", "10.1.0.1"))
    assert cluster.listed == {}
    assert cluster.endpoints.unlisted == ("node_agent", "rate", "search")


def test_pods_ready_or_not() -> None:
    cluster = Cluster().services(service("rate", "10.96.0.1", "fd00::1"))
    cluster.pods(
        pod("a", "rate", "10.1.0.2", "fd00:1::2"),
        pod("b", "rate", "10.1.0.1", is_ready=False),
        pod("c", "rate", "10.1.0.3", is_terminating=True),
        pod("d", "rate"),
        pod("e", "rate", "10.1.0.9", is_over=True),
    )
    assert cluster.listed["rate"] == {
        "addresses": ["10.96.0.1", "fd00::1"],
        "pods": ["10.1.0.1", "10.1.0.2", "10.1.0.3", "fd00:1::2"],
        "unready": ["10.1.0.1", "10.1.0.3"],
    }


def test_a_service_without_pods_is_listed_and_an_absent_one_is_not() -> None:
    cluster = Cluster().services(service("rate", "10.96.0.1"), service("search"))
    assert cluster.listed == {"rate": {"addresses": ["10.96.0.1"], "pods": []}, "search": {"addresses": [], "pods": []}}
    cluster.following.service_gone(service("rate").key)
    assert list(cluster.listed) == ["search"]


def test_where_pods_are_not_known_connections_that_may_be_theirs_are_refused() -> None:
    """Listed without pods, `search` could call unseen: its pods run on when their Service is deleted."""
    policy = "@ingress\npolicy slow = rate_limit(requests: 5, per: 1s) on search -> rate\n"
    cluster = Cluster(PROGRAM + policy).services(service("rate", "10.96.0.1"))
    enforced = hops(cluster.program, place_program(cluster.program)[0])

    def refused() -> Unlisted:
        return unlisted(cluster.program, from_json(cluster.endpoints.document, cluster.program), enforced)

    assert refused() == Unlisted(callers=("search",))
    cluster.services(service("search", "10.96.0.2"))
    assert refused() == Unlisted()
    cluster = Cluster(PROGRAM + "policy slow = timeout(after: 1s) on search -> rate\n")
    enforced = hops(cluster.program, place_program(cluster.program)[0])
    cluster.services(service("search", "10.96.0.2"))
    assert refused() == Unlisted(destinations=("rate",))
    cluster.services(service("rate", "10.96.0.1"))
    assert refused() == Unlisted()


def test_a_name_outside_of_the_cluster_is_not_listed() -> None:
    assert Cluster().services(service("rate", external_name="db.example", selector={})).listed == {}


def test_a_service_whose_selector_is_not_used_is_not_listed() -> None:
    """Its EndpointSlices list pods that are known by no label."""
    cluster = Cluster().services(replace(service("rate", "10.96.0.1", selector={}), unusable="it has 17 labels"))
    key = Key("shop", "rate-x")
    assert cluster.slices(Slice(key, "rate", ("10.1.0.1",), ())).pods(pod("a", "rate", "10.1.0.1")).listed == {}
    assert cluster.services(service("rate", "10.96.0.1")).listed["rate"]["pods"] == ["10.1.0.1"]


def test_pods_of_another_colour_are_apart() -> None:
    rate = service("rate", "10.96.0.1")
    blue, green = ({"app": "rate", "colour": colour} for colour in ("blue", "green"))
    cluster = Cluster().services(replace(rate, receivers=blue))
    cluster.pods(
        pod("a", "rate", "10.1.0.1", labels=blue),
        pod("b", "rate", "10.1.0.2", labels=green, is_ready=False),
        pod("c", "rate", "10.1.0.3", labels=green),
    )
    pods = ["10.1.0.1", "10.1.0.2", "10.1.0.3"]
    assert cluster.listed["rate"] == {
        "addresses": ["10.96.0.1"],
        "pods": pods,
        "unready": ["10.1.0.2"],
        "apart": ["10.1.0.2", "10.1.0.3"],
    }
    cluster.services(replace(rate, receivers=green))
    assert cluster.listed["rate"]["apart"] == ["10.1.0.1"]
    # A pod that joins another colour.
    cluster.pods(pod("a", "rate", "10.1.0.1", labels=green))
    assert "apart" not in cluster.listed["rate"]
    cluster.pods(pod("a", "rate", "10.1.0.1", labels=blue))
    cluster.services(rate)
    assert "apart" not in cluster.listed["rate"]


def test_the_same_content_has_the_same_bytes() -> None:
    one, other = Cluster(), Cluster()
    pods = [pod(str(n), name, f"10.1.0.{n}") for n, name in enumerate(("rate", "search", "rate", "search"), 1)]
    services = [service("rate", "10.96.0.1"), service("search", "10.96.0.2")]
    one.services(*services).pods(*pods)
    other.pods(*reversed(pods)).services(*reversed(services))
    other.pods(pod("x", "rate", "10.1.0.77")).listed  # noqa: B018 - a document in between
    other.gone(pod("x", "rate", "10.1.0.77"))
    assert one.endpoints.document == other.endpoints.document


def test_a_change_that_says_nothing_keeps_the_document() -> None:
    cluster = Cluster().services(service("rate", "10.96.0.1")).pods(pod("a", "rate", "10.1.0.1"))
    before = cluster.endpoints.document
    cluster.pods(pod("a", "rate", "10.1.0.1", is_redirected=True))
    assert cluster.endpoints.document is before


def test_a_pod_of_two_services_takes_both_out() -> None:
    cluster = Cluster().services(service("rate"), service("search", selector={"tier": "web"}))
    cluster.pods(pod("a", "rate", "10.1.0.1"))
    both = pod("x", "rate", "10.1.0.2", labels={"app": "rate", "tier": "web"})
    assert cluster.pods(both).listed == {}
    assert list(cluster.gone(both).listed) == ["rate", "search"]


def test_a_pod_that_gets_a_second_service_takes_both_out() -> None:
    cluster = Cluster().services(service("rate"), service("search", selector={"tier": "web"}))
    cluster.pods(pod("a", "rate", "10.1.0.1"))
    assert list(cluster.listed) == ["rate", "search"]
    cluster.pods(pod("a", "rate", "10.1.0.1", labels={"app": "rate", "tier": "web"}))
    assert cluster.listed == {}
    assert cluster.findings == ()  # `admc.kubernetes.cluster.core.mismatches` has it


def test_the_hosts_network() -> None:
    cluster = Cluster().services(service("rate"), service("node-agent"))
    agents = [pod(f"agent-{n}", "node-agent", f"10.0.0.{n % 2}", host_network=True) for n in (2, 3)]
    agents += [pod("agent-4", "node-agent", "10.0.0.0", host_network=True, is_ready=False)]
    assert cluster.pods(*agents).listed["node_agent"]["pods"] == ["10.0.0.0", "10.0.0.1"]
    assert "unready" not in cluster.listed["node_agent"]  # another pod at that address is ready
    # The program does not say it of `rate`: at the node's address is more than its pod.
    surprise = pod("rate-1", "rate", "10.0.0.1", host_network=True)
    assert list(cluster.pods(surprise).listed) == ["node_agent"]
    # A plan rests on this fact now, and then on none.
    facts = to_json({"rate": ServiceFacts(host_network=True)})
    cluster.following.rest_on(with_facts(cluster.program, facts))
    document = json.loads(cluster.endpoints.document)["services"]
    assert document["rate"]["pods"] == ["10.0.0.1"]
    assert cluster.following.rest_on(with_facts(cluster.program, facts)) == frozenset()
    cluster.following.rest_on(cluster.program)
    assert list(cluster.listed) == ["node_agent"]
    knows = Cluster(PROGRAM.replace("http 9000 ", "http 9000  host_network "))
    knows.services(service("rate"), service("node-agent")).pods(*agents, surprise)
    assert knows.listed["rate"]["pods"] == ["10.0.0.1"]


def test_slices_of_a_service_without_selector() -> None:
    cluster = Cluster().services(service("rate", "10.96.0.1", selector={}), service("search"))
    made = Slice(Key("shop", "rate-x"), "rate", ("10.9.0.1", "10.9.0.2", "10.1.0.1"), ("10.9.0.2",))
    cluster.slices(made)
    cluster.pods(pod("a", "search", "10.1.0.1"))
    # A pod's own record goes before a slice that anyone may write.
    assert cluster.listed["rate"] == {
        "addresses": ["10.96.0.1"],
        "pods": ["10.9.0.1", "10.9.0.2"],
        "unready": ["10.9.0.2"],
    }
    assert cluster.listed["search"]["pods"] == ["10.1.0.1"]


def test_slices_of_a_service_with_selector_say_nothing() -> None:
    cluster = Cluster().services(service("rate"))
    made = Slice(Key("shop", "rate-x"), "rate", ("10.9.0.1",), ())
    cluster.slices(made)
    assert cluster.listed["rate"]["pods"] == []


# ---- an address that goes from one pod to another ----

OLD, NEW = pod("a", "rate", "10.1.0.1"), pod("b", "search", "10.1.0.1")


def moving() -> Cluster:
    return Cluster().services(service("rate"), service("search"))


def owner(cluster: Cluster) -> str:
    found = [name for name, entry in cluster.listed.items() if "10.1.0.1" in entry["pods"]]
    assert len(found) <= 1
    return found[0] if found else ""


def test_a_pod_that_stays_has_it_before_one_that_terminates() -> None:
    cluster = moving().pods(replace(OLD, is_terminating=True))
    assert owner(cluster) == "rate"
    assert owner(cluster.pods(NEW)) == "search"
    assert len(cluster.listed) == 2
    assert owner(cluster.gone(OLD)) == "search"


def test_the_newcomer_waits_until_the_older_record_is_corrected() -> None:
    cluster = moving().pods(OLD)
    assert owner(cluster) == "rate"
    assert owner(cluster.pods(NEW)) == "rate"
    assert owner(cluster.pods(replace(OLD, addresses=("10.1.0.2",)))) == "search"
    assert cluster.listed["rate"]["pods"] == ["10.1.0.2"]


@pytest.mark.parametrize("ending", [False, True])
def test_after_a_restart_nothing_says_whose_it_is(ending: bool) -> None:
    cluster = moving().pods(replace(OLD, is_terminating=ending), replace(NEW, is_terminating=ending))
    assert cluster.listed == {}
    (finding,) = cluster.findings
    assert finding.code == "ADM942"
    assert "`rate` and `search` have pods with the address 10.1.0.1" in finding.message
    assert owner(cluster.gone(OLD)) == "search"
    assert cluster.findings == ()


def test_two_pods_of_one_service_at_one_address() -> None:
    cluster = moving().pods(replace(OLD, is_terminating=True), pod("c", "rate", "10.1.0.1"))
    assert cluster.listed["rate"] == {"addresses": [], "pods": ["10.1.0.1"]}


# ---- pods of no service ----


def stranger(address: str, name: str = "job", **fields: bool) -> Pod:
    return pod(name, "job", address, namespace="ops", **fields)


def test_an_address_that_another_pod_has_by_now_is_not_the_services() -> None:
    """A guard would admit that pod."""
    cluster = Cluster()
    cluster.services(service("rate"))
    cluster.pods(pod("rate-1", "rate", "10.1.0.1"), pod("rate-2", "rate", "10.1.0.2"))
    cluster.pods(stranger("10.1.0.9"))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.1", "10.1.0.2"]
    cluster.pods(stranger("10.1.0.1"))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.1", "10.1.0.2"]
    cluster.pods(pod("rate-1", "rate", "10.1.0.1", is_terminating=True))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.2"]
    cluster.pods(stranger("10.1.0.2", "other", is_terminating=True))
    cluster.pods(pod("rate-2", "rate", "10.1.0.2", is_terminating=True))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.2"]
    cluster.gone(stranger("10.1.0.1")).gone(stranger("10.1.0.2", "other"))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.1", "10.1.0.2"]
    # It comes while the service's pod terminates, and no service changes.
    cluster.pods(stranger("10.1.0.2"))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.1"]


def test_pods_behind_a_service_without_a_selector_are_its_own() -> None:
    cluster = Cluster()
    cluster.services(service("rate", "10.96.0.1", selector={}))
    cluster.pods(stranger("10.1.0.1"))
    cluster.slices(Slice(Key("shop", "rate-x"), "rate", ("10.1.0.1",), ()))
    assert cluster.listed["rate"]["pods"] == ["10.1.0.1"]
