"""The rules of a rollout, one by one. `simulate` searches for what they break together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admc.serve.rollout.model import StepName
from admc.serve.rollout.reducer import Client, Command, CommandName, Observation, blocking, reduce
from admc.serve.rollout.rollout_state import Chain, Holding, Label, RolloutState, begun
from tests.serve.rollout.simulate import run

BASE, MOVING, PLAIN = "base", "moving", "plain"
"""Between `moving` and the others a destination changes at both its ends; `plain` changes one end of `base`."""
SERVICES = frozenset(("web", "cart"))
ABORT, CONTINUE = Command(CommandName.ABORT), Command(CommandName.CONTINUE)


def between(old: str, new: str) -> frozenset[str]:
    return SERVICES if old != new and MOVING in (old, new) else frozenset()


def changes(old: str, new: str) -> frozenset[str]:
    return SERVICES if old != new else frozenset()


def seen(*clients: Client, ready: bool = True) -> Observation:
    return Observation(clients or (client("web"), client("cart")), () if ready else ("web",), between, changes)


def client(service: str, *, has: bool = True, refuses: bool = False, older: str = "", fresh: bool = False) -> Client:
    return Client(service, True, has, refuses, fresh, older=frozenset((older,) if older else ()))


def plan(name: str) -> Command:
    return Command(CommandName.PLAN, name)


ALL = seen()
BEHIND = seen(client("web", has=False), client("cart"))
REFUSED = seen(client("web", has=False, refuses=True), client("cart"))


def at(step: StepName | None) -> RolloutState:
    """In the move to `moving`: at a step, or at its goal where a proxy lacks that; all had what was before."""
    state = reduce(reduce(begun(BASE, b"secret"), ALL), ALL, plan(MOVING))
    state = reduce(state, ALL)
    while state.now.step is not step:
        state = reduce(state, ALL)
    return reduce(state, BEHIND)


def holders(state: RolloutState, label: Label) -> frozenset[str]:
    """The services of which some proxy may have a label."""
    return frozenset[str]().union(*(each.services for each in state.may_have if each.label == label))


def labels(state: RolloutState) -> list[StepName | None]:
    """Where a rollout goes if every proxy takes everything."""
    found = [state.now.step]
    while (state := reduce(state, ALL)).now.step is not found[-1]:
        found.append(state.now.step)
    return found


def test_a_move_takes_each_step_and_ends_at_the_plan() -> None:
    state = reduce(begun(BASE, b"secret"), ALL, plan(MOVING))
    assert labels(reduce(state, ALL)) == [*StepName, None]


def test_a_plan_that_moves_nothing_is_published_at_once() -> None:
    state = reduce(reduce(begun(BASE, b"secret"), BEHIND, plan(PLAIN)), BEHIND)
    assert state.now == Label(PLAIN)


def test_a_move_begins_once_proxies_have_the_present_plan() -> None:
    state = reduce(begun(BASE, b"secret"), BEHIND, plan(MOVING))
    assert reduce(state, BEHIND).now == Label(BASE)
    assert reduce(state, ALL).now == Label(BASE, MOVING, StepName.PREPARE, 1)


def test_a_plan_waits_for_proxies_that_may_have_one_against_which_it_moves() -> None:
    state = at(None)
    assert blocking(state, BEHIND, BASE) == {"web"}
    state = reduce(state, BEHIND, plan(BASE))
    assert reduce(state, BEHIND).now == Label(MOVING)
    assert reduce(state, ALL).now.step is StepName.PREPARE


@pytest.mark.parametrize("step", StepName)
def test_no_step_goes_on_without_a_proxy(step: StepName) -> None:
    assert reduce(at(step), BEHIND).now.step is step


@pytest.mark.parametrize("step", StepName)
def test_a_step_that_is_refused_stays_without_a_newer_plan(step: StepName) -> None:
    assert reduce(at(step), REFUSED).now.step is step


@pytest.mark.parametrize("step", StepName)
def test_a_newer_plan_turns_a_step_that_is_refused(step: StepName) -> None:
    state = reduce(reduce(at(step), REFUSED, plan("newer")), REFUSED)
    assert state.now == at(step).now.neighbour(back=True)


def test_a_newer_plan_turns_prepare_and_waits_elsewhere() -> None:
    assert reduce(reduce(at(StepName.PREPARE), BEHIND, plan("newer")), BEHIND).now == Label(BASE)
    state = reduce(at(StepName.SENDERS), BEHIND, plan("newer"))
    assert labels(state)[:4] == [StepName.SENDERS, StepName.RECEIVERS, StepName.RELEASE, None]


def test_a_newer_plan_to_which_steps_lead_from_the_goal_alone_waits_for_it_at_prepare() -> None:
    state = reduce(at(StepName.PREPARE), BEHIND, plan("newer"))
    assert reduce(state, BEHIND._replace(has_steps=lambda old, new: old == MOVING)).now.step is StepName.PREPARE
    steps = ALL._replace(has_steps=lambda old, new: old == MOVING)
    assert reduce(state, steps).now.step is StepName.SENDERS
    assert reduce(state, REFUSED._replace(has_steps=steps.has_steps)).now == Label(BASE)


def test_a_newer_plan_turns_a_way_back_that_is_refused() -> None:
    state = reduce(at(StepName.RECEIVERS), BEHIND, ABORT)
    assert state.now.step is StepName.SENDERS
    assert reduce(state, REFUSED, plan("newer")).now.step is StepName.RECEIVERS


def test_prepare_waits_for_redirection_and_for_older_connections() -> None:
    state = at(StepName.PREPARE)
    assert reduce(state, seen(ready=False)).now.step is StepName.PREPARE
    assert reduce(state, seen(client("web", older="egress/cart@1"), client("cart"))).now.step is StepName.PREPARE
    assert reduce(state, ALL).now.step is StepName.SENDERS


@pytest.mark.parametrize("step", [StepName.SENDERS, StepName.RECEIVERS, StepName.RELEASE])
def test_later_steps_wait_for_neither(step: StepName) -> None:
    older = seen(client("web", older="egress/cart@1"), client("cart"), ready=False)
    assert reduce(at(step), older).now.step is not step


@pytest.mark.parametrize("step", StepName)
def test_an_abort_goes_back_at_once_and_to_the_plan_before(step: StepName) -> None:
    state = reduce(at(step), BEHIND, ABORT)
    assert state.now == at(step).now.neighbour(back=True)
    for _ in range(10):
        state = reduce(state, ALL)
    assert state.now == Label(BASE)
    assert state.aborted == MOVING


def test_an_abort_after_the_end_waits_at_release_for_connections_to_the_new_plan() -> None:
    state = reduce(at(None), BEHIND, ABORT)
    assert (state.now.step, state.back) == (StepName.RELEASE, True)
    older = seen(client("web", older="egress/cart@2"), client("cart"))
    assert reduce(state, older).now.step is StepName.RELEASE
    assert reduce(state, ALL).now.step is StepName.RECEIVERS


def test_an_aborted_plan_begins_with_continue_and_not_when_it_is_read_again() -> None:
    state = reduce(at(StepName.PREPARE), BEHIND, ABORT)
    state = reduce(reduce(state, ALL, plan(MOVING)), ALL)
    assert state.now == Label(BASE)
    state = reduce(reduce(state, ALL, CONTINUE), ALL)
    assert state.now == Label(BASE, MOVING, StepName.PREPARE, 2)


def test_a_newer_plan_lifts_an_abort() -> None:
    state = reduce(reduce(at(StepName.PREPARE), BEHIND, ABORT), ALL)
    assert reduce(reduce(state, ALL, plan(PLAIN)), ALL).now == Label(PLAIN)


def test_continue_turns_a_way_back() -> None:
    state = reduce(at(StepName.RECEIVERS), BEHIND, ABORT)
    assert reduce(state, BEHIND, CONTINUE).now.step is StepName.RECEIVERS


def test_forward_again_from_prepare_waits_as_the_first_time() -> None:
    state = reduce(at(StepName.SENDERS), BEHIND, ABORT)
    state = reduce(state, BEHIND, CONTINUE)
    assert (state.now.step, state.back) == (StepName.PREPARE, False)
    state = reduce(state, BEHIND, ABORT)
    assert state.now.step is StepName.PREPARE, "a proxy may still have `senders`"
    assert reduce(state, ALL).now == Label(BASE)


def test_with_nothing_under_way_an_abort_changes_nothing() -> None:
    state = reduce(begun(BASE, b"secret"), ALL)
    assert reduce(state, ALL, ABORT) == state


def test_a_refused_plan_makes_way_for_a_newer_one_that_moves() -> None:
    state = reduce(reduce(reduce(begun(BASE, b"secret"), ALL), ALL, plan(PLAIN)), ALL)
    state = reduce(state, BEHIND)
    state = reduce(reduce(state, REFUSED, plan(MOVING)), REFUSED)
    assert state.now == Label(BASE)
    assert reduce(state, ALL).now == Label(BASE, MOVING, StepName.PREPARE, 1)


def test_an_abort_does_not_return_to_a_plan_against_which_something_moves() -> None:
    """`web` may have `plain` yet; an abort to `base` would be safe against that, and to `moving` it is not."""
    state = reduce(begun(BASE, b"secret"), ALL)
    state = replace(
        state,
        now=Label(PLAIN),
        may_have=(Holding(Label(MOVING), frozenset(("web",))), Holding(Label(PLAIN), SERVICES)),
    )
    assert reduce(state, BEHIND, ABORT).now == Label(PLAIN)


def test_from_a_plan_that_every_proxy_had_there_is_no_return() -> None:
    state = reduce(reduce(reduce(begun(BASE, b"secret"), ALL), ALL, plan(PLAIN)), ALL)
    state = reduce(reduce(state, BEHIND), ALL)
    assert state.proven == Label(PLAIN)
    assert reduce(state, REFUSED, ABORT).now == Label(PLAIN)
    state = reduce(reduce(state, REFUSED, plan(MOVING)), REFUSED)
    assert state.now == Label(PLAIN)


def test_a_plan_that_no_proxy_has_any_more_is_one_to_return_to_while_the_next_is_not_in_force() -> None:
    state = reduce(reduce(reduce(begun(BASE, b"secret"), ALL), ALL, plan(PLAIN)), ALL)
    state = reduce(reduce(state, BEHIND, plan("third")), BEHIND)
    started = seen(client("web", has=False, fresh=True), client("cart"))
    state = reduce(state, started)
    assert holders(state, Label(PLAIN)) == frozenset()
    assert reduce(state, started, ABORT).now == Label(PLAIN)


def test_chains_are_frozen_at_publication_and_dropped_when_no_connection_uses_them() -> None:
    now = seen()._replace(chains={"web": frozenset(("egress/cart@1",))})
    state = reduce(reduce(begun(BASE, b"secret"), now, plan(MOVING)), now)
    assert state.kept == {Chain("web", "egress/cart@1")}
    assert reduce(state, BEHIND).kept == state.kept
    assert reduce(state, seen(client("web", older="egress/cart@1"), client("cart"))).kept == state.kept
    assert reduce(state, ALL).kept == frozenset()


def test_a_proxy_that_has_just_started_holds_up_the_way_forward_only() -> None:
    started = seen(client("web", has=False, fresh=True), client("cart"))
    assert reduce(at(StepName.SENDERS), started).now.step is StepName.SENDERS
    state = reduce(reduce(at(StepName.RECEIVERS), ALL), BEHIND, ABORT)
    assert reduce(state, started).now == state.now.neighbour(back=True)


def test_a_proxy_counts_until_its_source_drops_it() -> None:
    state = at(StepName.SENDERS)
    away = Client("web", True, False, False)
    assert reduce(state, seen(client("cart"), away)).now.step is StepName.SENDERS
    state = reduce(state, seen(client("cart")))
    assert state.now.step is StepName.RECEIVERS
    assert holders(state, Label(BASE, MOVING, StepName.PREPARE, 1)) == frozenset()


def test_each_move_has_a_marker_of_its_own() -> None:
    first = at(StepName.PREPARE)
    again = reduce(reduce(reduce(first, BEHIND, ABORT), ALL, CONTINUE), ALL)
    assert again.now.step is StepName.PREPARE
    assert again.key != first.key
    assert len(again.key) == 32


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, 5))])
def test_simulation(part: int) -> None:
    """A short search; `python -m tests.serve.rollout.simulate` makes long ones."""
    for seed in range(part * 60, part * 60 + 60):
        run(seed)


def test_a_proxy_that_is_away_counts_for_the_plan_before_the_one_that_gives_its_service_an_adm() -> None:
    """It may still pass connections on as that plan says, and not count, when the next plan but one is compared."""
    state = reduce(begun(BASE, b"secret"), seen(client("cart")), plan(PLAIN))
    state = reduce(state, seen(client("cart")))
    assert state.now == Label(PLAIN)
    assert holders(state, Label(BASE)) == SERVICES
