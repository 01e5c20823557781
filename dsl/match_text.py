"""A match (`when`) in canonical form: as it could stand in a program."""

from __future__ import annotations

from dsl.match import And, Comparison, Match, Not
from dsl.text import quoted


def match_text(match: Match) -> str:
    if isinstance(match, Comparison):
        field = match.field.name if match.field.header is None else f"header({quoted(match.field.header)})"
        return f"{field} {match.operator} {quoted(match.value)}"
    if isinstance(match, Not):
        return f"not {_operand(match.operand)}"
    word = " and " if isinstance(match, And) else " or "
    return word.join(_operand(operand) for operand in match.operands)


def _operand(match: Match) -> str:
    return match_text(match) if isinstance(match, Comparison) else f"({match_text(match)})"
