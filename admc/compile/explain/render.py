"""Renders an explanation as text, Markdown or JSON."""

from __future__ import annotations

import json
import textwrap

from admc.base.findings.markdown import code, fenced, prose
from admc.base.findings.report import Format, place
from admc.base.terminal import visible
from admc.compile.explain.explanation import Explanation, Point

WIDTH = 100


def render(explanation: Explanation, folder: str, format_: Format, width: int = WIDTH) -> str:
    if format_ is Format.JSON:
        return _json(explanation, folder)
    if format_ is Format.MARKDOWN:
        return _markdown(explanation, folder)
    return _text(explanation, folder, width)


def _places(point: Point, folder: str) -> list[str]:
    places = (place(span, folder) for span in point.spans)
    return list(dict.fromkeys(f"{where.path}:{where.line}" for where in places))


def _text(explanation: Explanation, folder: str, width: int) -> str:
    lines = [*textwrap.wrap(visible(explanation.answer), width, break_long_words=False)]
    for part in explanation.sections:
        lines += ["", f"{visible(part.heading)}:"]
        for point in part.points:
            at = ", ".join(_places(point, folder))
            entry = visible(point.text) + (f"  [{visible(at)}]" if at else "")
            lines += textwrap.wrap(
                entry, width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False
            )
    for label, example in explanation.examples:
        lines += ["", f"{label}:", *(f"    {visible(line)}".rstrip() for line in example.strip("\n").split("\n"))]
    return "\n".join(lines) + "\n"


def _markdown(explanation: Explanation, folder: str) -> str:
    lines = [f"## {prose(explanation.subject)}", "", prose(explanation.answer)]
    for part in explanation.sections:
        lines += ["", f"### {prose(part.heading)}", ""]
        for point in part.points:
            at = ", ".join(code(where) for where in _places(point, folder))
            lines.append(f"- {prose(point.text)}" + (f" ({at})" if at else ""))
    for label, example in explanation.examples:
        lines += ["", f"{prose(label)}:", "", fenced(example)]
    return "\n".join(lines) + "\n"


def _json(explanation: Explanation, folder: str) -> str:
    document = {
        "subject": explanation.subject,
        "answer": explanation.answer,
        "sections": [
            {
                "heading": part.heading,
                "points": [
                    {"text": point.text, "lines": [dict(place(span, folder)._asdict()) for span in point.spans]}
                    for point in part.points
                ],
            }
            for part in explanation.sections
        ],
        "examples": [{"label": label, "text": text} for label, text in explanation.examples],
    }
    return json.dumps(document, indent=2) + "\n"
