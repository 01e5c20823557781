"""Descriptions of the built-in kinds for users: `kinds.toml`, read once in a process.

Types, ranges and defaults of parameters are in the prelude alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

_FILE = Path(__file__).parent.parent / "kinds.toml"
MESHES = ("envoy", "istio", "linkerd")


class Example(NamedTuple):
    """`text` is one or more policies that compile in the program `frame`."""

    title: str
    text: str


class Guide(NamedTuple):
    """One kind. `called`, and the keys of `named` and `words`, are names of other meshes, as written there."""

    kind: str
    group: str
    does: str
    equivalents: tuple[tuple[str, str], ...]
    """Pairs of Envoy, Istio or Linkerd and the feature there that does the same."""
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
    """Kind -> guide, in the order of the documentation."""
    groups = {name: kinds for name, kinds in _document().items() if isinstance(kinds, dict)}
    return {kind: _guide(kind, group, entry) for group, kinds in groups.items() for kind, entry in kinds.items()}


@lru_cache(maxsize=1)
def frame() -> str:
    """The program to which the examples are added."""
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
