"""The advice as Markdown, for a comment on a change: the head, the reasons, and then the findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.base.findings.markdown import code, prose
from admc.istio.text import line_of, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.istio.advice import Advice
    from admc.istio.reasons import Reason

_MOST_ROWS = 30


def render(advice: Advice, findings: str) -> str:
    """`findings` are those of the run, as Markdown."""
    lines = ["```text", *(line.replace("```", "'''") for line in summary(advice)), "```", ""]
    if advice.answer.reasons:
        lines += [*_table(advice), ""]
    return "\n".join(lines) + "\n" + findings


def _table(advice: Advice) -> Iterator[str]:
    yield "| sidecars | alone | layer | reason | at |"
    yield "|---:|---:|---:|---|---|"
    for reason in advice.answer.reasons[:_MOST_ROWS]:
        yield f"| {reason.sidecars} | {reason.alone} | {int(reason.layer)} | {_shown(reason)} | {_at(reason)} |"
    left = len(advice.answer.reasons) - _MOST_ROWS
    if left > 0:
        yield f"\n{left} more reasons are in `--format json`."


def _shown(reason: Reason) -> str:
    does = ", ".join(map(str, reason.whats))
    return prose(f"{reason.name}: {does}" if does else reason.name)


def _at(reason: Reason) -> str:
    return "" if reason.place is None else code(line_of(reason.place)).replace("|", "\\|")
