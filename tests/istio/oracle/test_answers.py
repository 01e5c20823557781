"""The comparison of two answers, and what Istio's configuration says of small and of random meshes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.istio.oracle import recording
from tests.istio.oracle.answers import HTTP, INBOUND, OUTBOUND, Answer, Held, Place, Rule, differences
from tests.istio.oracle.by_hand import CASES, Expected
from tests.istio.oracle.facts import UnreadableError, answer
from tests.istio.oracle.meshes import random_mesh
from tests.istio.oracle.recording import RANDOM_MESHES, Recording, StaleError

OUT = Place("shop/web", OUTBOUND, "cart.shop.svc.cluster.local", 80, HTTP)
IN = Place("shop/web", INBOUND, "", 8080, HTTP)
HELD = Held(frozenset(("VirtualService shop/a",)), ("first",), tls="auto")
GUARDED = Held(rules=frozenset((Rule("DENY", "shop/b", 0, True),)), actions=frozenset(("DENY",)), mode="STRICT")


@pytest.fixture(scope="module")
def recorded() -> Recording:
    return recording.read()


def of(out: Held | None = HELD, into: Held = GUARDED, *closed: str) -> Answer:
    places = {IN: into} if out is None else {OUT: out, IN: into}
    return Answer(places, frozenset(closed))


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (of(None), f"shop/web outbound {OUT.host}:80 http: only Istio has this place"),
        (of(replace(HELD, resources=frozenset())), "Istio has {VirtualService shop/a}, the model has {}"),
        (of(replace(HELD, routes=("first", "second"))), "routes: Istio has ('first',), the model has ('first', 's"),
        (of(replace(HELD, tls="")), "tls: Istio has auto, the model has nothing"),
        (of(HELD, replace(GUARDED, mode="DISABLE")), "mode: Istio has STRICT, the model has DISABLE"),
        (of(HELD, replace(GUARDED, rules=frozenset())), "shop/web inbound 8080 http: rules: Istio has {Rule("),
        (of(HELD, replace(GUARDED, actions=frozenset())), "actions: Istio has {DENY}, the model has {}"),
        (of(HELD, GUARDED, "shop/web"), "shop/web: unknown destinations are refused only by the model"),
    ],
)
def test_each_difference_has_a_line(model: Answer, line: str) -> None:
    (shown,) = differences(of(), model)
    assert line in shown


def test_equal_answers_have_no_difference() -> None:
    assert differences(of(), of()) == []


def test_parts_that_a_model_does_not_know_are_not_compared() -> None:
    model = of(replace(HELD, routes=()))
    assert differences(of(), model, ("resources", "tls")) == []
    assert len(differences(of(), model)) == 1


@pytest.mark.parametrize("expected", CASES, ids=lambda expected: expected.case.name)
def test_istio_holds_what_is_written_down_by_hand(expected: Expected, recorded: Recording) -> None:
    istio = answer(expected.case, recorded.proxies(expected.case.request()))
    assert differences(istio, expected.answer) == []


def test_the_recording_is_of_the_pinned_module(recorded: Recording) -> None:
    assert recorded.module == recording.module_version()


def test_a_mesh_that_was_changed_is_not_judged_by_the_recording(recorded: Recording) -> None:
    request = {**random_mesh(0).request(), "istio": ""}
    with pytest.raises(StaleError, match="run `make oracle`"):
        recorded.proxies(request)
    with pytest.raises(StaleError, match="run `make oracle`"):
        recorded.refusal({"kind": "VirtualService"})


def test_random_meshes_have_resources_in_force_and_others_that_are_not(recorded: Recording) -> None:
    in_force: Counter[str] = Counter()
    written: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for seed in range(RANDOM_MESHES):
        case = random_mesh(seed)
        istio = answer(case, recorded.proxies(case.request()))
        written.update(document["kind"] for document in case.istio)
        names = {name for held in istio.places.values() for name in held.resources}
        names |= {f"AuthorizationPolicy {rule.policy}" for held in istio.places.values() for rule in held.rules}
        in_force.update(name.split()[0] for name in names)
        values.update(f"{place.direction} {held.mode}{held.tls}" for place, held in istio.places.items())
        values.update(action for held in istio.places.values() for action in held.actions)
        values.update(["closed"] * len(istio.registry_only))
        values.update("several" for held in istio.places.values() if len(held.resources) > 1)
    for kind in ("VirtualService", "DestinationRule", "AuthorizationPolicy", "ServiceEntry"):
        assert 20 < in_force[kind] < written[kind], kind
    modes = {"inbound STRICT", "inbound PERMISSIVE", "inbound DISABLE"}
    modes |= {"outbound ", "outbound auto", "outbound istio_mutual", "outbound simple"}
    for value in (*modes, "ALLOW", "DENY", "AUDIT", "CUSTOM", "closed", "several"):
        assert values[value] >= 10, value


def test_a_configuration_that_cannot_be_placed_is_an_error() -> None:
    chain = {"listener": "10.96.9.9_80", "port": 80, "address": "10.96.9.9", "clusters": ["outbound|80||x"]}
    with pytest.raises(UnreadableError, match="has no host"):
        answer(random_mesh(0), {"shop/web": {"outbound": [chain], "clusters": {}}})
    rules = [{"action": "DENY", "fields": {"unnamed": []}}]
    with pytest.raises(UnreadableError, match="no name of a policy"):
        answer(random_mesh(0), {"shop/web": {"inbound": [{"port": 80, "rules": rules}], "clusters": {}}})
