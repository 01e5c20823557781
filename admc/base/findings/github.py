"""Findings as GitHub workflow commands, which GitHub shows beside the changed lines.

A workflow command is one line, and a line break in a message would start another command. So all characters that could
end a command or one of its properties are escaped as the runner expects it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admc.base.findings.report import Report, place
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}
_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def render(report: Report) -> str:
    """Return a line for each finding. Without findings it is one notice, so that a log shows that admc ran."""
    if not report.diagnostics:
        return "::notice title=admc::no findings\n"
    return "".join(_command(item, report.folder) + "\n" for item in report.diagnostics)


def _command(item: Diagnostic, folder: str) -> str:
    properties = {}
    if item.span is not None:
        where = place(item.span, folder)
        properties = {"file": where.path, "line": str(where.line), "col": str(where.column)}
        if where.end_line == where.line and where.end_column > where.column:
            properties |= {"endLine": str(where.end_line), "endColumn": str(where.end_column)}
    properties["title"] = f"admc {item.code}"
    lines = [item.message]
    if item.cause:
        lines.append(f"because: {item.cause}")
    if item.hint:
        lines.append(f"hint: {item.hint}")
    for related in item.related:
        where = place(related.span, folder)
        lines.append(f"{where.path}:{where.line}:{where.column}: {related.message}")
    return command(_COMMANDS[item.severity], properties, lines)


def command(name: str, properties: Mapping[str, str], lines: Sequence[str]) -> str:
    """One workflow command, without its line break: `error`, `warning` or `notice` with a message of several lines."""
    listed = ",".join(f"{key}={visible(value).translate(_PROPERTY)}" for key, value in properties.items())
    message = "\n".join(visible(line) for line in lines)
    return f"::{name} {listed}::{message.translate(_DATA)}"
