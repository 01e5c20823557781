"""Findings as one JSON document, in pure ASCII, so that every terminal and diff shows it correctly."""

from __future__ import annotations

import json

from admc import __version__
from admc.base.findings.report import Report, place
from dsl.diagnostics.diagnostic import Diagnostic
from dsl.text import Span

SCHEMA_VERSION = 1


def render(report: Report) -> str:
    document = {
        "schema_version": SCHEMA_VERSION,
        "tool": "admc",
        "version": __version__,
        "exit_code": int(report.exit_code),
        **report.facts,
        "diagnostics": [_diagnostic(item, report.folder) for item in report.diagnostics],
    }
    return json.dumps(document, indent=2) + "\n"


def _diagnostic(item: Diagnostic, folder: str) -> dict[str, object]:
    return {
        "code": item.code,
        "severity": item.severity.value,
        "message": item.message,
        "cause": item.cause,
        "hint": item.hint,
        "location": _location(item.span, folder),
        "related": [{"message": r.message, "location": _location(r.span, folder)} for r in item.related],
    }


def _location(span: Span | None, folder: str) -> dict[str, object] | None:
    return None if span is None else dict(place(span, folder)._asdict())
