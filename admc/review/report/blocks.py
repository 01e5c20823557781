"""The layout of a large mesh: blocks of boxes from left to right, one for each distance from the edge of the mesh.

    sizes of boxes, arrows -> the middle of each box

A layered layout has as many columns as the longest path has services. In a large mesh that path passes through a third
of all services, so the picture would be a band that no window can show. Here the block of a service is the smallest
number of calls from the edge to the service. A block has several columns, so that the picture fits a window. Calls are
straight lines.

Only `+ - * /` and comparisons of floats are used, so that the same mesh gives the same numbers on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from emitters.pictures.layout import Box, Point

ASPECT: Final = 1.9
"""The ratio of width to height that the picture aims at, as a window has it."""
SWEEPS: Final = 8
_BETWEEN_ROWS: Final = 10.0
_BETWEEN_COLUMNS: Final = 16.0
_BETWEEN_BLOCKS: Final = 90.0


class _Row(NamedTuple):
    height: float
    members: list[int]


def in_blocks(boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]) -> tuple[Point, ...]:
    """The middle of each box."""
    blocks = _blocks(len(boxes), arrows)
    _order(blocks, len(boxes), arrows)
    most = max((len(block) for block in blocks), default=0)
    middles, nearest = [Point(0, 0)] * len(boxes), float("inf")
    for rows in range(1, most + 1):
        points, size = _placed(blocks, boxes, rows)
        far = max(size.x / (ASPECT * size.y), ASPECT * size.y / size.x)
        if far < nearest:
            middles, nearest = points, far
    return tuple(middles)


def _blocks(count: int, arrows: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Boxes by the smallest number of calls from the edge. A cycle that no other box calls begins at its first box."""
    following: list[list[int]] = [[] for _ in range(count)]
    called = [False] * count
    for source, target in arrows:
        if source != target:
            following[source].append(target)
            called[target] = True
    depth: list[int | None] = [None] * count
    for roots in ([node for node in range(count) if not called[node]], *([node] for node in range(count))):
        fresh = [node for node in roots if depth[node] is None]
        for node in fresh:
            depth[node] = 0
        waiting = deque(fresh)
        while waiting:
            node = waiting.popleft()
            for callee in following[node]:
                if depth[callee] is None:
                    depth[callee] = (depth[node] or 0) + 1
                    waiting.append(callee)
    deepest = max((level or 0 for level in depth), default=0)
    blocks: list[list[int]] = [[] for _ in range(deepest + 1)]
    for node, level in enumerate(depth):
        blocks[level or 0].append(node)
    return blocks


def _order(blocks: list[list[int]], count: int, arrows: Sequence[tuple[int, int]]) -> None:
    """Sort the boxes of each block by the mean height of their callers and callees."""
    near: list[list[int]] = [[] for _ in range(count)]
    for source, target in arrows:
        near[source].append(target)
        near[target].append(source)
    for neighbours in near:
        neighbours.sort()  # sums of floats depend on their order
    height = [0.0] * count
    for block in blocks:
        _spread(block, height)
    for _ in range(SWEEPS):
        for block in blocks:
            means = {node: _mean([height[neighbour] for neighbour in near[node]], height[node]) for node in block}
            block.sort(key=lambda node: (means[node], node))
            _spread(block, height)


def _spread(block: Sequence[int], height: list[float]) -> None:
    for position, node in enumerate(block):
        height[node] = (position + 0.5) / len(block)


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _placed(blocks: Sequence[Sequence[int]], boxes: Sequence[Box], rows: int) -> tuple[list[Point], Point]:
    """The middles of all boxes, and the size of the picture, if no block has more than `rows` rows."""
    middles = [Point(0, 0)] * len(boxes)
    cut = [_rows(block, boxes, -(-len(block) // rows)) for block in blocks]
    heights = [sum(row.height + _BETWEEN_ROWS for row in block) for block in cut]
    highest = max(heights)
    left = 0.0
    for block, height in zip(cut, heights, strict=True):
        widths = [
            max(boxes[row.members[column]].width for row in block if column < len(row.members)) + _BETWEEN_COLUMNS
            for column in range(max((len(row.members) for row in block), default=0))
        ]
        top = (highest - height) / 2
        for row in block:
            x = left
            for width, node in zip(widths, row.members, strict=False):
                middles[node] = Point(x + (width - _BETWEEN_COLUMNS) / 2, top + row.height / 2)
                x += width
            top += row.height + _BETWEEN_ROWS
        left += sum(widths) + _BETWEEN_BLOCKS
    return middles, Point(left, highest)


def _rows(block: Sequence[int], boxes: Sequence[Box], columns: int) -> list[_Row]:
    cut = [list(block[at : at + columns]) for at in range(0, len(block), max(1, columns))]
    return [_Row(max(boxes[node].height for node in members), members) for members in cut]
