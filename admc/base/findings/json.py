"""Findings as one JSON document, in pure ASCII, so that every terminal and diff shows it correctly."""

from __future__ import annotations

import json

from admc import __version__
from admc.base.findings.report import Report, place
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.documents import LineNumber, plain, record
from dsl.text import Span

SCHEMA_VERSION = 1


@record
class Location:
    """Lines and columns count from 1, and the end column is exclusive."""

    path: str
    line: LineNumber
    column: LineNumber
    end_line: LineNumber
    end_column: LineNumber


@record
class RelatedRow:
    """Another place that a finding is about."""

    message: str
    location: Location | None


@record
class FindingRow:
    code: str
    severity: Severity
    message: str
    cause: str | None
    hint: str | None
    """What to do."""
    location: Location | None
    related: tuple[RelatedRow, ...]


def render(report: Report) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": "admc",
        "version": __version__,
        "exit_code": int(report.exit_code),
        **report.facts,
        "diagnostics": plain(finding_rows(report)),
    }
    return json.dumps(document, indent=2) + "\n"


def finding_rows(report: Report) -> tuple[FindingRow, ...]:
    return tuple(_row(item, report.folder) for item in report.diagnostics)


def _row(item: Diagnostic, folder: str) -> FindingRow:
    related = tuple(RelatedRow(other.message, _location(other.span, folder)) for other in item.related)
    location = _location(item.span, folder)
    return FindingRow(item.code, item.severity, item.message, item.cause, item.hint, location, related)


def _location(span: Span | None, folder: str) -> Location | None:
    return None if span is None else Location(*place(span, folder))
