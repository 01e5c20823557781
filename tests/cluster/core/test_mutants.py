"""Faults that are put into the core: the walks find each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from admc.kubernetes.cluster.core import addresses, facts, followed, located, step, view
from tests.cluster.core.test_step import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = 400
Patch = tuple[object, str, Any]


def _changed(original: Callable[..., Any], **fields: object) -> Callable[..., Any]:
    """The function, whose answer has other fields."""
    return lambda *args, **named: original(*args, **named)._replace(**fields)


def an_address_stays_after_its_pod_ended() -> Patch:
    original = addresses._claims

    def claims(before: Any, selection: Any, names: Any) -> Any:
        after, _, changed = original(before, selection, names)
        return after, before.claimed, changed

    return addresses, "_claims", claims


def the_next_pod_takes_an_address_from_one_that_stays() -> Patch:
    def settled(owners: Any, selection: Any, address: str, services: Any) -> Any:
        return owners.insert(address, max(services)) if services else owners.discard(address)

    return addresses, "_settled", settled


def an_owner_without_a_name_counts_for_all() -> Patch:
    original = addresses._entry

    def entry(endpoints: Any, selection: Any, name: str) -> bytes:
        owners = dict.fromkeys(endpoints.claims, name)
        return original(addresses.replace(endpoints, owners=owners), selection, name)

    return addresses, "_entry", entry


def a_better_fact_counts_at_once() -> Patch:
    return facts, "HOLD_SECONDS", 0.0


def a_worse_fact_waits() -> Patch:
    original = facts.FactState.observed

    def observed(self: Any, name: str, seen: Any, now: float, *, has_pods: bool = True) -> Any:
        known = frozenset(fact for fact in seen if (name, fact[0]) in self.held)
        return original(self, name, known, now, has_pods=has_pods)

    return facts.FactState, "observed", observed


def a_group_is_stale() -> Patch:
    original = view._regrouped

    def regrouped(picture: Any, key: Any, pod: Any, services: Any) -> Any:
        return original(picture, key, pod, picture.selecting.get(key) or services if pod is not None else services)

    return view, "_regrouped", regrouped


def a_changed_service_is_not_looked_at() -> Patch:
    return followed, "concerned", lambda program, change: frozenset()


def the_deadline_is_forgotten() -> Patch:
    return step, "_deadline", lambda state, now: None


def a_program_that_does_not_fit_is_served() -> Patch:
    return step, "mismatches", lambda state, picture, controller: ()


def an_audited_program_is_served() -> Patch:
    return step.Candidate, "is_audit", False


def a_program_in_force_is_forgotten() -> Patch:
    return step, "_with_in_force", lambda state, in_force, picture, now: state._replace(in_force=in_force, earlier=())


def the_names_of_a_stored_plan_are_lost() -> Patch:
    original = step._restored

    def restored(state: Any, stored: Any, picture: Any, now: float) -> Any:
        programs = tuple(program._replace(names={}) for program in stored.programs)
        after = original(state, stored._replace(programs=programs), picture, now)
        return after._replace(stored=stored)

    return step, "_restored", restored


def the_facts_of_a_stored_plan_are_lost() -> Patch:
    original = step._restored

    def restored(state: Any, stored: Any, picture: Any, now: float) -> Any:
        after = original(state, stored._replace(facts=facts.FactState({})), picture, now)
        return after._replace(stored=stored)

    return step, "_restored", restored


def the_addresses_of_earlier_programs_are_missing() -> Patch:
    original = located.located
    return step, "located", lambda before, programs: original(before, programs[:1])


def clients_of_a_pod_that_left_are_not_checked() -> Patch:
    return view, "with_pod", _changed(view.with_pod, regrouped=frozenset())


def a_pod_that_ended_is_not_remembered() -> Patch:
    return view, "with_pod", _changed(view.with_pod, ended=frozenset())


def the_last_good_program_goes_with_its_object() -> Patch:
    original = step._with_servable

    def with_servable(state: Any, picture: Any, controller: str) -> Any:
        after = original(state, picture, controller)
        return after if after.candidate is not None else after._replace(servable=None)

    return step, "_with_servable", with_servable


def a_reading_is_taken_over_again_and_again() -> Patch:
    original = step._with_candidate

    def with_candidate(state: Any, served: Any, reading: Any, picture: Any, now: float) -> Any:
        return original(state._replace(reading=None), served, reading, picture, now)

    return step, "_with_candidate", with_candidate


MUTANTS = (
    an_address_stays_after_its_pod_ended,
    the_next_pod_takes_an_address_from_one_that_stays,
    an_owner_without_a_name_counts_for_all,
    a_better_fact_counts_at_once,
    a_worse_fact_waits,
    a_group_is_stale,
    a_changed_service_is_not_looked_at,
    the_deadline_is_forgotten,
    a_program_that_does_not_fit_is_served,
    an_audited_program_is_served,
    a_program_in_force_is_forgotten,
    the_names_of_a_stored_plan_are_lost,
    the_facts_of_a_stored_plan_are_lost,
    the_addresses_of_earlier_programs_are_missing,
    clients_of_a_pod_that_left_are_not_checked,
    a_pod_that_ended_is_not_remembered,
    the_last_good_program_goes_with_its_object,
    a_reading_is_taken_over_again_and_again,
)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_each_fault_is_found(mutant: Callable[[], Patch], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*mutant())
    with pytest.raises(AssertionError):  # noqa: PT012 - the first walk that finds it ends the test
        for seed in range(SEEDS):
            simulate(seed)
