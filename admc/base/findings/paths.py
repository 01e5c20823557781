"""Paths of findings: a span has one relative to the program's folder, a user needs it from the working directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dsl.diagnostics.diagnostic import Diagnostic, Related
from dsl.text import SourceText, Span


def shown_path(path: str, folder: str) -> str:
    """A span's path from the working directory. Text that is not a file (the prelude) keeps its name."""
    if not folder or path.startswith(("/", "<")):
        return path
    return f"{folder.rstrip('/')}/{path}" if folder != "/" else f"/{path}"


def from_here(diagnostics: Sequence[Diagnostic], folder: str) -> list[Diagnostic]:
    """The same findings with paths that open from the working directory."""
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
