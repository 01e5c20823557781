"""The report that all renderers render: the findings of one run, and the folder of its files.

Spans have paths relative to the program's folder, because a plan must not change with the working directory. Users,
editors and code hosts need a path relative to the working directory, so the report has the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS, Diagnostic, Related, Severity
from dsl.text import SourceText, Span


def shown_path(path: str, folder: str) -> str:
    """Return a path relative to the working directory. An absolute path, and the name of a text without file, stay."""
    if not folder or path.startswith(("/", "<")):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def from_here(diagnostics: Sequence[Diagnostic], folder: str) -> list[Diagnostic]:
    """Return the findings with paths relative to the working directory."""
    sources: dict[int, SourceText] = {}

    def moved(span: Span) -> Span:
        source = sources.get(id(span.source))
        if source is None:
            source = SourceText(shown_path(span.source.path, folder), span.source.text)
            sources[id(span.source)] = source
        return span._replace(source=source)

    return [
        replace(
            item,
            span=None if item.span is None else moved(item.span),
            related=tuple(Related(moved(related.span), related.message) for related in item.related),
        )
        for item in diagnostics
    ]


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


class SourcePlace(NamedTuple):
    """The file, the lines and the columns of a span. Both count from 1, and the end column is exclusive."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int


def place(span: Span, folder: str) -> SourcePlace:
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(max(span.start, span.end))
    return SourcePlace(shown_path(span.source.path, folder), line, column, end_line, end_column)


def counts(diagnostics: tuple[Diagnostic, ...]) -> str:
    """Return `2 errors, 1 warning`, with a remark if a list was cut off at its maximum; empty without diagnostics."""
    parts = []
    for severity in Severity:
        number = sum(1 for item in diagnostics if item.severity is severity)
        if number:
            parts.append(f"{number} {severity.value}{'s' if number > 1 else ''}")
            if number >= MAX_DIAGNOSTICS:
                parts[-1] += f" (at most {MAX_DIAGNOSTICS} are shown: there may be more)"
    return ", ".join(parts)
