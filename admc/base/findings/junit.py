"""JUnit XML, which continuous integration shows as a list of tests: findings, and the results of `admc test`.

Text of users is escaped twice. First, characters that do not print become escapes, as on a terminal, because XML 1.0
cannot have control characters. Then the characters of markup become references.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from admc.base.findings.report import Report, place
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


class Case(NamedTuple):
    """One test. It passed unless it has a `failure` or an `error` (one line, and all lines) or `skipped` (a reason)."""

    name: str
    suite: str
    file: str = ""
    line: int = 0
    failure: tuple[str, str] | None = None
    error: tuple[str, str] | None = None
    skipped: str | None = None


class Suite(NamedTuple):
    name: str
    cases: tuple[Case, ...]


def document(suites: Sequence[Suite]) -> str:
    cases = [case for suite in suites for case in suite.cases]
    body = "".join(_suite(suite) for suite in suites)
    return f"{HEAD}<testsuites{_attributes([('name', 'admc'), *_counts(cases)])}>\n{body}</testsuites>\n"


def render(report: Report) -> str:
    """Return a document with a case for each finding. Without findings, one case that passed shows that admc ran."""
    cases = tuple(case(item, report.folder, "admc") for item in report.diagnostics)
    return document([Suite("findings", cases or (Case("no findings", "admc"),))])


def case(item: Diagnostic, folder: str, suite: str) -> Case:
    """A finding as a case: one with `error` if it is an error. A warning or a note passes."""
    path, line = "", 0
    if item.span is not None:
        where = place(item.span, folder)
        path, line = where.path, where.line
    name = f"{item.code} {path}:{line}" if path else item.code
    shown = finding(item, folder)
    return Case(name, suite, path, line, error=shown if item.severity is Severity.ERROR else None)


def finding(item: Diagnostic, folder: str) -> tuple[str, str]:
    """Return a finding as one line, and as all its lines."""
    head = f"{item.code}: {item.message}"
    lines = [f"{item.severity.value} {head}"]
    if item.span is not None:
        where = place(item.span, folder)
        lines.append(f"{where.path}:{where.line}:{where.column}")
    lines += [f"because: {item.cause}"] if item.cause else []
    lines += [f"hint: {item.hint}"] if item.hint else []
    for related in item.related:
        where = place(related.span, folder)
        lines.append(f"{where.path}:{where.line}:{where.column}: {related.message}")
    return head, "\n".join(visible(line) for line in lines)


def _suite(suite: Suite) -> str:
    attributes = _attributes([("name", suite.name), *_counts(suite.cases)])
    return f"  <testsuite{attributes}>\n{''.join(_case(case) for case in suite.cases)}  </testsuite>\n"


def _counts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    failures = sum(case.failure is not None for case in cases)
    errors = sum(case.error is not None for case in cases)
    skipped = sum(case.skipped is not None for case in cases)
    counts = [("tests", str(len(cases))), ("failures", str(failures)), ("errors", str(errors))]
    return [*counts, ("skipped", str(skipped))] if skipped else counts


def _case(case: Case) -> str:
    given = [("name", case.name), ("classname", case.suite)]
    given += [("file", case.file), ("line", str(case.line))] if case.file else []
    start = f"    <testcase{_attributes(given)}"
    inner = [("failure", case.failure)] if case.failure else [("error", case.error)] if case.error else []
    if case.skipped is not None and not inner:
        return f"{start}>\n      <skipped{_attributes([('message', case.skipped)])}/>\n    </testcase>\n"
    if not inner:
        return f"{start}/>\n"
    body = "".join(_inner(tag, text) for tag, text in inner if text is not None)
    return f"{start}>\n{body}    </testcase>\n"


def _inner(tag: str, text: tuple[str, str]) -> str:
    message, lines = text
    shown = "\n".join(_text(line) for line in lines.split("\n"))
    return f"      <{tag}{_attributes([('message', message)])}>{shown}</{tag}>\n"


def _attributes(given: Iterable[tuple[str, str]]) -> str:
    return "".join(f' {name}="{_text(value)}"' for name, value in given)


def _text(value: str) -> str:
    return escape(visible(value), quote=True)
