"""The layout of a graph: callers stand left of their callees.

    nodes and lines without places -> Graph

The same mesh gives the same numbers on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Final, NamedTuple

from admc.base.terminal import visible
from admc.review.report.blocks import in_blocks
from admc.review.report.model import Edge, Node, Section
from emitters.pictures.drawing import shortened, text_width
from emitters.pictures.layout import Box, Point, Spacing, layered

SIZE: Final = 12.0
"""The size of the letters in pixels."""
WIDEST: Final = 220.0
"""The width of a label in pixels. A longer name is cut; the panel shows all of it."""
MOST_NODES: Final = 1000
LARGE: Final = 60
"""A graph with this many boxes or more is laid out in blocks."""
SMALLEST_SIGN: Final = 14.0
LARGEST_SIGN: Final = 56.0
_PADDING: Final = 18.0
_LINE: Final = 15.0
_SIGN_GAP: Final = 6.0
_BOLD: Final = 1.15
"""How much wider the bold letters of an ADM's name are."""
_SPACING: Final = Spacing(between_layers=64, between_boxes=16, between_arrows=8)


class Drawn(NamedTuple):
    """A node before it has a place."""

    name: str
    shape: str
    adm: bool
    sign: float
    closed: bool = False
    hosts: bool = True
    replicas: int = 1
    state: str = ""
    policies: tuple[int, ...] = ()
    panel: tuple[Section, ...] = ()


class Line(NamedTuple):
    """An edge before it has a route."""

    source: str
    target: str
    look: str
    title: str
    policies: tuple[int, ...] = ()
    panel: tuple[Section, ...] = ()
    only: str = ""


class Graph(NamedTuple):
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def sign_size(cost: int, highest: int) -> float:
    """The diameter of a hexagon whose area grows with the cost."""
    if not highest:
        return SMALLEST_SIGN
    return round(max(SMALLEST_SIGN, LARGEST_SIGN * sqrt(max(0, cost) / highest)), 1)


def graph(drawn: Sequence[Drawn], lines: Sequence[Line]) -> Graph:
    """Lay out nodes and lines. Both ends of each line are names of nodes in `drawn`."""
    labels = [_label(node) for node in drawn]
    boxes = [_box(node, label) for node, label in zip(drawn, labels, strict=True)]
    index = {node.name: at for at, node in enumerate(drawn)}
    arrows = [(index[line.source], index[line.target]) for line in lines]
    middles, routes = _places(boxes, arrows)
    nodes = tuple(
        Node(
            visible(node.name),
            label,
            node.shape,
            node.adm,
            node.state,
            node.closed,
            node.hosts,
            round(middle.x, 1),
            round(middle.y, 1),
            box.width,
            box.height,
            node.sign,
            node.policies,
            node.panel,
        )
        for node, label, box, middle in zip(drawn, labels, boxes, middles, strict=True)
    )
    edges = tuple(
        Edge(
            *ends,
            line.look,
            line.title,
            tuple(round(number, 1) for point in route for number in (point.x, point.y)),
            line.policies,
            line.panel,
            line.only,
        )
        for line, ends, route in zip(lines, arrows, routes, strict=True)
    )
    return Graph(nodes, edges)


def _places(
    boxes: Sequence[Box], arrows: Sequence[tuple[int, int]]
) -> tuple[tuple[Point, ...], tuple[tuple[Point, ...], ...]]:
    """The middle of each box, and the route of each arrow; an empty route is a straight line."""
    if len(boxes) >= LARGE:
        return in_blocks(boxes, arrows), ((),) * len(arrows)
    layout = layered(boxes, arrows, _SPACING)
    middles = (
        Point(corner.x + box.width / 2, corner.y + box.height / 2)
        for corner, box in zip(layout.corners, boxes, strict=True)
    )
    return tuple(middles), layout.routes


def most_important(names: Sequence[str], adms: Mapping[str, int], pairs: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The names that are drawn of a large mesh: those with the largest numbers in `adms`, each with its neighbours."""
    if len(names) <= MOST_NODES:
        return frozenset(names)
    neighbours: dict[str, set[str]] = {}
    for source, target in pairs:
        neighbours.setdefault(source, set()).add(target)
        neighbours.setdefault(target, set()).add(source)
    kept: dict[str, None] = {}
    for name in sorted(names, key=lambda name: (-adms.get(name, 0), name)):
        for member in (name, *sorted(neighbours.get(name, ()))):
            if len(kept) >= MOST_NODES:
                return frozenset(kept)
            kept[member] = None
    return frozenset(kept)


def _label(node: Drawn) -> str:
    name = "callers that are not declared" if node.shape == "callers" else visible(node.name)
    replicas = f" ×{node.replicas}" if node.replicas > 1 else ""
    first = shortened(name, SIZE, WIDEST) + replicas
    return f"{first}\nclosed" if node.closed else first


def _box(node: Drawn, label: str) -> Box:
    lines = label.split("\n")
    text = max(text_width(line, SIZE) for line in lines) * (_BOLD if node.adm else 1.0)
    sign = node.sign + _SIGN_GAP if node.sign else 0.0
    width = round(max(48.0, text + _PADDING + sign), 1)
    return Box(width, round(max(_LINE * len(lines) + 11, node.sign + 8), 1))
