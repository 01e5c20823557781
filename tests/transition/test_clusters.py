"""What changes sides and sits in a sender's cluster, where no route table can skip it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load
from dsl.program import Side
from solver.place import place

if TYPE_CHECKING:
    from pathlib import Path

    from admc.transition.model import Step

PROGRAM = """
app a
service s, d { http 80 }
call s -> d
@ingress @egress(upstream)
kind own() for http template "own.yaml"
policy counted = request_count() on s -> d
policy inner   = own() on s -> d
pin counted at SIDE
pin inner at SIDE
"""
TEMPLATE = """
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: x-own, value: "1"}}}]}
"""


def placed(folder: Path, side: str) -> Placed:
    (folder / "own.yaml").write_text(TEMPLATE)
    path = folder / f"{side}.adm"
    path.write_text(PROGRAM.replace("SIDE", side))
    program = load(path)
    return Placed(program, place(program))


def marks(step: Step) -> bool:
    return "s" in step.parts and any(toggle.marks for toggle in step.parts["s"].toggles.values())


def inner(step: Step) -> bool:
    """Whether the sender's cluster has it."""
    return "s" in step.parts and any(
        decision.policy == "inner" and Side.EGRESS in decision.sides
        for decision in step.parts["s"].placed.placement.decisions
    )


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_a_cluster_has_it_for_as_long_as_requests_are_marked(sides: tuple[str, str], tmp_path: Path) -> None:
    """A proxy takes clusters before route tables: for a moment it has those of a step and these of the one before."""
    old, new = placed(tmp_path, sides[0]), placed(tmp_path, sides[1])
    walked = steps(old, new, b"k")
    assert any(marks(step) for step in walked)
    for way in (walked, walked[::-1]):
        for routes, clusters in pairwise(way):
            assert not marks(routes) or (inner(routes) and inner(clusters)), (routes.phase, clusters.phase)


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_it_is_said_that_it_is_met_twice(sides: tuple[str, str], tmp_path: Path) -> None:
    walked = steps(placed(tmp_path, sides[0]), placed(tmp_path, sides[1]), b"k")
    (said,) = [step.reasons for step in walked if step.phase is Phase.PREPARE]
    about = [reason for reason in said if "`inner`" in reason]
    assert any("meet it twice" in reason for reason in about), about
    assert not any("stays single" in reason for reason in about), about


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_no_marker_says_anything_of_it(sides: tuple[str, str], tmp_path: Path) -> None:
    """A sender that has nothing else to skip does not take the marker away from what its application sends."""
    walked = steps(placed(tmp_path, sides[0]), placed(tmp_path, sides[1]), b"k")
    toggles = [toggle for step in walked for part in step.parts.values() for toggle in part.toggles.values()]
    assert any("counted" in toggle.met for toggle in toggles)
    assert not any({"inner", "inner~old"} & (toggle.met | toggle.off) for toggle in toggles)
