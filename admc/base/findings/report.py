"""The report that all renderers render: the findings of one run, and the folder of its files.

Spans have paths relative to the program's folder, because a plan must not change with the working directory. Users,
editors and code hosts need a path relative to the working directory, so the report has the folder.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from admc.base.findings.paths import shown_path
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS, Diagnostic, Severity
from dsl.text import Span


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    GITHUB = "github"
    JUNIT = "junit"


@dataclass(frozen=True)
class Report:
    diagnostics: tuple[Diagnostic, ...]
    exit_code: int = 0
    folder: str = ""
    """The program's folder as the user would type it; empty for the working directory."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the JSON format, as plain JSON values."""


class Place(NamedTuple):
    """A span with lines and columns from 1; the end column is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


def place(span: Span, folder: str) -> Place:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(max(span.start, span.end))
    return Place(shown_path(span.source.path, folder), line, column, end_line, end_column)


def counts(diagnostics: tuple[Diagnostic, ...]) -> str:
    """`2 errors, 1 warning`; empty where there is nothing."""
    parts = []
    for severity in Severity:
        number = sum(1 for item in diagnostics if item.severity is severity)
        if number:
            parts.append(f"{number} {severity.value}{'s' if number > 1 else ''}")
            if number >= MAX_DIAGNOSTICS:
                parts[-1] += f" (at most {MAX_DIAGNOSTICS} are shown: there may be more)"
    return ", ".join(parts)
