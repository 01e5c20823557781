"""Places boxes and arrows: a small layered layout, from left to right.

Graphviz would draw this too, but it is a program that users would have to install to look at their own plan. The steps
are the classic ones, each deterministic and bounded:

    break cycles -> layers by longest path -> bend points in layers -> order by barycentre -> y by least squares

Only `+ - * /` and comparisons of floats are used, so that the same graph gives the same numbers on every machine.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SWEEPS: Final = 16
ALIGNMENTS: Final = 12
MAX_BENDS: Final = 4000
"""With more bend points, long arrows go straight: ordering them would take too long."""


class Spacing(NamedTuple):
    """Distances in pixels."""

    between_layers: float = 80
    between_boxes: float = 22
    between_arrows: float = 12


class Box(NamedTuple):
    width: float
    height: float


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes by their left top corner, and arrows as points to pass, in the order of the input."""

    width: float
    height: float
    corners: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    """The points of each arrow from source to destination; a call of a box to itself has no points."""
    backward: frozenset[int]
    """Arrows that run right to left, because they close a cycle."""


def layered(boxes: Sequence[Box], arrows: Sequence[tuple[int, int]], spacing: Spacing = Spacing()) -> Layout:  # noqa: B008
    """Places `boxes` and routes `arrows` (pairs of indices). Earlier boxes come first where nothing else decides."""
    backward = _backward(len(boxes), arrows)
    forward = [(b, a) if i in backward else (a, b) for i, (a, b) in enumerate(arrows)]
    layer_of = _layers(len(boxes), forward)
    graph = _with_bends(boxes, forward, layer_of)
    order = _ordered(graph)
    y = _heights(graph, order, spacing)
    return _assembled(boxes, arrows, backward, graph, order, y, spacing)


def _backward(count: int, arrows: Sequence[tuple[int, int]]) -> frozenset[int]:
    """Arrows that close a cycle on a depth-first walk, boxes with no arrow to them first."""
    following: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    called = [False] * count
    for index, (a, b) in enumerate(arrows):
        if a != b:
            following[a].append((b, index))
            called[b] = True
    closing = set()
    state = [0] * count  # 0 not met, 1 on the walk, 2 done
    for root in sorted(range(count), key=lambda node: (called[node], node)):
        if state[root]:
            continue
        state[root] = 1
        walk = [(root, 0)]
        while walk:
            node, position = walk.pop()
            if position == len(following[node]):
                state[node] = 2
                continue
            walk.append((node, position + 1))
            nxt, index = following[node][position]
            if state[nxt] == 1:
                closing.add(index)
            elif state[nxt] == 0:
                state[nxt] = 1
                walk.append((nxt, 0))
    return frozenset(closing)


def _layers(count: int, forward: Sequence[tuple[int, int]]) -> list[int]:
    following: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for a, b in forward:
        if a != b:
            following[a].append(b)
            waiting[b] += 1
    layer = [0] * count
    roots = [node for node in range(count) if not waiting[node]]
    ready = list(roots)
    while ready:
        node = ready.pop()
        for nxt in following[node]:
            layer[nxt] = max(layer[nxt], layer[node] + 1)
            waiting[nxt] -= 1
            if not waiting[nxt]:
                ready.append(nxt)
    # A box without a caller stands right before the boxes that it calls, not far off on the left.
    for node in roots:
        if following[node]:
            layer[node] = min(layer[nxt] for nxt in following[node]) - 1
    return layer


@dataclass(frozen=True, slots=True)
class _Graph:
    """Boxes and bend points; every link spans one layer, except where there are too many bends."""

    layers: list[list[int]]
    heights: list[float]
    before: list[list[int]]
    after: list[list[int]]
    chains: list[list[int]]
    """The nodes that each arrow passes, from left to right, both ends included."""
    boxes: int


def _with_bends(boxes: Sequence[Box], forward: Sequence[tuple[int, int]], layer_of: list[int]) -> _Graph:
    spans = sum(max(0, layer_of[b] - layer_of[a] - 1) for a, b in forward if a != b)
    bend = spans <= MAX_BENDS
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for node, layer in enumerate(layer_of):
        layers[layer].append(node)
    heights = [box.height for box in boxes]
    before: list[list[int]] = [[] for _ in boxes]
    after: list[list[int]] = [[] for _ in boxes]
    chains = []
    for a, b in forward:
        chain = [a]
        if a != b:
            for layer in range(layer_of[a] + 1, layer_of[b]) if bend else ():
                node = len(heights)
                heights.append(0)
                before.append([])
                after.append([])
                layers[layer].append(node)
                chain.append(node)
            chain.append(b)
            for left, right in itertools.pairwise(chain):
                after[left].append(right)
                before[right].append(left)
        chains.append(chain)
    return _Graph(layers, heights, before, after, chains, len(boxes))


def _ordered(graph: _Graph) -> list[list[int]]:
    """Nodes of each layer from top to bottom: the order with the fewest crossings that the sweeps met."""
    order = [list(layer) for layer in graph.layers]
    best, fewest = [list(layer) for layer in order], _crossings(graph, order)
    place = [0] * len(graph.heights)
    for layer in order:
        for spot, node in enumerate(layer):
            place[node] = spot
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        links = graph.before if down else graph.after
        span = range(1, len(order)) if down else range(len(order) - 2, -1, -1)
        for index in span:
            keys = {
                node: sum(place[other] for other in links[node]) / len(links[node]) if links[node] else place[node]
                for node in order[index]
            }
            # The sort is stable, and every other pair of sweeps turns ties round to get off a plateau.
            if sweep % 4 >= 2:
                order[index].reverse()
            order[index].sort(key=keys.__getitem__)
            for spot, node in enumerate(order[index]):
                place[node] = spot
        crossings = _crossings(graph, order)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in order], crossings
        if not fewest:
            break
    return best


