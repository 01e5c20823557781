"""The conflict behind an impossible placement as one diagnostic: every line that takes part, and what would free it."""

from __future__ import annotations

from dsl.diagnostics import Diagnostic, Related, Severity
from solver.placement import PlacementError, Reason, Rule

REMEDIES = 4
"""Remedies in the hint; each line's own remedy stands beside the line too."""


def conflict_diagnostic(error: PlacementError) -> Diagnostic:
    parts = error.parts
    rule = _telling_rule(error.reasons)
    said = list(dict.fromkeys(f"{reason.message} ({reason.rule.value})" for reason in error.reasons))
    remedies = list(dict.fromkeys(part.remedy for part in parts if part.remedy))
    return Diagnostic(
        code=f"ADM{600 + int(rule.value[1:])}",
        severity=Severity.ERROR,
        message="no correct placement exists: " + (parts[0].message if parts else "these lines conflict"),
        span=parts[0].span if parts else None,
        cause="; ".join(said) or None,
        hint="; or ".join(remedies[:REMEDIES]) or None,
        related=tuple(
            Related(part.span, f"{part.message}; to free it: {part.remedy}" if part.remedy else part.message)
            for part in parts[1:]
        ),
    )


def _telling_rule(reasons: tuple[Reason, ...]) -> Rule:
    """The rule that says most: coverage (R1) takes part in every conflict, so any other comes first."""
    return next((reason.rule for reason in reasons if reason.rule is not Rule.COVERAGE), Rule.COVERAGE)
