"""Elements of an SVG text: shapes, words, and how wide words are.

Numbers have one decimal, so that pictures are small and equal on every machine. A picture has no ids and loads nothing
from elsewhere, so several pictures can stand in one page.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from emitters.pictures.layout import Point

FONT: Final = "system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif"

# The page may be dark or light, so the picture has a light sheet of its own.
SHEET: Final = "#ffffff"
SHEET_EDGE: Final = "#e2e8f0"
INK: Final = "#0f172a"
MUTED: Final = "#64748b"
LINE: Final = "#b6c2d1"
CARD: Final = "#f8fafc"
CARD_EDGE: Final = "#cbd5e1"
ADM: Final = "#4f46e5"
ADM_CARD: Final = "#f5f6ff"
INGRESS: Final = "#0f766e"
EGRESS: Final = "#c2410c"
NETWORK: Final = "#1d4ed8"

_NARROW: Final = frozenset("iljI.,:;'|!()[]{}`/\\ tfr-")
_WIDE: Final = frozenset("mwMW@%→×")


def number(value: float) -> str:
    text = f"{value:.1f}"
    return text.removesuffix(".0").replace("-0", "0") if text in ("-0.0", "-0") else text.removesuffix(".0")


def escaped(text: str) -> str:
    """Text for an element or a quoted attribute. Characters that XML does not allow at all become `?`."""
    allowed = "".join(
        c if c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff" else "?" for c in text
    )
    return (
        allowed.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace('"', "&quot;")
        .replace("'", "&#39;")
    )


def text_width(text: str, size: float) -> float:
    """About how wide a text is. Fonts differ, so this is on the generous side of the common sans-serif ones."""
    units = 0.0
    for c in text:
        if c in _NARROW:
            units += 0.36
        elif c in _WIDE:
            units += 0.9
        elif ord(c) >= 0x1100:
            units += 1.05
        elif c.isupper():
            units += 0.7
        else:
            units += 0.58
    return units * size


def shortened(text: str, size: float, room: float) -> str:
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if text_width(text, size) <= room:
        return text
    kept = text
    while kept and text_width(kept + "…", size) > room:
        kept = kept[:-1]
    return kept + "…"


def words(
    x: float, y: float, text: str, size: float = 12, fill: str = INK, *, bold: bool = False, anchor: str = "start"
) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{number(size)}" fill="{fill}"{weight}{place}>'
        f"{escaped(text)}</text>"
    )


def rectangle(
    x: float,
    y: float,
    width: float,
    height: float,
    radius: float,
    fill: str,
    stroke: str,
    stroke_width: float = 1,
    dash: str = "",
) -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
        f'rx="{number(radius)}" fill="{fill}" stroke="{stroke}" stroke-width="{number(stroke_width)}"{dashes}/>'
    )


def polygon(points: Iterable[tuple[float, float]], fill: str, stroke: str = "none") -> str:
    corners = " ".join(f"{number(x)},{number(y)}" for x, y in points)
    edge = "" if stroke == "none" else f' stroke="{stroke}"'
    return f'<polygon points="{corners}" fill="{fill}"{edge}/>'


def hexagon(x: float, y: float, radius: float, fill: str, stroke: str = "none") -> str:
    """The sign of a sidecar, flat on its left and right sides; its middle is (x, y)."""
    half, side = radius / 2, radius * 0.866
    corners = [(0, -radius), (side, -half), (side, half), (0, radius), (-side, half), (-side, -half)]
    return polygon([(x + dx, y + dy) for dx, dy in corners], fill, stroke)


def arrow(route: Sequence[Point], colour: str, width: float, *, head: float = 6.5) -> str:
    """A smooth line through the points with a head at its end. Each stretch leaves and arrives level."""
    end = route[-1]
    forward = end.x >= route[-2].x
    tip = head if forward else -head
    stops = [*route[:-1], type(end)(end.x - tip * 0.8, end.y)]
    path = [f"M{number(stops[0].x)} {number(stops[0].y)}"]
    for a, b in itertools.pairwise(stops):
        if a.y == b.y:
            path.append(f"L{number(b.x)} {number(b.y)}")
        else:
            bend = (b.x - a.x) * 0.5
            path.append(
                f"C{number(a.x + bend)} {number(a.y)} {number(b.x - bend)} {number(b.y)} {number(b.x)} {number(b.y)}"
            )
    return f'<path d="{"".join(path)}" fill="none" stroke="{colour}" stroke-width="{number(width)}"/>' + polygon(
        [(end.x, end.y), (end.x - tip, end.y - head * 0.5), (end.x - tip, end.y + head * 0.5)], colour
    )


def document(width: float, height: float, title: str, description: str, body: Iterable[str]) -> str:
    """A whole SVG file with a light sheet under `body`."""
    return (
        "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {number(width)} {number(height)}" '
                f'width="{number(width)}" height="{number(height)}" role="img" aria-label="{escaped(title)}" '
                f'font-family="{FONT}">',
                f"<title>{escaped(title)}</title>",
                f"<desc>{escaped(description)}</desc>",
                rectangle(0.5, 0.5, width - 1, height - 1, 12, SHEET, SHEET_EDGE),
                *body,
                "</svg>",
            ]
        )
        + "\n"
    )
