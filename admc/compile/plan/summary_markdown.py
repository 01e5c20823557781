"""The summary of a plan for a comment on a change."""

from __future__ import annotations

from collections.abc import Sequence

from admc.base.findings.markdown import cell, code, prose
from admc.base.findings.report import shown_path
from admc.compile.plan.cost_line import overhead_line
from admc.compile.plan.summary import Summary, headline

ROWS = 50


def render(summary: Summary, folder: str, notes: Sequence[str]) -> str:
    lines = [f"## {prose(summary.app)}: {prose(headline(summary))}", "", prose(summary.proof) + "\\."]
    costs = overhead_line(summary.plan)
    if costs is not None:
        lines += ["", prose(costs)]
    if summary.rows:
        lines += ["", "| ADM | ingress | egress | because |", "|---|---|---|---|"]
        lines += [
            f"| {code(row.service)} | {_names(row.ingress)} | {_names(row.egress)} | {cell(prose(row.because))} |"
            for row in summary.rows[:ROWS]
        ]
        if len(summary.rows) > ROWS:
            lines += ["", f"and {len(summary.rows) - ROWS} more ADMs"]
    if summary.plan.closed:
        closed = ", ".join(code(item.destination) for item in summary.plan.closed[:ROWS])
        lines += ["", f"Closed to undeclared callers by NetworkPolicy: {closed}"]
    if summary.in_network:
        alone = ", ".join(code(item) for item in summary.in_network[:ROWS])
        lines += ["", f"Enforced by these NetworkPolicies alone: {alone}"]
    if summary.limits:
        lines += ["", "### Timeouts and retries on one call", ""]
        lines += [f"- {prose(limit)}" for limit in summary.limits[:ROWS]]
        if len(summary.limits) > ROWS:
            lines += ["", f"and {len(summary.limits) - ROWS} more"]
    if summary.plan.warnings:
        lines += ["", "### Warnings", ""]
        for warning in summary.plan.warnings:
            at = "" if warning.line is None else f"{shown_path(warning.line.path, folder)}:{warning.line.line}"
            lines.append(f"- {warning.code} {code(at) if at else ''} {prose(warning.message)}")
    if summary.plan.assumptions:
        lines += ["", "### Assumed", ""]
        for assumption in summary.plan.assumptions:
            services = ", ".join(code(name) for name in assumption.about[:ROWS])
            lines.append(f"- {services}: {prose(assumption.text)}")
    if notes:
        lines += ["", *(f"- {prose(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _names(listed: Sequence[str]) -> str:
    return cell(", ".join(code(name) for name in listed)) or "-"
