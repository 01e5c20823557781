"""Makes diagnostics of the conflicts behind an impossible placement: their lines, and how to remove a conflict."""

from __future__ import annotations

from dataclasses import replace

from admc.compile.plan.reasons import quoted_list
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from dsl.program import Program
from solver.placement import Conflict, ConflictPart, PlacementError, Reason, Rule


def conflict_diagnostics(program: Program, error: PlacementError) -> list[Diagnostic]:
    """Return one diagnostic for each conflict.

    A diagnostic points at a policy of the conflict, if there is one. The other lines that take part in the conflict
    follow, with their remedies.
    """
    diagnostics = [_diagnostic(program, conflict) for conflict in error.conflicts]
    if error.more:
        last = diagnostics[-1]
        diagnostics[-1] = replace(
            last, hint=f"{last.hint}; there are more conflicts, which are shown once these are gone"
        )
    return diagnostics


def _diagnostic(program: Program, error: Conflict) -> Diagnostic:
    policies = {policy.span: policy.name for policy in program.policies}
    rule = _main_rule(error.reasons)
    parts = sorted(error.parts, key=lambda part: part.span not in policies)
    concerned = [policies[part.span] for part in parts if part.span in policies]
    if rule is Rule.ORDER and len(concerned) > 1:
        # If the declared order is impossible, the best advice is usually to move the last policy up.
        last = len(concerned) - 1
        parts = [parts[last], *parts[:last], *parts[last + 1 :]]
    causes = list(dict.fromkeys(f"{reason.message} ({reason.rule.value})" for reason in error.reasons))
    return Diagnostic(
        code=f"ADM{600 + int(rule.value[1:])}",
        severity=Severity.ERROR,
        message="no correct placement exists" + (f" for {quoted_list(concerned)}" if concerned else ""),
        span=parts[0].span if parts else None,
        cause="; ".join(causes) or None,
        hint=_hint(parts),
        related=tuple(Related(part.span, f"{part.message}; to free it: {part.remedy}") for part in parts[1:]),
    )


def _hint(parts: list[ConflictPart]) -> str | None:
    if not parts:
        return None
    others = {1: "", 2: "; or change the other line"}.get(len(parts), "; or change any one of the other lines")
    return f"{parts[0].remedy}{others}"


def _main_rule(reasons: tuple[Reason, ...]) -> Rule:
    """The most specific rule. Coverage (R1) is in every conflict, so any other rule takes precedence."""
    return next((reason.rule for reason in reasons if reason.rule is not Rule.COVERAGE), Rule.COVERAGE)