def _crossings(graph: _Graph, order: list[list[int]]) -> int:
    total = 0
    for index in range(1, len(order)):
        place = {node: spot for spot, node in enumerate(order[index - 1])}
        seen: list[int] = []
        for node in order[index]:
            ends = [place[other] for other in graph.before[node] if other in place]
            total += sum(len(seen) - bisect_left(seen, end + 1) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _heights(graph: _Graph, order: list[list[int]], spacing: Spacing) -> list[float]:
    """Middle of each node: as near to its neighbours' middles as order and distances allow."""

    def gap(upper: int, lower: int) -> float:
        boxes = (upper < graph.boxes) + (lower < graph.boxes)
        free = (spacing.between_arrows, (spacing.between_arrows + spacing.between_boxes) / 2, spacing.between_boxes)
        return (graph.heights[upper] + graph.heights[lower]) / 2 + free[boxes]

    y = [0.0] * len(graph.heights)
    for layer in order:
        at = 0.0
        for spot, node in enumerate(layer):
            at += gap(layer[spot - 1], node) if spot else 0
            y[node] = at
        for node in layer:
            y[node] -= at / 2
    for turn in range(ALIGNMENTS):
        down = turn % 2 == 0
        for layer in order if down else reversed(order):
            wanted, weights = [], []
            for node in layer:
                first, second = (graph.before, graph.after) if down else (graph.after, graph.before)
                near = first[node] or second[node]
                # The last turns look both ways, so that a box ends up between its callers and its callees.
                if turn >= ALIGNMENTS - 4:
                    near = graph.before[node] + graph.after[node]
                wanted.append(sum(y[other] for other in near) / len(near) if near else y[node])
                weights.append(4.0 if node >= graph.boxes else 1.0)
            gaps = [gap(a, b) for a, b in itertools.pairwise(layer)]
            for node, value in zip(layer, _spread(wanted, weights, gaps), strict=True):
                y[node] = value
    return y


def _spread(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Values nearest to `wanted` (weighted least squares) of which neighbours keep their `gaps`.

    Without the gaps this is isotonic regression, which pooling adjacent violators solves exactly.
    """
    offset, offsets = 0.0, [0.0]
    for distance in gaps:
        offset += distance
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # value, weight, members
    for want, weight, shift in zip(wanted, weights, offsets, strict=False):
        value, mass, members = want - shift, weight, 1
        while pools and pools[-1][0] > value:
            other, other_mass, other_members = pools.pop()
            value = (value * mass + other * other_mass) / (mass + other_mass)
            mass += other_mass
            members += other_members
        pools.append((value, mass, members))
    flat = [value for value, _, members in pools for _ in range(members)]
    return [value + shift for value, shift in zip(flat, offsets, strict=False)]


def _assembled(
    boxes: Sequence[Box],
    arrows: Sequence[tuple[int, int]],
    backward: frozenset[int],
    graph: _Graph,
    order: list[list[int]],
    y: list[float],
    spacing: Spacing,
) -> Layout:
    top = min((y[node] - graph.heights[node] / 2 for node in range(len(y))), default=0.0)
    bottom = max((y[node] + graph.heights[node] / 2 for node in range(len(y))), default=0.0)
    left, lefts, widths = 0.0, [], []
    for layer in order:
        width = max((boxes[node].width for node in layer if node < graph.boxes), default=0.0)
        lefts.append(left)
        widths.append(width)
        left += width + spacing.between_layers
    layer_of = {node: index for index, layer in enumerate(order) for node in layer}
    corners = []
    for node, box in enumerate(boxes):
        index = layer_of[node]
        corners.append(Point(lefts[index] + (widths[index] - box.width) / 2, y[node] - box.height / 2 - top))
    exits = _ends(graph, boxes, y, outgoing=True)
    entries = _ends(graph, boxes, y, outgoing=False)
    routes: list[tuple[Point, ...]] = []
    for index, chain in enumerate(graph.chains):
        if len(chain) == 1:
            routes.append(())
            continue
        a, b = chain[0], chain[-1]
        points = [Point(corners[a].x + boxes[a].width, exits[index] - top)]
        for node in chain[1:-1]:
            at = layer_of[node]
            points += [Point(lefts[at], y[node] - top), Point(lefts[at] + widths[at], y[node] - top)]
        points.append(Point(corners[b].x, entries[index] - top))
        routes.append(tuple(reversed(points)) if index in backward else tuple(points))
    width = max((corner.x + box.width for corner, box in zip(corners, boxes, strict=True)), default=0.0)
    return Layout(width, bottom - top, tuple(corners), tuple(routes), backward)


def _ends(graph: _Graph, boxes: Sequence[Box], y: list[float], *, outgoing: bool) -> Mapping[int, float]:
    """Arrow -> the height at which it touches its box: along the side of the box, in the order of the other ends."""
    touching: dict[int, list[tuple[float, int]]] = {}
    for index, chain in enumerate(graph.chains):
        if len(chain) > 1:
            node, other = (chain[0], chain[1]) if outgoing else (chain[-1], chain[-2])
            touching.setdefault(node, []).append((y[other], index))
    ends = {}
    for node, others in touching.items():
        step = min(9.0, (boxes[node].height - 14) / max(1, len(others) - 1))
        for spot, (_, index) in enumerate(sorted(others)):
            ends[index] = y[node] + step * (spot - (len(others) - 1) / 2)
    return ends
