"""Explains why a policy is at its place, in one sentence for a reader who knows the application but not the rules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from admc.compile.plan.model import FREE, Because, SourceLine
from dsl.program import Place, Program, Side
from dsl.text import Span
from solver.placement import Decision, Reason, Rule

_AT = {Place.INGRESS: "at ingress", Place.NETWORK: "in the network", Place.EGRESS: "at egress"}
NAMED = 3
"""The most destinations that a sentence names. It counts the others."""


def adm_reasons(program: Program, held: Sequence[tuple[Side, Decision]]) -> tuple[Because, ...]:
    """Reasons of one ADM. Destinations of one policy that share a reason share a sentence."""
    anchor = _anchor(decision for _side, decision in held)
    grouped: dict[tuple[Side, str, str, str, tuple[Span, ...]], list[str]] = {}
    for side, decision in held:
        reason = _against(decision)
        key: tuple[Side, str, str, str, tuple[Span, ...]]
        if decision.place is Place.BOTH:
            key = (side, decision.policy, Rule.COVERAGE.value, "", ())
        elif reason is None:
            key = (side, decision.policy, FREE, _free_places(decision), ())
        else:
            key = (side, decision.policy, reason.rule.value, reason.message, reason.spans)
        grouped.setdefault(key, []).append(decision.destination)
    return tuple(
        Because(
            policy,
            side,
            tuple(destinations),
            rule,
            _text(rule, message, anchor),
            tuple(
                SourceLine(span.source.path, span.line) for span in (spans or (program.policy_by_name[policy].span,))
            ),
        )
        for (side, policy, rule, message, spans), destinations in grouped.items()
    )


def quoted_list(names: Sequence[str]) -> str:
    """The names as `a`, `b` and `c`. In a long list, the last names are only counted."""
    quoted = [f"`{name}`" for name in names]
    if len(quoted) > NAMED:
        quoted = [*quoted[:NAMED], f"{len(names) - NAMED} more"]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _anchor(decisions: Iterable[Decision]) -> str | None:
    """A policy that needs this ADM regardless of the objective."""
    for decision in decisions:
        if decision.place is Place.BOTH or _against(decision) is not None:
            return decision.policy
    return None


def _against(decision: Decision) -> Reason | None:
    """The rule that leaves a decision no other place; None if the objective chose its place, or if it has both."""
    reasons = list(decision.ruled_out.values())
    return None if None in reasons else next(iter(reasons), None)


def _free_places(decision: Decision) -> str:
    """Where a decision may be, as the end of a sentence."""
    free = {decision.place, *(place for place, reason in decision.ruled_out.items() if reason is None)}
    if free == {Place.INGRESS, Place.EGRESS}:
        return "at either side"
    *others, last = (_AT[place] for place in _AT if place in free)
    return f"{', '.join(others)} or {last}"


def sentence(because: Because, service: str) -> str:
    """The reason with the policy and its place, for a reader who does not see the plan."""
    if because.side is Side.INGRESS:
        at = f"the ingress of `{service}`"
    else:
        at = f"the egress of `{service}`, towards {quoted_list(because.destinations)}"
    if because.rule == FREE:
        return f"`{because.policy}` is at {at} by choice: {because.text}"
    return f"`{because.policy}` must be at {at}: {because.text} ({because.rule})"


def _text(rule: str, message: str, anchor: str | None) -> str:
    if rule == FREE:
        if anchor is not None:
            return f"it may stand {message}, and `{anchor}` needs an ADM here anyway"
        return f"it may stand {message}, and this one is part of the cheapest placement"
    return message or "it needs both ends of a call"
