"""The places of a large mesh: no box covers another, callers stand left, and the whole fits a window."""

from __future__ import annotations

import itertools
import random

import pytest

from admc.review.report.blocks import in_blocks
from admc.review.report.graph import LARGE, Drawn, Line, graph
from emitters.pictures.layout import Box
from tests.generate import application


def laid(services: int, calls: int, seed: int) -> tuple[list[Box], list[tuple[int, int]]]:
    app = application(services, calls, seed)
    rng = random.Random(seed)  # noqa: S311
    return [Box(rng.uniform(48, 160), rng.uniform(26, 64)) for _ in app.names], list(app.calls)


@pytest.mark.parametrize(
    ("services", "calls"), [(60, 150), (300, 900), (300, 1500), pytest.param(1000, 3000, marks=pytest.mark.long)]
)
def test_no_box_covers_another_and_the_whole_fits_a_window(services: int, calls: int) -> None:
    boxes, arrows = laid(services, calls, seed=services)
    middles = in_blocks(boxes, arrows)
    sides = [
        (point.x - box.width / 2, point.x + box.width / 2, point.y - box.height / 2, point.y + box.height / 2)
        for point, box in zip(middles, boxes, strict=True)
    ]
    for one, other in itertools.combinations(sorted(sides), 2):
        assert one[1] < other[0] or one[3] < other[2] or other[3] < one[2]
    wide, high = max(side[1] for side in sides), max(side[3] for side in sides)
    assert 1.2 < wide / high < 3


def test_a_service_stands_right_of_a_caller_that_is_nearer_to_the_edge() -> None:
    boxes = [Box(50, 26)] * 5
    middles = in_blocks(boxes, [(0, 1), (1, 2), (2, 3), (3, 1), (0, 4), (4, 3)])
    assert middles[0].x < middles[1].x == middles[4].x < middles[2].x == middles[3].x


def test_a_cycle_that_is_called_from_nowhere_has_places_too() -> None:
    middles = in_blocks([Box(50, 26)] * 3, [(0, 1), (1, 2), (2, 0)])
    assert middles[0].x < middles[1].x < middles[2].x


def test_the_order_of_calls_changes_no_place() -> None:
    boxes, arrows = laid(120, 400, seed=3)
    shuffled = list(arrows)
    random.Random(5).shuffle(shuffled)  # noqa: S311
    assert in_blocks(boxes, arrows) == in_blocks(boxes, shuffled)


@pytest.mark.parametrize("count", [1, LARGE - 1, LARGE])
def test_a_small_mesh_has_layers_and_a_large_one_blocks(count: int) -> None:
    drawn = [Drawn(f"s{at}", "service", False, 0.0) for at in range(count)]
    lines = [Line(f"s{at}", f"s{at + 1}", "plain", "") for at in range(count - 1)]
    found = graph(drawn, lines)
    assert len(found.nodes) == count
    assert all(bool(edge.points) == (count < LARGE) for edge in found.edges)
