"""The built-in kinds, read from `prelude.adm` once in a process."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics, ProgramError
from dsl.kinds.kinds import DeclaredKind, resolve_kind
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.text import SourceText

if TYPE_CHECKING:
    from collections.abc import Mapping

_FILE = Path(__file__).parent.parent / "prelude.adm"
SHOWN = "<prelude>"
"""Not a path, since a program may have a `prelude.adm` of its own."""


@lru_cache(maxsize=1)
def kinds() -> Mapping[str, DeclaredKind]:
    diagnostics = Diagnostics()
    source = SourceText(SHOWN, _FILE.read_text(encoding="utf-8"))
    declared_kinds: dict[str, DeclaredKind] = {}
    for statement in parse(source, diagnostics).statements:
        if isinstance(statement, tree.Kind):
            declared = resolve_kind(statement, None, diagnostics, prelude=True)
            if declared is not None:
                declared_kinds[declared.kind.name] = declared
    if diagnostics.has_errors:
        raise ProgramError(diagnostics.items)
    return declared_kinds
