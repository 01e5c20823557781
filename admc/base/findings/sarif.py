"""Findings as SARIF 2.1.0, for code hosts and editors that collect results of many tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote

from admc import __version__
from admc.base.findings.report import Report, place
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic
from dsl.text import Span


def render(report: Report, title: Callable[[str], str]) -> str:
    """`title` gives the title of a code."""
    codes = sorted({item.code for item in report.diagnostics})
    rules = [{"id": code, "shortDescription": {"text": title(code)}} for code in codes]
    results = [_result(item, codes.index(item.code), report.folder) for item in report.diagnostics]
    return document(rules, results, {"executionSuccessful": report.exit_code == 0, "exitCode": int(report.exit_code)})


def document(
    rules: Sequence[Mapping[str, object]], results: Sequence[Mapping[str, object]], invocation: Mapping[str, object]
) -> str:
    """A log of one run of admc."""
    run = {
        "tool": {"driver": {"name": "admc", "version": __version__, "rules": rules}},
        "columnKind": "unicodeCodePoints",
        "invocations": [invocation],
        "results": results,
    }
    log = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(log, indent=2) + "\n"


def _result(item: Diagnostic, rule: int, folder: str) -> dict[str, object]:
    sentences = [item.message, item.cause and f"because: {item.cause}", item.hint and f"hint: {item.hint}"]
    result: dict[str, object] = {
        "ruleId": item.code,
        "ruleIndex": rule,
        "level": item.severity.value,
        "message": {"text": "\n".join(visible(sentence) for sentence in sentences if sentence)},
    }
    if item.span is not None:
        result["locations"] = [_location(item.span, folder)]
    if item.related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": visible(related.message)}, **_location(related.span, folder)}
            for number, related in enumerate(item.related, start=1)
        ]
    return result


def _location(span: Span, folder: str) -> dict[str, object]:
    where = place(span, folder)
    region = {
        "startLine": where.line,
        "startColumn": where.column,
        "endLine": where.end_line,
        "endColumn": where.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": uri(where.path)}, "region": region}}


def uri(path: str) -> str:
    """Return a path as a relative reference. Lone surrogates, which UTF-8 cannot encode, become `?`."""
    return quote(path, safe="/", errors="replace")
