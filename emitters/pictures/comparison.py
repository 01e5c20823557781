"""A full mesh beside the compiled one: the picture that shows the purpose of admc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.pictures import drawing
from emitters.pictures.layout import Box, Point, Spacing, layered
from emitters.pictures.scene import around_adms, scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Program
    from emitters.pictures.layout import Layout
    from emitters.pictures.scene import Scene
    from solver.placement import Placement

MAX_NODES: Final = 120
"""Of a larger mesh, the services with an ADM and those beside them are drawn, and the others are counted. Two pictures
share the width, so fewer nodes fit than in a single picture."""
_MARGIN: Final = 26
_HEAD: Final = 58
_FOOT: Final = 74
_SIZE: Final = 11.0
_SPACING: Final = Spacing(between_layers=44, between_boxes=12, between_arrows=7)


def svg_comparison(program: Program, placement: Placement) -> str:
    """Return an SVG. On the left is the mesh in which each service that can host a sidecar has one, on the right the
    mesh of the placement, and below are the numbers of sidecars."""
    shown = around_adms(scene(program, placement), MAX_NODES)
    boxes = [Box(min(170.0, max(58.0, drawing.text_width(node.name, _SIZE) + 18)), 24) for node in shown.nodes]
    layout = layered(boxes, [(edge.source, edge.destination) for edge in shown.edges], _SPACING)
    panel = max(layout.width, 260) + 2 * _MARGIN
    height = _HEAD + layout.height + _FOOT + _MARGIN
    every, needed = shown.hosts, shown.adms
    unable = shown.services - shown.hosts
    which = "every service that can host one gets a sidecar" if unable else "every service gets a sidecar"
    saved = f"{round(100 * (every - needed) / every)}% fewer" if needed < every else ""
    left = ("A full mesh", which, _count(every), "")
    right = ("Compiled by admc", "only where a policy needs one", _count(needed), saved)
    body = [
        *_panel(shown, layout, boxes, 0, panel, left, full=True),
        f'<path d="M{drawing.number(panel)} {_MARGIN}V{drawing.number(height - _MARGIN)}" '
        f'stroke="{drawing.SHEET_EDGE}"/>',
        *_panel(shown, layout, boxes, panel, panel, right, full=False),
    ]
    if shown.hidden:
        note = f"{shown.hidden:,} services are counted, but left out of the drawing"
        body.append(drawing.words(panel, height - 10, note, 11, drawing.MUTED, anchor="middle"))
    description = (
        f"Left: a full mesh has {_count(every)}, one for each service{' that can host one' if unable else ''}. "
        f"Right: the compiled mesh of {shown.app} has {_count(needed)}{f', {saved}' if saved else ''}."
    )
    return drawing.document(2 * panel, height, f"Sidecars of {shown.app}: full and compiled", description, body)


def _count(count: int) -> str:
    return f"{count:,} sidecar{'' if count == 1 else 's'}"


def _panel(
    shown: Scene,
    layout: Layout,
    boxes: list[Box],
    left: float,
    width: float,
    told: tuple[str, str, str, str],
    *,
    full: bool,
) -> Iterator[str]:
    title, subtitle, count, saved = told
    middle = left + width / 2
    yield drawing.words(middle, 32, title, 15, bold=True, anchor="middle")
    yield drawing.words(middle, 50, subtitle, 11.5, drawing.MUTED, anchor="middle")
    yield f'<g transform="translate({drawing.number(left + (width - layout.width) / 2)} {_HEAD + 12})">'
    for edge, route in zip(shown.edges, layout.routes, strict=True):
        if route:
            yield drawing.arrow(route, drawing.LINE, 1, head=5)
        else:
            yield from _call_to_self(layout.corners[edge.source])
    for node, corner, box in zip(shown.nodes, layout.corners, boxes, strict=True):
        hosts = node.adm or (full and node.can_host and not node.external)
        fill = drawing.ADM_CARD if hosts else drawing.SHEET if node.external else drawing.CARD
        edge_colour = drawing.ADM if hosts else drawing.CARD_EDGE
        radius, dash = (12, "3 3") if node.external else (6, "")
        yield drawing.rectangle(corner.x, corner.y, box.width, box.height, radius, fill, edge_colour, dash=dash)
        name = drawing.shortened(node.name, _SIZE, box.width - 10)
        ink = drawing.INK if hosts else drawing.MUTED
        yield drawing.words(corner.x + box.width / 2, corner.y + 16, name, _SIZE, ink, anchor="middle")
        if hosts:
            yield drawing.hexagon(corner.x + box.width - 1, corner.y + 1, 7, drawing.ADM, drawing.SHEET)
    yield "</g>"
    at = _HEAD + 12 + layout.height + 42
    colour = drawing.MUTED if full else drawing.ADM
    yield drawing.words(middle, at, count, 20, colour, bold=True, anchor="middle")
    if saved:
        yield drawing.words(middle, at + 20, saved, 12.5, drawing.MUTED, anchor="middle")


def _call_to_self(corner: Point) -> Iterator[str]:
    x, y = drawing.number(corner.x + 24), drawing.number(corner.y)
    yield f'<path d="M{x} {y}c3 -13 -17 -13 -14 0" fill="none" stroke="{drawing.LINE}"/>'
