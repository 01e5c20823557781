"""The spec of an `Injection`: from plans and selectors to the services of a pod, and what is read of it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.needs import Estimate, Needs, Place, injections, resources_of, united
from admc.kubernetes.inject.spec import (
    DEFAULT,
    MAX_BYTES,
    Amounts,
    Captures,
    InjectionError,
    InjectionSpec,
    Required,
    ServiceInjection,
    injection_spec,
    read_spec,
    services_of,
    to_json,
)
from tests.properties import examples

SERVER = "admc-main.admc-system.svc:18000"
PORTS = st.lists(st.integers(1, 65_535), max_size=3, unique=True).map(lambda ports: tuple(sorted(ports)))
CAPTURES = st.none() | st.builds(Captures, PORTS, PORTS)
NEEDS = st.dictionaries(
    st.builds(Place, st.sampled_from(["shop", "far"]), st.sampled_from(["a", "b", "c"])),
    st.builds(Needs, CAPTURES, st.booleans()),
)
LABELS = st.dictionaries(
    st.sampled_from(["app", "tier", "app.kubernetes.io/name"]), st.sampled_from(["", "x", "y"]), min_size=1
)
REQUIRED = st.none() | st.builds(Required, st.booleans(), CAPTURES, st.none() | LABELS)
NAMED = st.none() | st.just("a-service")
ROWS = st.builds(ServiceInjection, LABELS, st.booleans(), st.just(DEFAULT), CAPTURES, REQUIRED, NAMED)
SERVICES = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), ROWS)


def spec(services: dict[str, ServiceInjection]) -> InjectionSpec:
    return injection_spec("shop", SERVER, services)


@given(st.lists(NEEDS, max_size=4))
@examples(100)
def test_pods_get_what_each_plan_needs_and_nothing_else(plans: list[dict[Place, Needs]]) -> None:
    found = united(plans)
    assert found.keys() == {place for plan in plans for place in plan}
    for place, own in found.items():
        parts = [plan[place] for plan in plans if place in plan]
        ports = [part.captures for part in parts if part.captures is not None]
        assert own.waits == any(part.waits for part in parts)
        assert (own.captures is None) == (not ports)
        if own.captures is not None:
            assert own.captures.ingress == tuple(sorted({port for part in ports for port in part.ingress}))
            assert own.captures.egress == tuple(sorted({port for part in ports for port in part.egress}))


@given(SERVICES, st.randoms(use_true_random=False))
@examples(100)
def test_bytes_do_not_depend_on_the_order_of_services_and_labels(
    services: dict[str, ServiceInjection], random: Any
) -> None:
    def shuffled(items: dict[str, Any]) -> dict[str, Any]:
        return dict(random.sample(sorted(items.items()), len(items)))

    def again(row: ServiceInjection) -> ServiceInjection:
        required = row.required
        if required is not None and required.selector is not None:
            required = replace(required, selector=shuffled(dict(required.selector)))
        return replace(row, selector=shuffled(dict(row.selector)), required=required)

    other = {name: again(row) for name, row in shuffled(services).items()}
    assert json.dumps(to_json(spec(services))) == json.dumps(to_json(spec(other)))


@given(SERVICES, st.dictionaries(st.sampled_from(["app", "tier", "other"]), st.sampled_from(["", "x", "y"])))
@examples(200)
def test_the_index_leads_each_pod_to_the_services_that_select_it(
    services: dict[str, ServiceInjection], labels: dict[str, str]
) -> None:
    selecting = [name for name, row in sorted(services.items()) if row.selector.items() <= labels.items()]
    assert list(services_of(spec(services), labels)) == selecting


@given(SERVICES)
@examples(100)
def test_what_is_written_is_read(services: dict[str, ServiceInjection]) -> None:
    written = to_json(spec(services))
    assert read_spec(json.loads(json.dumps(written))) == spec(services)


def test_a_label_that_all_selectors_have_leads_to_no_candidates() -> None:
    rows = {f"s{number}": ServiceInjection({"app": f"s{number}", "all": "x"}, waits=True) for number in range(50)}
    assert {len(names) for names in spec(rows).index.values()} == {1}


def test_a_namespace_has_only_services_that_need_something_and_select_pods() -> None:
    needs = {
        Place("shop", "cart"): Needs(Captures((8081,), ()), waits=False),
        Place("shop", "web"): Needs(None, waits=True),
        Place("shop", "calm"): Needs(None, waits=False),
        Place("shop", "headless"): Needs(None, waits=True),
        Place("far", "calm"): Needs(None, waits=False),
    }
    selectors = {place: {"app": place.service} for place in needs if place.service != "headless"}
    found = injections("shop", SERVER, needs, selectors, {}, None)
    assert list(found) == ["shop"]
    assert list(found["shop"].services) == ["cart", "web"]
    assert to_json(found["shop"])["services"]["web"] == {
        "selector": {"app": "web"},
        "waits": True,
        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
    }


def test_a_row_has_the_name_of_its_service_where_it_is_another() -> None:
    needs = {Place("shop", name): Needs(None, waits=True) for name in ("cart", "mongo_rate")}
    selectors = {place: {"app": place.service} for place in needs}
    names = {Place("shop", "cart"): "cart", Place("shop", "mongo_rate"): "mongo-rate"}
    written = to_json(injections("shop", SERVER, needs, selectors, {}, None, {}, names)["shop"])["services"]
    assert "service" not in written["cart"]
    assert written["mongo_rate"]["service"] == "mongo-rate"


@pytest.mark.parametrize(
    ("estimate", "limits", "requests"),
    [
        (None, None, ("50m", "64Mi")),
        (Estimate(1, 1), None, ("50m", "64Mi")),
        (Estimate(120_000_001, (70 << 20) + 1), None, ("121m", "71Mi")),
        (Estimate(120_000_000, 70 << 20), Amounts("500m", "256Mi"), ("120m", "70Mi")),
        (Estimate(3_000_000_000, 3 << 30), Amounts("2", "1Gi"), ("2", "1Gi")),  # the API server refuses more
        (Estimate(3_000_000_000, 3 << 30), Amounts(memory="1Gi"), ("3000m", "1Gi")),
        (None, Amounts("20m"), ("20m", "64Mi")),
    ],
)
def test_resources(estimate: Estimate | None, limits: Amounts | None, requests: tuple[str, str]) -> None:
    found = resources_of(estimate, limits)
    assert (found.requests.cpu, found.requests.memory) == requests
    assert found.limits == limits


GOOD = to_json(spec({"cart": ServiceInjection({"app": "cart"}, waits=True, captures=Captures((8081,), (9000,)))}))


def changed(where: list[str], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(GOOD)
    inner = made
    for key in where[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    return made


@pytest.mark.parametrize(
    "made",
    [
        None,
        [],
        {},
        changed(["formatVersion"], 0),
        changed(["formatVersion"], "1"),
        changed(["formatVersion"], True),
        changed(["app"], "$(HOME)"),
        changed(["server"], "nowhere"),
        changed(["server"], "admc:0"),
        changed(["image"], "evil"),
        changed(["index"], {}),
        changed(["index"], {"app=cart": ["cart"], "app=x": ["cart"]}),
        changed(["index"], {"app=other": ["cart"]}),
        changed(["index"], {"app=cart": ["cart", "gone"]}),
        changed(["services", "cart", "selector"], {}),
        changed(["services", "cart", "selector"], {"app": "a b"}),
        changed(["services", "cart", "captures", "ingress"], [0]),
        changed(["services", "cart", "captures", "ingress"], [65_536]),
        changed(["services", "cart", "captures"], None),
        changed(["services", "cart", "waits"], ...),
        changed(["services", "cart", "command"], ["sh"]),
        changed(["services", "cart", "resources", "requests", "cpu"], "-1"),
        changed(["services", "a/b"], GOOD["services"]["cart"]),
    ],
)
def test_nonsense_is_refused(made: Any) -> None:
    with pytest.raises(InjectionError) as refused:
        read_spec(made)
    assert not refused.value.is_newer


def test_a_newer_format_is_refused_by_its_number() -> None:
    with pytest.raises(InjectionError, match="format version 2, and this admc reads 1") as refused:
        read_spec({"formatVersion": 2, "anything": "else"})
    assert refused.value.is_newer


def test_more_than_a_megabyte_is_refused() -> None:
    with pytest.raises(InjectionError, match="more than 1 MB"):
        read_spec(changed(["app"], "x" * MAX_BYTES))
