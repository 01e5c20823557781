"""What a rollout waits for, in sentences."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from admc.serve.publication import progress
from admc.serve.publication.plans import Plans
from admc.serve.rollout.model import StepName
from admc.serve.rollout.reducer import Client, Observation
from admc.serve.rollout.rollout_state import Holding, Label, RolloutState, begun
from tests.serve.always_ack import PROGRAM, planned, planned_by

if TYPE_CHECKING:
    from pathlib import Path

    from admc.serve.publication.plans import Planned

SECRET: Final = bytes(32)


def moving(plans: Plans, old: Planned, new: Planned) -> RolloutState:
    """In `prepare`, from one plan to the other."""
    base, goal = plans.put(old), plans.put(new)
    return replace(begun(base, SECRET), now=Label(base, goal, StepName.PREPARE, 1), moves=1)


def test_a_sentence_names_what_changes_sides_and_what_the_step_waits_for(tmp_path: Path) -> None:
    plans = Plans()
    state = moving(plans, planned(tmp_path, "ingress"), planned(tmp_path, "egress"))
    waits = [f"`s{number}`: 0 of 1 proxies are connected" for number in range(5)]
    assert progress.text(state, plans, waits) == (
        f"`p` changes places: step `prepare` waits for {'; '.join(waits[:3])}; and 2 more"
    )
    assert progress.text(state, plans, ()) == "`p` changes places: step `prepare`"
    assert progress.text(replace(state, back=True), plans, waits[:1]) == (
        "`p` changes places, which is taken back: step `prepare` waits for `s0`: 0 of 1 proxies are connected"
    )
    newer = plans.put(planned(tmp_path, "egress", "bronze"))
    assert progress.text(replace(state, queued=newer), plans, ()).endswith("; then a newer plan begins")


def test_a_plan_that_moves_nothing_is_not_in_force_before_each_proxy_has_it(tmp_path: Path) -> None:
    plans = Plans()
    old, new = plans.put(planned(tmp_path, "egress")), plans.put(planned(tmp_path, "egress", "bronze"))
    held = tuple(Holding(Label(each), frozenset(("web",)), proven=each == old) for each in (old, new))
    state = RolloutState(Label(new), held, secret=SECRET)
    assert progress.text(state, plans, ("`web`: 0 of 1 proxies are connected",)) == (
        "the new plan is not in force everywhere yet: it waits for `web`: 0 of 1 proxies are connected"
    )


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "`p0` changes places"),
        (2, "`p0` and `p1` change places"),
        (3, "`p0`, `p1` and `p2` change places"),
        (4, "`p0`, `p1`, `p2` and one more policy change places"),
        (7, "`p0`, `p1`, `p2` and 4 more policies change places"),
    ],
)
def test_few_policies_that_change_sides_are_named_and_many_counted(tmp_path: Path, number: int, said: str) -> None:
    def plan(side: str) -> Planned:
        lines = PROGRAM.splitlines()
        policy = 'policy p{0} = set_request_header(name: "x-{0}", value: "a") on web -> cart\npin p{0} at ' + side
        text = "\n".join(lines[:4] + [policy.format(each) for each in range(number)]) + "\n"
        return planned_by(tmp_path / f"{side}.adm", text)

    plans = Plans()
    state = moving(plans, plan("ingress"), plan("egress"))
    assert progress.text(state, plans, ()) == f"{said}: step `prepare`"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (1, "`cart`: 1 of 1 proxies have not acknowledged: `n0`"),
        (5, "`cart`: 5 of 5 proxies have not acknowledged: `n0`, `n1`, `n2`, `n3`, `n4`"),
        (7, "`cart`: 7 of 7 proxies have not acknowledged: `n0`, `n1`, `n2`, `n3`, `n4` and 2 more"),
    ],
)
def test_few_proxies_that_are_waited_for_are_named(tmp_path: Path, number: int, said: str) -> None:
    plans = Plans()
    state = moving(plans, planned(tmp_path, "ingress"), planned(tmp_path, "egress"))
    clients = tuple(Client("cart", True, False, False, node=f"n{each}") for each in range(number))
    seen = Observation(clients, (), plans.moves, plans.changes)
    assert progress.waits(state, seen, plans) == (said,)


def test_the_name_that_a_proxy_gives_itself_controls_no_terminal(tmp_path: Path) -> None:
    plans = Plans()
    state = moving(plans, planned(tmp_path, "ingress"), planned(tmp_path, "egress"))
    client = Client("cart", True, False, True, node="\x1b[2J" + "n" * 10_000)
    (said,) = progress.waits(state, Observation((client,), (), plans.moves, plans.changes), plans)
    assert said.isprintable()
    assert len(said) < 300
