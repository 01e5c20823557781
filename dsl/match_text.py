"""The canonical text of a match (`when`), which could stand in a program.

Operands keep their order. Spellings of one match that differ only in blanks, redundant parentheses, the case of a
header's name or escapes of strings have one text. `dsl/resolve/match_parser.py` is the way back.
"""

from __future__ import annotations

from dsl.match import And, Comparison, Match, Not
from dsl.text import quoted


def match_text(match: Match) -> str:
    return _text(canonical(match))


def canonical(match: Match) -> Match:
    """The same match with each `and` in an `and`, and each `or` in an `or`, replaced by its own operands."""
    if isinstance(match, Comparison):
        return match
    if isinstance(match, Not):
        return Not(canonical(match.operand))
    operands: list[Match] = []
    for operand in map(canonical, match.operands):
        if type(operand) is type(match):
            operands.extend(operand.operands)
        else:
            operands.append(operand)
    return operands[0] if len(operands) == 1 else type(match)(tuple(operands))


def _text(match: Match) -> str:
    if isinstance(match, Comparison):
        field = match.field.name if match.field.header is None else f"header({quoted(match.field.header)})"
        return f"{field} {match.operator} {quoted(match.value)}"
    if isinstance(match, Not):
        return f"not {_operand(match.operand)}"
    word = " and " if isinstance(match, And) else " or "
    return word.join(map(_operand, match.operands))


def _operand(match: Match) -> str:
    return _text(match) if isinstance(match, Comparison) else f"({_text(match)})"
