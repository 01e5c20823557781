"""The content of a page: a graph, and sections of text, tables and bars.

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
    """`bad`, `good` or `quiet`; empty for plain text."""


@document
class Bar:
    """One bar. `fraction`, `low` and `high` are shares of the longest bar, including its interval."""

    label: str
    text: str
    """The figure in words."""
    fraction: float
    low: float | None = None
    """The ends of the interval; None where the profile has no interval."""
    high: float | None = None
    look: str = ""
    """`none`, `plan`, `mesh`, `layer4` or `layer7`; empty for a plain bar."""
    node: int | None = None
    solid: float | None = None
    """The share of the longest bar that has the full colour; the rest of this bar is pale. None: all has it."""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()
    """A table that a click on the bar opens."""
    note: str = ""
    """A sentence under the table."""


@document
class Key:
    """One line of the legend."""

    look: str
    """The CSS class of its sample."""
    text: str


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
    legend: tuple[Key, ...] = ()
    """The looks of its bars."""


@document
class BarGroup:
    """Bars of one unit."""

    title: str
    bars: tuple[Bar, ...]


@document
class Node:
    """A box of the graph. `x` and `y` are the pixel coordinates of its middle."""

    name: str
    """The whole name, for the search of the page."""
    label: str
    """The drawn text, which fits into the box."""
    shape: str
    """`service`, `database`, `external` or `callers` (those that the program does not declare)."""
    adm: bool
    state: str
    """`came`, `gone`, `changed` or `same` in a difference; empty for a plan."""
    closed: bool
    hosts: bool
    """Whether the party can host an ADM."""
    x: float
    y: float
    width: float
    height: float
    sign: float
    """The diameter of the hexagon of its ADM; 0 without an ADM."""
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
    """x and y of each point of the line, including its ends; empty for a straight line and for a call to itself."""
    policies: tuple[int, ...]
    panel: tuple[Section, ...]
    only: str = ""
    """`base` or `head` if only this side of a difference has the call; else empty."""


@document
class Page:
    title: str
    facts: tuple[str, ...]
    """The figures under the title."""
    doubts: tuple[str, ...]
    """Sentences about what the page leaves out or cannot tell."""
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    policies: tuple[str, ...]
    legend: tuple[Key, ...]
    sections: tuple[Section, ...]
    graph_note: str
    """A sentence about how to read the graph."""
    lead: tuple[Section, ...] = ()
    """Sections before the graph."""
    compares: bool = False
    """True for a difference: a reader can show one side of the graph alone."""
