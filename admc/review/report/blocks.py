"""Where the boxes of a large mesh go: a block for each distance from the edge of the mesh, left to right.

A layered layout follows the longest path, and a large mesh has one through a third of its services: it would be a band
that no window can show. Here a service stands as many blocks from the left as calls lead to it at least, and a block
has several columns, in such a number that the whole fits a window. Calls are straight lines.

Only `+ - * /` and comparisons of floats are used, so that the same mesh gives the same numbers on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from emitters.pictures.layout import Box, Point

ASPECT: Final = 1.9
"""Width by height of the window that is aimed at."""
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
    """Boxes by the fewest calls that lead to them. A cycle that is called from nowhere begins at its first box."""
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
    """Each block by the mean height of what its boxes have to do with."""
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
    """Middles, and the size of the whole, if no block has more rows than `rows`."""
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
