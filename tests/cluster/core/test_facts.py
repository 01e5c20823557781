"""The facts of a cluster: what pods show, when it counts, and the document."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.base.exits import CommandError
from admc.kubernetes.cluster.core.facts import HOLD_SECONDS, FactState, ShownFacts, seen
from admc.kubernetes.cluster.records import Namespace
from admc.kubernetes.inject.security import POD_SECURITY
from tests.cluster.following import Following
from tests.cluster.objects import pod, service
from tests.properties import examples

PROGRAM = "app shop\nservice rate { http 9000  namespace shop }\n"
NOTHING: ShownFacts = frozenset()
NONE = FactState({})


def untrusted(*reasons: str) -> ShownFacts:
    return frozenset(("untrusted", reason) for reason in reasons)


def services(state: FactState) -> object:
    return json.loads(state.document())["services"]


def test_what_pods_show() -> None:
    cluster = Following(dsl.load_text(PROGRAM))
    assert seen(cluster.selection, "rate") == NOTHING
    cluster.services(service("rate"))
    cluster.pods(pod("a"))
    assert seen(cluster.selection, "rate") == NOTHING
    cluster.pods(pod("b", host_network=True, hosts_no_adm="mirror pod", untrusted="container `x` has A"))
    cluster.pods(pod("c", untrusted="container `x` has A"))
    cluster.pods(pod("d", untrusted="container `x` has B", is_over=True))
    shown = {("host_network", ""), ("no_adm", "mirror pod"), ("untrusted", "container `x` has A")}
    assert seen(cluster.selection, "rate") == shown


def test_a_namespace_shows_it_without_pods() -> None:
    cluster = Following(dsl.load_text(PROGRAM))
    cluster.namespace(Namespace("shop", {POD_SECURITY: "baseline"}))
    assert seen(cluster.selection, "rate") == {("no_adm", "Pod Security `baseline`")}


def test_worse_counts_at_once() -> None:
    state = NONE.observed("rate", untrusted("b", "a"), 10.0)
    assert services(state) == {"rate": {"untrusted": "a"}}
    assert state.next_change is None
    state = state.observed("rate", frozenset({("host_network", ""), ("untrusted", "a")}), 11.0)
    assert services(state) == {"rate": {"host_network": True, "untrusted": "a"}}


def test_better_counts_after_five_minutes() -> None:
    state = NONE.observed("rate", untrusted("a"), 0.0).observed("rate", NOTHING, 10.0)
    assert state.next_change == 10.0 + HOLD_SECONDS
    assert services(state.at(10.0 + HOLD_SECONDS - 0.1)) == {"rate": {"untrusted": "a"}}
    assert services(state.at(10.0 + HOLD_SECONDS)) == {}
    # A second look without the fact does not begin anew, and one with it does.
    assert state.observed("rate", NOTHING, 200.0).next_change == state.next_change
    again = state.observed("rate", untrusted("a"), 200.0)
    assert again.next_change is None
    assert services(again.at(10_000.0)) == {"rate": {"untrusted": "a"}}


def test_a_service_without_pods_shows_nothing_better() -> None:
    """One that is scaled to zero at night would change the plan, and back as soon as it has a pod."""
    state = NONE.observed("rate", untrusted("a"), 0.0).observed("rate", NOTHING, 10.0, has_pods=False)
    assert state.next_change is None
    assert services(state.at(1e9)) == {"rate": {"untrusted": "a"}}
    # Its last pod that showed it was gone before the last one.
    half = NONE.observed("rate", untrusted("a"), 0.0).observed("rate", NOTHING, 10.0)
    assert half.observed("rate", NOTHING, 20.0, has_pods=False).at(1e9).document() == state.document()
    better = state.observed("rate", NOTHING, 2e9)
    assert better.next_change == 2e9 + HOLD_SECONDS


def test_a_reason_stays_for_as_long_as_it_is_true() -> None:
    state = NONE.observed("rate", untrusted("b"), 0.0)
    assert services(state.observed("rate", untrusted("b", "a"), 1.0)) == {"rate": {"untrusted": "b"}}
    assert services(state.observed("rate", untrusted("a"), 1.0)) == {"rate": {"untrusted": "a"}}
    # A Deployment that has no pod for a moment keeps it.
    gone = state.observed("rate", NOTHING, 1.0)
    assert services(gone.observed("rate", untrusted("b", "a"), 2.0)) == {"rate": {"untrusted": "b"}}


def test_a_restart_begins_with_what_was_in_force() -> None:
    before = NONE.observed("rate", untrusted("a"), 0.0).observed("geo", frozenset({("host_network", "")}), 0.0)
    restored = FactState.restored(before.document(), 1000.0)
    assert restored.document() == before.document()
    assert restored.next_change == 1000.0 + HOLD_SECONDS
    seen_again = restored.observed("rate", untrusted("a"), 1001.0).at(2000.0)
    assert services(seen_again) == {"rate": {"untrusted": "a"}}
    assert FactState.restored(None, 5.0) == NONE
    with pytest.raises(CommandError):
        FactState.restored(b"{}", 5.0)


def test_services_that_left_the_program() -> None:
    state = NONE.observed("rate", untrusted("a"), 0.0).observed("geo", untrusted("a"), 0.0)
    assert services(state.of({"geo": None})) == {"geo": {"untrusted": "a"}}


def test_nothing_new_is_the_same_state() -> None:
    state = NONE.observed("rate", untrusted("a"), 0.0)
    assert state.observed("rate", untrusted("a"), 1.0) is state
    assert state.at(1e9) is state


STEPS = st.lists(
    st.tuples(
        st.floats(0, 400),
        st.sampled_from(["a", "b"]),
        st.frozensets(st.sampled_from([("host_network", ""), ("untrusted", "x"), ("untrusted", "y")])),
    ),
    max_size=20,
)


@examples(150)
@given(steps=STEPS)
def test_in_force_is_what_was_shown_in_the_last_five_minutes(steps: list[tuple[float, str, ShownFacts]]) -> None:
    state, now = NONE, 0.0
    shown: dict[tuple[str, str], float] = {}
    """When a fact was true last."""
    present: dict[str, ShownFacts] = {}
    for later, name, found in steps:
        now += later
        state = state.at(now)
        shown |= {(each, field): now for each, has in present.items() for field, _ in has}
        present[name] = found
        shown |= {(name, field): now for field, _ in found}
        state = state.observed(name, found, now)
        expected = {key for key, at in shown.items() if now - at < HOLD_SECONDS}
        assert set(state.held) == expected
        for (service_name, field), held in state.held.items():
            reasons = {reason for each, reason in present.get(service_name, ()) if each == field}
            assert held.reason in reasons or not reasons
        # Replicas are no facts: the document is a function of what is held.
        assert FactState.restored(state.document(), now).document() == state.document()
