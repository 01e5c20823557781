"""Which pods belong to which service of a program, change by change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.kubernetes.cluster.core.addresses import findings
from admc.kubernetes.cluster.records import Key, Namespace, Service, ServicePort, Slice
from tests.cluster.following import Following
from tests.cluster.objects import pod, service
from tests.properties import examples
from tests.work import function_calls

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod

PROGRAM = """app shop
service search { http 8080  namespace shop }
service mongo_rate { tcp 27017  namespace shop }
service rate { http 9000 -> 9001  namespace shop }
call search -> rate
"""


def selected(text: str = PROGRAM, **names: str) -> Following:
    return Following(dsl.load_text(text), names)


def test_the_name_of_the_service() -> None:
    keys = selected(rate="rate-v2").selection.keys
    assert keys["mongo_rate"] == Key("shop", "mongo-rate")
    assert keys["rate"] == Key("shop", "rate-v2")


def test_pods_from_the_first_record_until_they_are_gone_or_over() -> None:
    found = selected()
    assert found.services(service("rate")) == {"rate"}
    waiting = pod("rate-1", is_ready=False)
    assert found.pods(waiting) == {"rate"}
    running = replace(waiting, addresses=("10.1.0.1",), is_ready=True)
    assert found.pods(running) == {"rate"}
    ending = replace(running, is_terminating=True, is_ready=False)
    assert found.pods(ending) == {"rate"}
    assert dict(found.selection.pods("rate")) == {ending.key: ending}
    assert found.selection.services_of(ending.key) == ("rate",)
    over = replace(ending, is_over=True)
    assert found.pods(over) == {"rate"}
    assert not found.selection.pods("rate")
    assert found.selection.services_of(ending.key) == ()
    assert found.pod_gone(over.key) == frozenset()


def test_a_pod_before_its_service_and_after_it() -> None:
    found = selected()
    assert found.pods(pod("rate-1")) == frozenset()
    rate = service("rate")
    assert found.services(rate) == {"rate"}
    assert len(found.selection.pods("rate")) == 1
    other = replace(rate, selector={"app": "other"})
    assert found.services(other) == {"rate"}
    assert not found.selection.pods("rate")
    found.services(rate)
    assert found.service_gone(rate.key) == {"rate"}
    assert not found.selection.pods("rate")
    assert found.selection.service("rate") is None


def test_namespaces_are_apart() -> None:
    found = selected()
    found.services(service("rate"))
    assert found.pods(pod("rate-1", namespace="other")) == frozenset()
    assert found.services(service("rate", namespace="other")) == frozenset()
    assert not found.selection.pods("rate")


def test_all_labels_of_a_selector_count() -> None:
    found = selected()
    found.services(service("rate", selector={"app": "rate", "tier": "db"}))
    found.pods(pod("a", labels={"app": "rate"}))
    found.pods(pod("b", labels={"app": "rate", "tier": "web"}))
    found.pods(pod("c", labels={"app": "rate", "tier": "db", "more": "x"}))
    assert [key.name for key in found.selection.pods("rate")] == ["c"]
    found.services(service("search", selector={}))
    assert not found.selection.pods("search")


def test_a_pod_in_two_services() -> None:
    found = selected()
    found.services(service("rate"))
    found.services(service("search", selector={"tier": "web"}))
    both = pod("x", labels={"app": "rate", "tier": "web"})
    assert found.pods(both) == {"rate", "search"}
    assert found.selection.services_of(both.key) == ("rate", "search")
    assert found.selection.shared_with("rate") == ("search",)
    assert found.pods(pod("x", labels={"app": "rate"})) == {"rate", "search"}
    assert found.selection.shared_with("rate") == ()
    assert found.selection.services_of(both.key) == ("rate",)


def test_a_pod_that_goes_from_two_services_to_two_others() -> None:
    found = selected()
    found.services(service("rate"))
    found.services(service("search", selector={"tier": "web"}))
    found.services(service("mongo-rate", selector={"tier": "web"}))
    before = pod("x", labels={"app": "rate", "tier": "web"})
    found.pods(before)
    assert found.selection.shared_with("rate") == ("mongo_rate", "search")
    found.pods(pod("x", labels={"tier": "web"}))
    assert found.selection.shared_with("rate") == ()
    assert found.selection.shared_with("search") == ("mongo_rate",)


def test_two_names_of_one_service() -> None:
    found = selected("app shop\nservice a_b { http 80 }\nservice a-b { http 80 }\n")
    assert found.selection.shared_with("a_b") == ("a-b",)
    found.services(service("a-b", namespace="default"))
    key = pod("x", "a-b", namespace="default")
    found.pods(key)
    assert found.selection.services_of(key.key) == ("a-b", "a_b")


def test_a_named_port_must_be_the_programs_number_in_each_pod() -> None:
    found = selected()
    rate = service("rate", ports=(ServicePort(9000, "web"),))
    found.services(rate)
    found.pods(pod("a", ports={"web": 9001}))
    assert found.selection.misfit("rate") == ""
    wrong = pod("b", ports={"web": 9002})
    found.pods(wrong)
    assert (
        found.selection.misfit("rate") == "`web` is 9002 in a pod, and the target of port 9000 is 9001 in the program"
    )
    found.pods(pod("b", ports={}))
    assert found.selection.misfit("rate").startswith("no container has a port `web`")
    found.services(replace(rate, ports=(ServicePort(9000, 9001),)))
    assert found.selection.misfit("rate") == ""


def test_slices_and_namespaces() -> None:
    found = selected()
    one = Slice(Key("shop", "rate-x"), "rate", ("10.9.0.1",), ())
    assert found.slices(one) == {"rate"}
    assert found.slices(Slice(Key("shop", "other"), "other", (), ())) == frozenset()
    moved = replace(one, service="search")
    assert found.slices(moved) == {"rate", "search"}
    assert list(found.selection.slices("rate")) == []
    assert list(found.selection.slices("search").values()) == [moved]
    assert found.slice_gone(moved.key) == {"search"}
    assert not found.selection.slices("search")
    assert found.selection.within("shop") == {"rate", "search", "mongo_rate"}
    assert found.selection.within("other") == frozenset()
    found.namespace(Namespace("shop", {}))
    assert found.selection.namespace("rate") == Namespace("shop", {})


# ---- any history gives what the last state gives ----

LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
PODS = st.builds(
    lambda name, labels, address, over, ending, host: pod(
        name,
        "",
        *((f"10.1.0.{address}",) if address else ()),
        labels=labels,
        is_over=over,
        is_terminating=ending,
        host_network=host,
    ),
    st.sampled_from("pqrs"),
    LABELS,
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
SERVICES = st.builds(
    lambda name, labels: service(name, "10.96.0.1", selector=labels), st.sampled_from(["rate", "search"]), LABELS
)
GONE = st.tuples(st.sampled_from("pqrs") | st.sampled_from(["rate", "search"]))


def expected(pods: dict[Key, Pod], services: dict[Key, Service]) -> dict[str, set[str]]:
    """By the definition, without an index."""
    return {
        key.name: {
            each.key.name
            for each in pods.values()
            if not each.is_over and made.selector and made.selector.items() <= each.labels.items()
        }
        for key, made in services.items()
    }


@examples(150)
@given(history=st.lists(PODS | SERVICES | GONE, max_size=25))
def test_any_history(history: list[Pod | Service | tuple[str]]) -> None:
    found = selected()
    pods: dict[Key, Pod] = {}
    services: dict[Key, Service] = {}
    for change in history:
        key = Key("shop", change[0]) if isinstance(change, tuple) else change.key
        if isinstance(change, tuple):
            (found.service_gone if key.name in ("rate", "search") else found.pod_gone)(key)
            (services if key.name in ("rate", "search") else pods).pop(key, None)
        elif isinstance(change, Service):
            found.services(change)
            services[key] = change
        else:
            found.pods(change)
            pods[key] = change
        # The document is asked for now and then.
        if len(pods) % 2:
            assert found.endpoints.document
    for name in ("rate", "search"):
        assert {key.name for key in found.selection.pods(name)} == expected(pods, services).get(name, set())
    anew = selected()
    anew.services(*services.values())
    anew.pods(*pods.values())
    for name in ("rate", "search", "mongo_rate"):
        assert found.selection.shared_with(name) == anew.selection.shared_with(name)
        assert found.selection.surprises_by_host_network(name) == anew.selection.surprises_by_host_network(name)
    # After a restart more may be contested, and nothing else differs.
    if not findings(anew.endpoints, anew.selection):
        assert found.endpoints.document == anew.endpoints.document


# ---- cost ----


@pytest.fixture(scope="module")
def large() -> Following:
    """2,000 services with 10,000 pods, which have a label in common."""
    names = [f"s{number}" for number in range(2000)]
    found = selected("app big\n" + "".join(f"service {name} {{ http 80 }}\n" for name in names))
    for name in names:
        labels = {"app": name, "part-of": "big"}
        found.services(service(name, "10.96.0.1", namespace="default", selector=labels))
    found.pods(*(_large_pod(number, 0) for number in range(10_000)))
    return found


def _large_pod(number: int, generation: int) -> Pod:
    service = f"s{number % 2000}"
    labels = {"part-of": "big", "app": service, "pod-template-hash": "7c5ddbdf54"}
    address = f"10.{1 + generation}.{number >> 8}.{number & 255}"
    return pod(f"{service}-{number}-{generation}", service, address, namespace="default", labels=labels)


@pytest.mark.long
def test_the_work_for_a_change_is_bounded_whatever_the_number_of_pods(large: Following) -> None:
    """The next document of addresses encodes what has changed alone; it joins the texts of all services."""
    first = large.endpoints.document
    new = _large_pod(5000, 9)
    assert function_calls(lambda: large.pods(new)) < 100
    assert function_calls(lambda: large.endpoints) < 250
    large.pod_gone(new.key)
    assert large.endpoints.document == first
