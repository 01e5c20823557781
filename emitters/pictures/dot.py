"""A placement in Graphviz's language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emitters.pictures.scene import place_text, scene

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.pictures.scene import Edge, SceneNode
    from solver.placement import Placement

_INGRESS: Final = "#0f766e"
_EGRESS: Final = "#c2410c"
_NETWORK: Final = "#1d4ed8"


def dot(program: Program, placement: Placement) -> str:
    """A digraph: one node for each service and external, one edge for each pair that calls."""
    whole = scene(program, placement)
    lines = [
        f"digraph {_quoted(whole.app)} {{",
        "  rankdir=LR; bgcolor=white; nodesep=0.2; ranksep=0.9;",
        '  node [shape=box, style="rounded,filled", fillcolor="#f8fafc", color="#94a3b8", fontcolor="#334155", '
        'fontname="Helvetica,Arial,sans-serif", fontsize=11];',
        '  edge [color="#94a3b8", arrowsize=0.7, fontname="Helvetica,Arial,sans-serif", fontsize=9];',
    ]
    lines += [f"  n{index} [{_node(node)}];" for index, node in enumerate(whole.nodes)]
    lines += [f"  n{edge.source} -> n{edge.destination}{_edge(edge)};" for edge in whole.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _node(node: SceneNode) -> str:
    name = node.name + (f" ×{node.replicas}" if node.replicas > 1 else "")
    if node.external:
        return f'label={_quoted(name)}, style="rounded,dashed", fillcolor=white'
    lines = [name]
    if node.closed:
        lines.append("(closed)")
    lines += [f"{sitting.place}: {sitting.label}" for sitting in node.policies]
    if not node.adm:
        style = "" if node.can_host else ', style="rounded,filled,dashed"'
        return f"label={_quoted(*lines)}{style}"
    return f'label={_quoted(*lines)}, fillcolor="#eef2ff", color="#4f46e5", fontcolor="#1e1b4b", penwidth=2'


def _edge(edge: Edge) -> str:
    if not edge.enforced:
        return ""
    labels = [place_text(place, policies) for place, policies in edge.places]
    colour = _EGRESS if edge.egress else _INGRESS if edge.ingress else _NETWORK
    return f' [label={_quoted(*labels)}, color="{colour}", fontcolor="{colour}", penwidth=1.6]'


def _quoted(*lines: str) -> str:
    """A quoted string of centred lines. A backslash would begin an escape of Graphviz's own, so it is doubled."""
    clean = (line.encode("utf-8", "replace").decode() for line in lines)
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\0", " ") for line in clean)
    return '"' + "\\n".join(line.replace("&", "&amp;") for line in escaped) + '"'
