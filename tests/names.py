"""Finds names in the product that do not say what they hold.

    python -m tests.names       one line for each: file, line, the name, and what to write instead; exit code 1

Tests may use them: a test has few names, all on one screen.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("admc", "dsl", "emitters", "solver", "xds_server")

INSTEAD = {
    "found": "name what it holds: `violations`, `listeners`, `match`",
    "each": "name an element of the collection: `pod`, `port`, `policy`",
    "said": "name what it holds and where it comes from: `declared_ports`, `peer_version`",
}


class VagueName(NamedTuple):
    path: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: `{self.name}`: {INSTEAD[self.name]}"


def find(path: str, source: str) -> list[VagueName]:
    """The places in a module that give one of these names, in order of lines."""
    places = {(line, name) for line, name in _given(ast.parse(source)) if name in INSTEAD}
    return [VagueName(path, line, name) for line, name in sorted(places)]


def _given(tree: ast.AST) -> Iterator[tuple[int, str | None]]:
    """Line and name of each local, parameter, field, function, class and imported module."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                yield node.lineno, name
            case ast.MatchMapping(rest=name) | ast.alias(asname=name):
                yield node.lineno, name
            case _:
                pass


def main() -> int:
    modules = sorted(module for folder in PRODUCT for module in (ROOT / folder).rglob("*.py"))
    names = [name for module in modules for name in find(str(module.relative_to(ROOT)), module.read_text("utf-8"))]
    for name in names:
        print(name)
    if names:
        print(f"{len(names)} names in {len({name.path for name in names})} files; see CONTRIBUTING.md, `Words`")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
