"""Programs that ask for much work at one place: it grows with the program, and not with its square."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from admc.compile.plan.contents import policy_rows
from dsl import load_text
from dsl.diagnostics.diagnostic import MAX_DIAGNOSTICS
from emitters.addresses import from_json
from emitters.errors import EmitError
from tests.dsl.programs import findings
from tests.work import function_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl.program import Program


def labelled(number: int) -> str:
    """As many selectors by a label as services."""
    lines = ["app shop", "service web { http 8080 }"]
    lines += [f'service s{at} {{ http 8080  labels {{ tier = "{at}"  zone = "z" }} }}' for at in range(number)]
    lines += [f"call web -> s{at}" for at in range(number)]
    lines += [f'policy p{at} = request_count() on * -> [tier = "{at}", zone = "z"]' for at in range(number)]
    return "\n".join(lines) + "\n"


def ring(number: int) -> str:
    """Each policy asks a service whose calls lead through all others back into its scope."""
    lines = ["app shop", *(f"service s{at} {{ http 8080 }}" for at in range(number))]
    lines += [f"call s{at} -> s{(at + 1) % number}" for at in range(number)]
    lines += [
        f"policy p{at} = external_authorization(service: s{(at + 2) % number}) on s{at} -> s{(at + 1) % number}"
        for at in range(number)
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("program", [labelled, ring])
def test_the_work_of_a_program_grows_linearly(program: Callable[[int], str]) -> None:
    found = [findings(program(number)) for number in (150, 300)]
    few, many = (function_calls(partial(findings, program(number))) for number in (150, 300))
    assert few < many < 2.5 * few
    assert [len(each) for each in found] == [
        0 if program is labelled else MAX_DIAGNOSTICS + 1
    ] * 2  # and how many more there are


def mesh(services: int) -> Program:
    lines = ["app shop", "external internet", *(f"service s{at} {{ http 8080 }}" for at in range(services))]
    lines += ["call internet -> s0", "call s0 -> s1"]
    lines += [f"policy p{at} = request_count() on * -> s{at % 2}" for at in range(300)]
    lines += [f"policy q{at} = request_count() on * except internet -> s1" for at in range(300)]
    return load_text("\n".join(lines) + "\n")


def test_rows_of_policies_from_everywhere_share_the_work() -> None:
    """The CPU of 600 policies hardly grows with the services: without sharing, it would be eight times as much."""
    few, many = mesh(3_000), mesh(24_000)
    assert {row.content.excluded for row in policy_rows(many) if row.content is not None} == {(), ("internet",)}
    assert min(cpu(many) for _ in range(3)) < 3 * min(cpu(few) for _ in range(3))


def cpu(program: Program) -> float:
    begin = time.process_time()
    policy_rows(program)
    return time.process_time() - begin


def test_unknown_names_of_an_endpoints_file_are_compared_with_known_ones_only_where_a_hint_is_shown() -> None:
    program = load_text("app shop\nservice web { http 8080 }\nservice cart { http 8080 }\n")
    number = 20_000
    data = json.dumps({"services": {f"carts{at}": {"addresses": []} for at in range(number)}}).encode()

    def read() -> None:
        with pytest.raises(EmitError) as refused:
            from_json(data, program)
        assert len(refused.value.diagnostics) == MAX_DIAGNOSTICS
        assert "did you mean `cart`?" in str(refused.value.diagnostics[0].hint)

    assert function_calls(read) < 10 * number + 200_000
