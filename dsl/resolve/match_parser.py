"""Reads the canonical text of a match, which plans contain. The text may be hostile.

    match -> dsl.match_text.match_text -> text -> [parse_match] -> match

The text is parsed as the `when` of a policy, with the parser, the checks and the limits of every program.
"""

from __future__ import annotations

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.match import Match
from dsl.match_text import match_text
from dsl.resolve.conditions import resolve_condition
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.text import SourceText

MAX_TEXT = 1 << 28
"""Most characters. No plan is longer."""
_BEFORE = "policy p = k() on a -> b when "


class MatchTextError(ValueError):
    """The text is no match in canonical form."""


def parse_match(text: str) -> Match:
    """The match of a canonical text, which `match_text` has written. Raises `MatchTextError`."""
    if len(text) > MAX_TEXT:
        raise MatchTextError(f"it is longer than {MAX_TEXT} characters")
    diagnostics = Diagnostics()
    module = parse(SourceText("", _BEFORE + text), diagnostics, fast=False)
    policy = module.statements[0] if len(module.statements) == 1 else None
    if isinstance(policy, tree.Policy) and policy.condition is not None:
        match = resolve_condition(policy.condition, diagnostics)
        if match is not None and not diagnostics.has_errors and match_text(match) == text:
            return match
    raise MatchTextError(diagnostics.items[0].message if diagnostics.has_errors else "it is not in canonical form")
