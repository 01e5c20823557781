"""A wrong schedule is found by the walks: each line of the table is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.serve.rollout import schedule, steps
from admc.serve.rollout.model import Placed, Plan, RouteOverlay, StepName
from dsl import load_text
from dsl.program import Side
from solver.place import place
from tests.serve.rollout.walks import Judge, Leg, walk

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = """
app table
service s { http 80 }
service d { http 80 }
call s -> d
policy first  = add_request_header(name: "x-first", value: "1") on s -> d
policy second = request_count() on s -> d
pin first at FIRST
pin second at SECOND
"""
WAYS = {
    "to senders": (("ingress", "ingress"), ("egress", "egress")),
    "to the receiver": (("egress", "egress"), ("ingress", "ingress")),
}
ALL = (Leg(1), Leg(1, StepName.RELEASE), Leg(1, StepName.RECEIVERS, StepName.SENDERS), Leg(1, aborted=True))


def plans(way: str) -> list[Placed]:
    found = []
    for first, second in WAYS[way]:
        program = load_text(PROGRAM.replace("FIRST", first).replace("SECOND", second))
        found.append(Placed(program, place(program)))
    return found


@pytest.mark.parametrize("leg", ALL)
@pytest.mark.parametrize("way", WAYS)
def test_every_request_meets_one_plan(way: str, leg: Leg) -> None:
    Judge(walk(plans(way), [leg])).judge()


MUTANTS: dict[str, Callable[[RouteOverlay], RouteOverlay]] = {
    "the other plan": lambda found: found._replace(unmarked=found.unmarked.other),
    "the other plan on marked requests": lambda found: found._replace(
        marked=found.marked if found.marked is None else found.marked.other
    ),
    "marks or not": lambda found: found._replace(marks=not found.marks),
}


LINES = [
    (mutant, side, step)
    for mutant in MUTANTS
    for side in Side
    for step in StepName
    if not (side is Side.EGRESS and mutant.endswith("requests"))
    and not (side is Side.INGRESS and mutant.startswith("marks"))
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("mutant", "side", "step"), LINES)
def test_each_line_of_the_table_is_needed(
    way: str, mutant: str, side: Side, step: StepName, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = schedule.overlay

    def wrong(marked: Plan, at: Side, name: StepName, secret: str, *, received: bool) -> RouteOverlay:
        found = right(marked, at, name, secret, received=received)
        return MUTANTS[mutant](found) if (at, name) == (side, step) else found

    monkeypatch.setattr(steps, "overlay", wrong)
    two = plans(way)
    with pytest.raises(AssertionError):
        judged(two)


def judged(two: list[Placed]) -> None:
    for leg in ALL:
        Judge(walk(two, [leg])).judge()
