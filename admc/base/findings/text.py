"""Findings as text: the message, the marked source line, the cause and the hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from admc.base.findings.excerpt import marked_line
from admc.base.findings.report import Report, counts, place
from admc.base.terminal import visible
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.text import Span

BOLD, RED, YELLOW, BLUE, RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;34m", "\x1b[0m"
TONES = {Severity.ERROR: RED, Severity.WARNING: YELLOW, Severity.NOTE: BLUE}

_Paint = Callable[[str, str], str]


def render(report: Report, *, colour: bool = False) -> str:
    """Return a block for each finding, and their count. The text is empty without findings."""
    return render_all([report], colour=colour)


def render_all(reports: Sequence[Report], *, colour: bool = False) -> str:
    """Several reports as one, with one count at the end."""
    paint = _paint if colour else _plain
    blocks = [_block(item, report.folder, paint) for report in reports for item in report.diagnostics]
    if not blocks:
        return ""
    diagnostics = tuple(item for report in reports for item in report.diagnostics)
    return "\n\n".join(blocks) + f"\n\n{counts(diagnostics)}\n"


def _paint(style: str, text: str) -> str:
    return f"{style}{text}{RESET}" if text else ""


def _plain(_style: str, text: str) -> str:
    return text


def _block(item: Diagnostic, folder: str, paint: _Paint) -> str:
    tone = TONES[item.severity]
    lines = [f"{paint(tone, f'{item.severity.value}[{item.code}]')}: {paint(BOLD, visible(item.message))}"]
    numbers = [span.line for span in (item.span, *(related.span for related in item.related)) if span is not None]
    gutter = len(str(max(numbers, default=0)))
    if item.span is not None:
        lines += _excerpt(item.span, folder, gutter, "", tone, paint)
    bar = " " * gutter + " " + paint(BLUE, "=")
    if item.cause:
        lines.append(f"{bar} because: {visible(item.cause)}")
    if item.hint:
        lines.append(f"{bar} hint: {visible(item.hint)}")
    for related in item.related:
        lines += _excerpt(related.span, folder, gutter, visible(related.message), BLUE, paint)
    return "\n".join(lines)


def _excerpt(span: Span, folder: str, gutter: int, label: str, tone: str, paint: _Paint) -> list[str]:
    where = place(span, folder)
    indent = " " * gutter
    shown, mark_at, mark_width = marked_line(span)
    arrow = f"{indent}{paint(BLUE, '-->')} {visible(where.path)}:{where.line}:{where.column}"
    if not shown.strip():  # an empty file, or a hidden source
        return [f"{arrow} {label}".rstrip()]
    mark = " " * mark_at + paint(tone, "^" * mark_width + (f" {label}" if label else ""))
    return [
        arrow,
        f"{indent} {paint(BLUE, '|')}",
        f"{paint(BLUE, str(where.line).rjust(gutter))} {paint(BLUE, '|')} {shown}".rstrip(),
        f"{indent} {paint(BLUE, '|')} {mark}",
    ]
