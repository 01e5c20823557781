"""What the kinds of the prelude are for, in words for people: `kinds.toml`, read once in a process.

Types, ranges and defaults of parameters are not here: they stand in the prelude alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).parent.parent / "kinds.toml"
MESHES = ("envoy", "istio", "linkerd")


class Example(NamedTuple):
    """`text` is one or more policies that compile in the frame."""

    title: str
    text: str


class Guide(NamedTuple):
    """One kind. Keys of `called`, `named` and `words` are names elsewhere, as they are written there."""

    kind: str
    group: str
    does: str
    elsewhere: tuple[tuple[str, str], ...]
    """(Envoy, Istio or Linkerd, what does the same there)."""
    examples: tuple[Example, ...]
    parameters: Mapping[str, str]
    called: tuple[str, ...]
    named: Mapping[str, str]
    words: Mapping[str, str]

    @property
    def sentence(self) -> str:
        return f"`{self.kind}` {self.does}"


@lru_cache(maxsize=1)
def guides() -> Mapping[str, Guide]:
    """Kind -> guide, in the order in which people are shown them."""
    groups = {name: kinds for name, kinds in _document().items() if isinstance(kinds, dict)}
    return {kind: _guide(kind, group, entry) for group, kinds in groups.items() for kind, entry in kinds.items()}


@lru_cache(maxsize=1)
def frame() -> str:
    """The application that the examples stand in."""
    return str(_document()["frame"])


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    import tomllib

    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _guide(kind: str, group: str, entry: Mapping[str, Any]) -> Guide:
    return Guide(
        kind,
        group,
        entry["does"],
        tuple((mesh.capitalize(), entry[mesh]) for mesh in MESHES if mesh in entry),
        tuple(Example(title, text) for title, text in entry["examples"]),
        entry.get("parameters", {}),
        tuple(entry.get("called", ())),
        entry.get("named", {}),
        entry.get("words", {}),
    )
