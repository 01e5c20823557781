"""Messages quote no file that a program names, and a bound is the number that its message names."""

from __future__ import annotations

import pytest

from dsl.resolve.conditions import MAX_COMPARISONS
from dsl.values.contents import lua
from tests.dsl.programs import findings

QUOTED = "QUOTED123"


@pytest.mark.parametrize("content", [f'key = "{QUOTED}', f"{QUOTED} {QUOTED}", f"x = = {QUOTED}", f"{QUOTED}"])
def test_the_error_of_a_script_quotes_nothing_of_it(content: str) -> None:
    problem = lua(content.encode())
    assert problem is not None
    assert "LuaJIT cannot read it" in problem.message
    assert QUOTED not in problem.message + problem.hint


@pytest.mark.parametrize(("number", "codes"), [(MAX_COMPARISONS, set()), (MAX_COMPARISONS + 1, {"ADM414"})])
def test_a_match_makes_as_many_comparisons_as_the_message_says(number: int, codes: set[str]) -> None:
    match = " or ".join(f'path == "/{at}"' for at in range(number))
    text = f"app x\nservice a, b {{ http 80 }}\ncall a -> b\npolicy p = request_count() on a -> b when {match}\n"
    assert {finding.code for finding in findings(text)} == codes
