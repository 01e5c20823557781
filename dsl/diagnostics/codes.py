"""All codes of the language, each with an example of the mistake and a corrected example.

Codes are stable: the meaning of a code never changes. docs/architecture.md lists the ranges of codes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dsl.diagnostics.codes_graph import GRAPH
from dsl.diagnostics.codes_kinds import KINDS
from dsl.diagnostics.codes_matches import MATCHES
from dsl.diagnostics.codes_requests import REQUESTS, TESTS
from dsl.diagnostics.codes_scopes import SCOPES
from dsl.diagnostics.codes_text import NAMES, SYNTAX
from dsl.diagnostics.codes_values import FILES, VALUES


class CodeInfo(NamedTuple):
    """Both examples are complete programs. The explanation names the other files that they need."""

    title: str
    explanation: str
    example_bad: str
    example_good: str


CODES: Mapping[str, CodeInfo] = {
    code: CodeInfo(*entry)
    for table in (SYNTAX, NAMES, REQUESTS, TESTS, VALUES, KINDS, SCOPES, MATCHES, GRAPH, FILES)
    for code, entry in table.items()
}
