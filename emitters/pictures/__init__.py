"""Pictures of a placement, as text: mermaid, Graphviz and SVG.

program + placement -> Scene (nodes and edges) -> layout (their places) -> text
"""

from emitters.pictures.comparison import svg_comparison
from emitters.pictures.dot import dot
from emitters.pictures.mermaid import mermaid
from emitters.pictures.svg import svg

__all__ = ["dot", "mermaid", "svg", "svg_comparison"]
