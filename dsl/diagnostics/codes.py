"""Every code that reading a program can give, with an example of the mistake and of the remedy.

Codes are stable: one is never given another meaning. docs/architecture.md says which range is about what.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsl.diagnostics.codes_graph import GRAPH
from dsl.diagnostics.codes_kinds import KINDS
from dsl.diagnostics.codes_scopes import SCOPES
from dsl.diagnostics.codes_text import NAMES, SYNTAX
from dsl.diagnostics.codes_values import FILES, VALUES


class CodeInfo(NamedTuple):
    """Both examples are whole programs. Where files are needed beside them, the explanation says so."""

    title: str
    explanation: str
    example_bad: str
    example_good: str


CODES: Mapping[str, CodeInfo] = {
    code: CodeInfo(*entry)
    for table in (SYNTAX, NAMES, VALUES, KINDS, SCOPES, GRAPH, FILES)
    for code, entry in table.items()
}
