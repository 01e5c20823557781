"""The layout: nothing overlaps, arrows run forward, and a tree is drawn without a crossing."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from emitters.pictures.layout import Box, Point, layered
from tests.properties import examples

GRAPHS = st.integers(1, 14).flatmap(
    lambda count: st.tuples(
        st.lists(st.tuples(st.integers(20, 200), st.integers(10, 120)), min_size=count, max_size=count),
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=30, unique=True),
    )
)


@examples(150)
@given(GRAPHS)
def test_boxes_do_not_overlap_and_arrows_join_them(
    graph: tuple[list[tuple[int, int]], list[tuple[int, int]]],
) -> None:
    boxes, arrows = [Box(*size) for size in graph[0]], graph[1]
    made = layered(boxes, arrows)
    placed = list(zip(made.corners, boxes, strict=True))
    for index, (corner, box) in enumerate(placed):
        assert -0.01 <= corner.x <= made.width - box.width + 0.01
        assert -0.01 <= corner.y <= made.height - box.height + 0.01
        for other, size in placed[:index]:
            apart_x = corner.x + box.width <= other.x + 0.01 or other.x + size.width <= corner.x + 0.01
            apart_y = corner.y + box.height <= other.y + 0.01 or other.y + size.height <= corner.y + 0.01
            assert apart_x or apart_y
    for index, ((source, destination), route) in enumerate(zip(arrows, made.routes, strict=True)):
        if source == destination:
            assert route == ()
            continue
        way = route[::-1] if index in made.backward else route
        left, right = (destination, source) if index in made.backward else (source, destination)
        assert all(a.x <= b.x for a, b in pairwise(way))
        assert way[0].x == made.corners[left].x + boxes[left].width
        assert way[-1].x == made.corners[right].x
        for end, node in ((way[0], left), (way[-1], right)):
            assert made.corners[node].y <= end.y <= made.corners[node].y + boxes[node].height
    assert layered(boxes, arrows) == made


def test_only_arrows_that_close_a_cycle_run_backward() -> None:
    box = Box(40, 20)
    assert layered([box] * 3, [(0, 1), (1, 2), (0, 2)]).backward == frozenset()
    assert layered([box] * 3, [(0, 1), (1, 2), (2, 0)]).backward == {2}


def test_a_tree_is_drawn_without_crossings() -> None:
    arrows = [(0, 3), (0, 1), (0, 2), (1, 6), (2, 4), (3, 5), (2, 7), (1, 8)]
    made = layered([Box(40, 20)] * 9, arrows)
    for index, (a, b) in enumerate(arrows):
        for c, d in arrows[:index]:
            if made.corners[a].x == made.corners[c].x:
                assert (made.corners[a].y - made.corners[c].y) * (made.corners[b].y - made.corners[d].y) >= 0


def test_a_lone_callee_stands_level_with_its_caller() -> None:
    made = layered([Box(40, 20), Box(80, 60)], [(0, 1)])
    assert made.corners == (Point(0, 20), Point(120, 0))


def test_a_box_without_a_caller_stands_next_to_the_boxes_it_calls() -> None:
    made = layered([Box(10, 10)] * 4, [(0, 1), (1, 2), (3, 2)])
    assert made.corners[3].x == made.corners[1].x
