"""A placement as an SVG picture, drawn by admc alone.

Services without a sidecar stay in the background. The services that host an ADM stand out, with the policies that the
ADM enforces, and their calls. A dot on an arrow marks the end at which the policies are enforced. Policies
that a NetworkPolicy alone enforces are rows of its destination, with an ADM or without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.program import Place
from emitters.pictures import drawing
from emitters.pictures.layout import Box, Point, layered
from emitters.pictures.scene import around_adms, place_text, scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Program
    from emitters.pictures.layout import Layout
    from emitters.pictures.scene import Edge, Scene, SceneNode, Sitting
    from solver.placement import Placement

MAX_NODES: Final = 300
"""Most nodes of a picture. Of a larger application, only the surroundings of its ADMs are drawn."""
MAX_ROWS: Final = 6
"""Most policies that are written out in one ADM; the others are counted."""

_MARGIN: Final = 28
_TITLE: Final = 64
_NAME: Final = 13.0
_ROW: Final = 11.5
_ROW_HEIGHT: Final = 18
_HEADER: Final = 28
_PLAIN_HEIGHT: Final = 30
_WIDEST: Final = 260


def svg(program: Program, placement: Placement) -> str:
    """The placement as one SVG document."""
    whole = scene(program, placement)
    shown = around_adms(whole, MAX_NODES)
    boxes = [_box(node) for node in shown.nodes]
    layout = layered(boxes, [(edge.source, edge.destination) for edge in shown.edges])
    legend = _legend(shown, max(layout.width, 860))
    title = f"Sidecars of {shown.app}"
    width = max(layout.width, legend.width, drawing.text_width(_summary(shown), 12.5)) + 2 * _MARGIN
    height = _TITLE + layout.height + 2 * _MARGIN + 24 * len(legend.rows)
    left, top = (width - layout.width) / 2, _TITLE + _MARGIN / 2
    body = [
        drawing.words(_MARGIN, 34, shown.app, 18, bold=True),
        drawing.words(_MARGIN, 54, _summary(shown), 12.5, drawing.MUTED),
        f'<g transform="translate({drawing.number(left)} {drawing.number(top)})">',
        *_arrows(shown, layout),
        *(
            part
            for node, corner, box in zip(shown.nodes, layout.corners, boxes, strict=True)
            for part in _card(node, corner, box)
        ),
        "</g>",
        *legend.draw(_MARGIN, top + layout.height + _MARGIN + 8),
    ]
    return drawing.document(width, height, title, _description(shown), body)


def _summary(shown: Scene) -> str:
    parts = f"{_count(shown.adms, 'sidecar')} for {_count(shown.services, 'service')}"
    if shown.hosts != shown.services:
        parts += f", of which {shown.hosts:,} can host one"
    if shown.hidden:
        drawn = shown.services - shown.hidden
        parts += f" (drawn: {drawn:,} at calls with an enforcement; left out: {shown.hidden:,}"
        parts += f", of which {shown.hidden_adms:,} with a sidecar)" if shown.hidden_adms else ")"
    return parts


def _description(shown: Scene) -> str:
    sentences = [f"{_summary(shown)}."]
    for node in shown.nodes:
        rows = ", ".join(_told(sitting) for sitting in node.policies)
        if node.adm:
            sentences.append(f"{node.name} hosts a sidecar: {rows}.")
        elif rows:
            sentences.append(f"{node.name} has no sidecar: {rows}.")
    return " ".join(sentences)


def _told(sitting: Sitting) -> str:
    return place_text(sitting.place, (sitting.label,))


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _box(node: SceneNode) -> Box:
    name = drawing.text_width(_title(node), _NAME) + 28
    rows = _rows(node)
    if not node.adm and not rows:
        return Box(min(_WIDEST, max(84, name)), _PLAIN_HEIGHT)
    widest = max((drawing.text_width(text, _ROW) for _, text in rows), default=0) + 46
    return Box(min(_WIDEST, max(120, name + 44, widest)), _HEADER + _ROW_HEIGHT * len(rows) + 8)


def _title(node: SceneNode) -> str:
    return node.name + (f" ×{node.replicas}" if node.replicas > 1 else "")


def _rows(node: SceneNode) -> list[tuple[Place | None, str]]:
    rows: list[tuple[Place | None, str]] = [(sitting.place, _row(sitting)) for sitting in node.policies]
    if len(rows) > MAX_ROWS:
        rows[MAX_ROWS - 1 :] = [(None, f"and {len(rows) - MAX_ROWS + 1} more")]
    return rows


def _row(sitting: Sitting) -> str:
    crowded = drawing.text_width(sitting.label, _ROW) > _WIDEST - 46
    if len(sitting.destinations) > 2 or (crowded and len(sitting.destinations) > 1):
        return f"{sitting.policy} → {len(sitting.destinations)} services"
    return sitting.label


def _card(node: SceneNode, corner: Point, box: Box) -> Iterator[str]:
    x, y = corner
    yield "<g>"
    yield f"<title>{drawing.escaped(_tooltip(node))}</title>"
    if node.adm:
        yield from _adm_card(node, x, y, box)
    else:
        radius = box.height / 2 if node.external else 7
        dash = "3 3" if node.external else ("" if node.can_host else "6 3")
        fill = drawing.SHEET if node.external else drawing.CARD
        edge = drawing.MUTED if node.external else drawing.CARD_EDGE if node.can_host else drawing.MUTED
        yield drawing.rectangle(x, y, box.width, box.height, radius, fill, edge, dash=dash)
        name = drawing.shortened(_title(node), _NAME, box.width - 16)
        ink = drawing.MUTED if node.external else "#334155"
        middle = (_HEADER if node.policies else box.height) / 2
        yield drawing.words(x + box.width / 2, y + middle + 4.5, name, _NAME, ink, anchor="middle")
        yield from _listed(node, x, y, box)
    if node.closed:
        yield drawing.rectangle(x - 2, y + 5, 4, box.height - 10, 2, drawing.INK, drawing.SHEET)
    yield "</g>"


def _adm_card(node: SceneNode, x: float, y: float, box: Box) -> Iterator[str]:
    yield drawing.rectangle(x, y, box.width, box.height, 8, drawing.ADM_CARD, drawing.ADM, 1.5)
    # The header's corners are round at the top only.
    yield (
        f'<path d="M{drawing.number(x)} {drawing.number(y + _HEADER)}v{drawing.number(8 - _HEADER)}a8 8 0 0 1 8 -8'
        f"h{drawing.number(box.width - 16)}a8 8 0 0 1 8 8v{drawing.number(_HEADER - 8)}z"
        f'" fill="{drawing.ADM}"/>'
    )
    yield drawing.hexagon(x + 17, y + _HEADER / 2, 7.5, "#ffffff")
    yield drawing.hexagon(x + 17, y + _HEADER / 2, 4, drawing.ADM)
    name = drawing.shortened(_title(node), _NAME, box.width - 44)
    yield drawing.words(x + 32, y + _HEADER / 2 + 4.5, name, _NAME, "#ffffff", bold=True)
    yield from _listed(node, x, y, box)


def _listed(node: SceneNode, x: float, y: float, box: Box) -> Iterator[str]:
    """The rows of policies below the name of a node."""
    for spot, (place, text) in enumerate(_rows(node)):
        middle = y + _HEADER + 4 + _ROW_HEIGHT * (spot + 0.5)
        if place is not None:
            yield from _sign(place, x + 10, middle)
        shown = drawing.shortened(text, _ROW, box.width - 40)
        yield drawing.words(x + 32, middle + 4, shown, _ROW, drawing.INK if place else drawing.MUTED)


def _sign(place: Place, x: float, y: float) -> Iterator[str]:
    """An arrow into a wall or out of one, or, for the network, through a gap in one."""
    if place is Place.NETWORK:
        middle = drawing.number(x + 6)
        gap = f"M{middle} {drawing.number(y - 7)}v4.5M{middle} {drawing.number(y + 2.5)}v4.5"
        yield f'<path d="{gap}" stroke="{drawing.NETWORK}" stroke-width="2"/>'
        yield (
            f'<path d="M{drawing.number(x)} {drawing.number(y)}h10" stroke="{drawing.NETWORK}" stroke-width="1.6"'
            ' fill="none"/>'
        )
        yield drawing.polygon([(x + 14, y), (x + 9, y - 3.4), (x + 9, y + 3.4)], drawing.NETWORK)
        return
    colour = drawing.INGRESS if place is Place.INGRESS else drawing.EGRESS
    wall, start = (x + 14, x) if place is Place.INGRESS else (x, x + 2)
    yield f'<path d="M{drawing.number(wall)} {drawing.number(y - 6)}v12" stroke="{colour}" stroke-width="2"/>'
    yield (
        f'<path d="M{drawing.number(start)} {drawing.number(y)}h7.5" stroke="{colour}" stroke-width="1.6" fill="none"/>'
    )
    tip = start + 11.5
    yield drawing.polygon([(tip, y), (tip - 5.5, y - 3.8), (tip - 5.5, y + 3.8)], colour)


def _tooltip(node: SceneNode) -> str:
    if node.external:
        return f"{node.name}: outside the mesh"
    lines = [f"{node.name}: {_count(node.replicas, 'replica')}"]
    if not node.adm:
        lines.append("no sidecar" if node.can_host else "cannot host a sidecar")
    lines += [_told(sitting) for sitting in node.policies]
    if node.closed:
        lines.append("closed to undeclared callers")
    return ", ".join(lines)


def _arrows(shown: Scene, layout: Layout) -> Iterator[str]:
    # Quiet arrows first: where two cross, the enforced one is on top.
    for loud in (False, True):
        for edge, route in zip(shown.edges, layout.routes, strict=True):
            if edge.enforced is loud:
                yield from _arrow(shown, edge, route or _loop(layout, edge))


def _loop(layout: Layout, edge: Edge) -> tuple[Point, ...]:
    corner = layout.corners[edge.source]
    return (Point(corner.x + 30, corner.y), Point(corner.x + 10, corner.y))


def _arrow(shown: Scene, edge: Edge, route: tuple[Point, ...]) -> Iterator[str]:
    colour = (
        drawing.EGRESS
        if edge.egress
        else drawing.INGRESS
        if edge.ingress
        else drawing.NETWORK
        if edge.network
        else drawing.LINE
    )
    loud = edge.enforced
    source, destination = shown.nodes[edge.source].name, shown.nodes[edge.destination].name
    if loud:
        told = "; ".join(place_text(place, policies) for place, policies in edge.places)
        yield f"<g><title>{drawing.escaped(f'{source} → {destination}: {told}')}</title>"
    if edge.source == edge.destination:
        yield _self_arrow(route, colour, 1.8 if loud else 1.2)
    else:
        yield drawing.arrow(route, colour, 1.8 if loud else 1.2)
    if edge.egress:
        outward = 8 if route[1].x >= route[0].x else -8
        yield _dot(Point(route[0].x + outward, route[0].y), drawing.EGRESS)
    # Beside the arrow's head, so that all can be seen; a request meets the network first.
    inward = -10 if route[-1].x >= route[-2].x else 10
    if edge.network:
        yield _dot(Point(route[-1].x + inward * (1.9 if edge.ingress else 1), route[-1].y), drawing.NETWORK)
    if edge.ingress:
        yield _dot(Point(route[-1].x + inward, route[-1].y), drawing.INGRESS)
    if loud:
        yield "</g>"


def _self_arrow(route: tuple[Point, ...], colour: str, width: float) -> str:
    start, end = route
    back = drawing.number(end.x - start.x)
    return (
        f'<path d="M{drawing.number(start.x)} {drawing.number(start.y)}c4 -18 -24 -18 {back} -5"'
        f' fill="none" stroke="{colour}" stroke-width="{drawing.number(width)}"/>'
        + drawing.polygon([(end.x, end.y), (end.x - 3.5, end.y - 6.5), (end.x + 3.5, end.y - 6.5)], colour)
    )


def _dot(at: Point, colour: str) -> str:
    return (
        f'<circle cx="{drawing.number(at.x)}" cy="{drawing.number(at.y)}" r="4" fill="{colour}" '
        f'stroke="{drawing.SHEET}" stroke-width="1.2"/>'
    )


class _Legend:
    """Signs of the picture with their meaning: only those that occur in it."""

    def __init__(self, entries: list[tuple[str, str]], room: float) -> None:
        self.rows: list[list[tuple[str, str, float]]] = [[]]
        self.width = 0.0
        at = 0.0
        for sign, meaning in entries:
            step = 40 + drawing.text_width(meaning, 11.5) + 20
            if at and at + step > room:
                self.rows.append([])
                at = 0.0
            self.rows[-1].append((sign, meaning, at))
            at += step
            self.width = max(self.width, at)

    def draw(self, left: float, top: float) -> Iterator[str]:
        for spot, row in enumerate(self.rows):
            y = top + 24 * spot
            for sign, meaning, at in row:
                yield from _legend_sign(sign, left + at, y)
                yield drawing.words(left + at + 40, y + 4, meaning, 11.5, drawing.MUTED)


def _legend(shown: Scene, room: float) -> _Legend:
    edges = shown.edges
    nodes = shown.nodes
    entries = [
        ("adm", "hosts a sidecar (ADM)", any(node.adm for node in nodes)),
        ("plain", "no sidecar", any(not node.adm and node.can_host and not node.external for node in nodes)),
        ("cannot", "cannot host one", any(not node.can_host for node in nodes)),
        ("external", "outside the mesh", any(node.external for node in nodes)),
        ("ingress", "enforced at the receiver's ingress", any(edge.ingress for edge in edges)),
        ("egress", "enforced at the sender's egress", any(edge.egress for edge in edges)),
        (
            "network",
            "enforced by a NetworkPolicy alone",
            any(sitting.place is Place.NETWORK for node in nodes for sitting in node.policies),
        ),
        ("call", "call without a policy", any(not edge.enforced for edge in edges)),
        ("closed", "closed to undeclared callers", any(node.closed for node in nodes)),
    ]
    return _Legend([(sign, meaning) for sign, meaning, occurs in entries if occurs], room)


def _legend_sign(sign: str, x: float, y: float) -> Iterator[str]:
    a, b = Point(x, y), Point(x + 30, y)
    match sign:
        case "adm":
            yield drawing.rectangle(x, y - 8, 30, 16, 4, drawing.ADM, drawing.ADM)
            yield drawing.hexagon(x + 15, y, 5, "#ffffff")
        case "plain":
            yield drawing.rectangle(x, y - 8, 30, 16, 4, drawing.CARD, drawing.CARD_EDGE)
        case "cannot":
            yield drawing.rectangle(x, y - 8, 30, 16, 4, drawing.CARD, drawing.MUTED, dash="6 3")
        case "external":
            yield drawing.rectangle(x, y - 8, 30, 16, 8, drawing.SHEET, drawing.MUTED, dash="3 3")
        case "ingress":
            yield drawing.arrow([a, b], drawing.INGRESS, 1.8)
            yield _dot(Point(x + 20, y), drawing.INGRESS)
        case "egress":
            yield drawing.arrow([a, b], drawing.EGRESS, 1.8)
            yield _dot(Point(x + 4, y), drawing.EGRESS)
        case "network":
            yield drawing.arrow([a, b], drawing.NETWORK, 1.8)
            yield _dot(Point(x + 20, y), drawing.NETWORK)
        case "call":
            yield drawing.arrow([a, b], drawing.LINE, 1.2)
        case _:
            yield drawing.rectangle(x + 11, y - 8, 19, 16, 4, drawing.CARD, drawing.CARD_EDGE)
            yield drawing.rectangle(x + 9, y - 6, 4, 12, 2, drawing.INK, drawing.SHEET)
