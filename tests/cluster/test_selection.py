"""Which pods belong to which service of a program, change by change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.kubernetes.cluster.addresses import Endpoints
from admc.kubernetes.cluster.records import Key, Namespace, ServicePort, Slice
from admc.kubernetes.cluster.selection import Selection
from tests.cluster.objects import pod, service
from tests.properties import examples
from tests.work import function_calls

if TYPE_CHECKING:
    from admc.kubernetes.cluster.records import Pod, Service

PROGRAM = """app shop
service search { http 8080  namespace shop }
service mongo_rate { tcp 27017  namespace shop }
service rate { http 9000 -> 9001  namespace shop }
call search -> rate
"""


def selected(text: str = PROGRAM, **names: str) -> Selection:
    return Selection(dsl.load_text(text), names)


def test_the_name_of_the_service() -> None:
    keys = selected(rate="rate-v2").keys
    assert keys["mongo_rate"] == Key("shop", "mongo-rate")
    assert keys["rate"] == Key("shop", "rate-v2")


def test_pods_from_the_first_record_until_they_are_gone_or_over() -> None:
    found = selected()
    assert found.service_changed(None, service("rate")) == {"rate"}
    waiting = pod("rate-1", is_ready=False)
    assert found.pod_changed(None, waiting) == {"rate"}
    running = replace(waiting, addresses=("10.1.0.1",), is_ready=True)
    assert found.pod_changed(waiting, running) == {"rate"}
    ending = replace(running, is_terminating=True, is_ready=False)
    assert found.pod_changed(running, ending) == {"rate"}
    assert dict(found.pods("rate")) == {ending.key: ending}
    assert found.services_of(ending.key) == ("rate",)
    over = replace(ending, is_over=True)
    assert found.pod_changed(ending, over) == {"rate"}
    assert not found.pods("rate")
    assert found.services_of(ending.key) == ()
    assert found.pod_changed(over, None) == frozenset()


def test_a_pod_before_its_service_and_after_it() -> None:
    found = selected()
    assert found.pod_changed(None, pod("rate-1")) == frozenset()
    rate = service("rate")
    assert found.service_changed(None, rate) == {"rate"}
    assert len(found.pods("rate")) == 1
    other = replace(rate, selector={"app": "other"})
    assert found.service_changed(rate, other) == {"rate"}
    assert not found.pods("rate")
    found.service_changed(other, rate)
    assert found.service_changed(rate, None) == {"rate"}
    assert not found.pods("rate")
    assert found.service("rate") is None


def test_namespaces_are_apart() -> None:
    found = selected()
    found.service_changed(None, service("rate"))
    assert found.pod_changed(None, pod("rate-1", namespace="other")) == frozenset()
    assert found.service_changed(None, service("rate", namespace="other")) == frozenset()
    assert not found.pods("rate")


def test_all_labels_of_a_selector_count() -> None:
    found = selected()
    found.service_changed(None, service("rate", selector={"app": "rate", "tier": "db"}))
    found.pod_changed(None, pod("a", labels={"app": "rate"}))
    found.pod_changed(None, pod("b", labels={"app": "rate", "tier": "web"}))
    found.pod_changed(None, pod("c", labels={"app": "rate", "tier": "db", "more": "x"}))
    assert [key.name for key in found.pods("rate")] == ["c"]
    found.service_changed(None, service("search", selector={}))
    assert not found.pods("search")


def test_a_pod_in_two_services() -> None:
    found = selected()
    found.service_changed(None, service("rate"))
    found.service_changed(None, service("search", selector={"tier": "web"}))
    both = pod("x", labels={"app": "rate", "tier": "web"})
    assert found.pod_changed(None, both) == {"rate", "search"}
    assert found.services_of(both.key) == ("rate", "search")
    assert found.shared_with("rate") == ("search",)
    assert found.pod_changed(both, pod("x", labels={"app": "rate"})) == {"rate", "search"}
    assert found.shared_with("rate") == ()
    assert found.services_of(both.key) == ("rate",)


def test_a_pod_that_goes_from_two_services_to_two_others() -> None:
    found = selected()
    found.service_changed(None, service("rate"))
    found.service_changed(None, service("search", selector={"tier": "web"}))
    found.service_changed(None, service("mongo-rate", selector={"tier": "web"}))
    before = pod("x", labels={"app": "rate", "tier": "web"})
    found.pod_changed(None, before)
    assert found.shared_with("rate") == ("mongo_rate", "search")
    found.pod_changed(before, pod("x", labels={"tier": "web"}))
    assert found.shared_with("rate") == ()
    assert found.shared_with("search") == ("mongo_rate",)


def test_two_names_of_one_service() -> None:
    found = selected("app shop\nservice a_b { http 80 }\nservice a-b { http 80 }\n")
    assert found.shared_with("a_b") == ("a-b",)
    found.service_changed(None, service("a-b", namespace="default"))
    key = pod("x", "a-b", namespace="default")
    found.pod_changed(None, key)
    assert found.services_of(key.key) == ("a-b", "a_b")


def test_a_named_port_must_be_the_programs_number_in_each_pod() -> None:
    found = selected()
    rate = service("rate", ports=(ServicePort(9000, "web"),))
    found.service_changed(None, rate)
    found.pod_changed(None, pod("a", ports={"web": 9001}))
    assert found.misfit("rate") == ""
    wrong = pod("b", ports={"web": 9002})
    found.pod_changed(None, wrong)
    assert found.misfit("rate") == "`web` is 9002 in a pod, and the target of port 9000 is 9001 in the program"
    found.pod_changed(wrong, pod("b", ports={}))
    assert found.misfit("rate").startswith("no container has a port `web`")
    found.service_changed(rate, replace(rate, ports=(ServicePort(9000, 9001),)))
    assert found.misfit("rate") == ""


def test_slices_and_namespaces() -> None:
    found = selected()
    one = Slice(Key("shop", "rate-x"), "rate", ("10.9.0.1",), ())
    assert found.slice_changed(None, one) == {"rate"}
    assert found.slice_changed(None, Slice(Key("shop", "other"), "other", (), ())) == frozenset()
    moved = replace(one, service="search")
    assert found.slice_changed(one, moved) == {"rate", "search"}
    assert list(found.slices("rate")) == []
    assert list(found.slices("search").values()) == [moved]
    assert found.slice_changed(moved, None) == {"search"}
    assert not found.slices("search")
    assert found.namespace_changed(None, Namespace("shop", {})) == {"rate", "search", "mongo_rate"}
    assert found.namespace_changed(None, Namespace("other", {})) == frozenset()
    assert found.namespace("rate") == Namespace("shop", {})


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
    endpoints = Endpoints(found)
    pods: dict[Key, Pod] = {}
    services: dict[Key, Service] = {}
    for change in history:
        key = Key("shop", change[0]) if isinstance(change, tuple) else change.key
        if key.name in ("rate", "search"):
            made = None if isinstance(change, tuple) else change
            endpoints.update(found.service_changed(services.get(key), made))  # type: ignore[arg-type]
            _set(services, key, made)
        else:
            now = None if isinstance(change, tuple) else change
            endpoints.update(found.pod_changed(pods.get(key), now))  # type: ignore[arg-type]
            _set(pods, key, now)
        # The document is asked for now and then.
        if len(pods) % 2:
            endpoints.document()
    for name in ("rate", "search"):
        assert {key.name for key in found.pods(name)} == expected(pods, services).get(name, set())
    anew = selected()
    for made in services.values():
        anew.service_changed(None, made)
    for now in pods.values():
        anew.pod_changed(None, now)
    for name in ("rate", "search", "mongo_rate"):
        assert found.shared_with(name) == anew.shared_with(name)
        assert found.has_host_network(name) == anew.has_host_network(name)
    after, fresh = Endpoints(anew), endpoints
    # After a restart more may be contested, and nothing else differs.
    if not after.findings():
        assert fresh.document() == after.document()


def _set(items: dict, key: Key, value: object) -> None:  # type: ignore[type-arg]
    if value is None:
        items.pop(key, None)
    else:
        items[key] = value


# ---- cost ----


@pytest.fixture(scope="module")
def large() -> Selection:
    """2,000 services with 10,000 pods, which have a label in common."""
    names = [f"s{number}" for number in range(2000)]
    found = selected("app big\n" + "".join(f"service {name} {{ http 80 }}\n" for name in names))
    for name in names:
        labels = {"app": name, "part-of": "big"}
        found.service_changed(None, service(name, "10.96.0.1", namespace="default", selector=labels))
    for number in range(10_000):
        found.pod_changed(None, _large_pod(number, 0))
    return found


def _large_pod(number: int, generation: int) -> Pod:
    service = f"s{number % 2000}"
    labels = {"part-of": "big", "app": service, "pod-template-hash": "7c5ddbdf54"}
    address = f"10.{1 + generation}.{number >> 8}.{number & 255}"
    return pod(f"{service}-{number}-{generation}", service, address, namespace="default", labels=labels)


@pytest.mark.long
def test_the_work_for_a_change_is_bounded_whatever_the_number_of_pods(large: Selection) -> None:
    """The next document of addresses encodes what has changed alone; it joins the texts of all services."""
    endpoints = Endpoints(large)
    first = endpoints.document()
    old, new = _large_pod(5000, 0), _large_pod(5000, 9)
    changed: list[frozenset[str]] = []
    assert function_calls(lambda: changed.append(large.pod_changed(None, new))) < 50
    assert function_calls(lambda: endpoints.update(changed[0])) < 10
    assert function_calls(endpoints.document) < 250
    endpoints.update(large.pod_changed(new, None) | large.pod_changed(old, old))
    assert endpoints.document() == first
