"""What a page shows: a graph, and sections of text, tables and bars.

Texts are plain text. Names stand between backticks, as in all sentences of admc; the browser shows these as code.
"""

from __future__ import annotations

from dsl.documents import document


@document
class Cell:
    """One cell of a table."""

    text: str
    node: int | None = None
    """A node that a click on the cell selects."""
    look: str = ""
    """`bad`, `good` or `quiet`; empty: as other text."""


@document
class Bar:
    """One bar. Fractions are of the longest bar, its interval included."""

    label: str
    text: str
    """The figure in words."""
    fraction: float
    low: float | None = None
    """The interval; None where the profile has none."""
    high: float | None = None
    look: str = ""
    """`none`, `plan` or `mesh`; empty: as other bars."""
    node: int | None = None


@document
class Section:
    title: str
    note: str = ""
    """A sentence under the title."""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    bars: tuple[Bar, ...] = ()
    groups: tuple[BarGroup, ...] = ()
    """Bars of different units, side by side."""
    folded: bool = False


@document
class BarGroup:
    """Bars of one unit."""

    title: str
    bars: tuple[Bar, ...]


@document
class Node:
    """A box of the graph. Coordinates are pixels, and of its middle."""

    name: str
    """The whole name, as the reader searches for it."""
    label: str
    """What is drawn: it fits into the box."""
    shape: str
    """`service`, `database`, `external` or `callers` (those that the program does not declare)."""
    adm: bool
    state: str
    """`came`, `gone`, `changed` or `same` in a difference; empty for a plan."""
    closed: bool
    hosts: bool
    """Whether it may host an ADM."""
    x: float
    y: float
    width: float
    height: float
    sign: float
    """Diameter of the hexagon of its ADM; 0 without one."""
    policies: tuple[int, ...]
    """Indices into `Page.policies`."""
    panel: tuple[Section, ...]


@document
class Edge:
    """All calls from one node to another."""

    source: int
    target: int
    look: str
    """`plain`, `ingress`, `egress` or `both`; in a difference `weaker`, `refused`, `came`, `gone` or `stricter`."""
    title: str
    points: tuple[float, ...]
    """x and y of each point to pass, its ends included; empty for a straight line, and for a call to itself."""
    policies: tuple[int, ...]
    panel: tuple[Section, ...]
    only: str = ""
    """`base` or `head`, if one side of a difference alone has the call."""


@document
class Key:
    """One line of the legend."""

    look: str
    """The class that draws its sample."""
    text: str


@document
class Page:
    title: str
    facts: tuple[str, ...]
    """What a reader has to know first."""
    doubts: tuple[str, ...]
    """What the page does not show, or cannot say."""
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    policies: tuple[str, ...]
    legend: tuple[Key, ...]
    sections: tuple[Section, ...]
    graph_note: str
    """How to read the graph, in a sentence."""
    lead: tuple[Section, ...] = ()
    """Sections before the graph."""
    compares: bool = False
    """The page of a difference: its graph can show one side alone."""
