"""A placement as a mermaid flowchart, for pages that render mermaid (such as pull requests)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsl.program import Place
from emitters.pictures.scene import place_text, scene

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.pictures.scene import SceneNode
    from solver.placement import Placement

_STYLES: Final = (
    "classDef adm fill:#eef2ff,stroke:#4f46e5,stroke-width:2px,color:#1e1b4b",
    "classDef plain fill:#f8fafc,stroke:#94a3b8,color:#334155",
    "classDef cannot fill:#f8fafc,stroke:#94a3b8,stroke-dasharray:4 3,color:#334155",
    "classDef external fill:#ffffff,stroke:#64748b,stroke-dasharray:2 3,color:#334155",
)
_LINK: Final = {Place.INGRESS: "#0f766e", Place.EGRESS: "#c2410c", Place.NETWORK: "#1d4ed8"}
_DOMINANT: Final = (Place.EGRESS, Place.INGRESS, Place.NETWORK)
"""An arrow with policies at several places has the colour of the place that comes first here."""
MAX_EDGES: Final = 500
"""Most edges that mermaid draws by default."""


def mermaid(program: Program, placement: Placement) -> str:
    """Flowchart text: one node for each service and external, one arrow for each pair that calls, thick where a policy
    is enforced."""
    whole = scene(program, placement)
    lines = ["flowchart LR", f"  accTitle: Sidecars of {re.sub('[^A-Za-z0-9_-]', ' ', whole.app)}"]
    if len(whole.edges) > MAX_EDGES:
        lines.append(f"  %% {len(whole.edges)} edges: raise mermaid's maxEdges, which draws {MAX_EDGES} by default")
    lines += [f"  n{index}{_shape(node)}" for index, node in enumerate(whole.nodes)]
    coloured: dict[Place, list[str]] = {place: [] for place in _LINK}
    for number, edge in enumerate(whole.edges):
        labels = [escaped(place_text(place, policies)) for place, policies in edge.places]
        arrow = f'==>|"{"<br/>".join(labels)}"|' if labels else "-->"
        lines.append(f"  n{edge.source} {arrow} n{edge.destination}")
        if labels:
            coloured[next(place for place in _DOMINANT if place in dict(edge.places))].append(str(number))
    lines += [f"  {style}" for style in _STYLES]
    lines += [
        f"  linkStyle {','.join(numbers)} stroke:{_LINK[place]}" for place, numbers in coloured.items() if numbers
    ]
    return "\n".join(lines) + "\n"


def _shape(node: SceneNode) -> str:
    label = escaped(node.name) + (f" ×{node.replicas}" if node.replicas > 1 else "")
    if node.external:
        return f'(["{label}"]):::external'
    if node.closed:
        label += "<br/>(closed)"
    rows = [f"{sitting.place}: {escaped(sitting.label)}" for sitting in node.policies]
    if not node.adm:
        return f'["{"<br/>".join([label, *rows])}"]:::{"plain" if node.can_host else "cannot"}'
    return f'[["{"<br/>".join([f"<b>{label}</b>", *rows])}"]]:::adm'


def escaped(text: str) -> str:
    """Text inside mermaid's quotes: each letter with a meaning in mermaid or in HTML becomes a character code."""
    return re.sub(r"[^\w ,:→×-]", lambda match: f"#{ord(match[0])};", text)
