"""Refusals of random programs: a documented code, the same on both sides, exit code 1 or 3.

What is not refused has to behave as the judge says, which `test_fidelity` tries on real proxies.
"""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import pytest

from admc.base.exits import CommandError, Exit
from admc.cli.codes import registry
from admc.compile.emit.emission import configuration
from dsl.program import Protocol
from solver.place import place
from tests.fidelity.cases import Case, Written, accepted, compiled, load, text
from tests.fidelity.random_cases import ODD
from tests.fidelity.random_programs import wild

if TYPE_CHECKING:
    from pathlib import Path

    from dsl.program import Program

NUMBER, COUNT = 7, 60
"""Which random programs are looked at here."""


@pytest.mark.parametrize(("kind", "arguments"), [(kind, each) for kind, all_ in ODD.items() for each in all_])
def test_odd_arguments_are_taken_or_refused_alike_at_either_side(kind: str, arguments: str) -> None:
    """And beside other policies as alone."""
    sides = load(text([])).kinds[kind].sides
    count = Written("request_count", "")
    found = set()
    for side in sides:
        odd = Written(kind, arguments, side=side)
        for policies in ((odd,), (count, odd), (odd, count)):
            outcome = compiled(Case("o", Protocol.HTTP, policies, ()))
            found.add(outcome if isinstance(outcome, str) else "")
    (code,) = found
    assert not code or (code in registry() and code[3] in "27"), code


@pytest.mark.long
def test_random_programs_are_refused_with_documented_codes() -> None:
    cases = wild(NUMBER, COUNT)
    _, refused = accepted(cases)
    assert {code for codes in refused.values() for code in codes.split(", ")} <= registry().keys()
    assert not [codes for codes in refused.values() if "ADM9" in codes], "a bug in admc"
    assert accepted(cases)[1] == refused


@pytest.mark.parametrize(
    "mapped", [False, pytest.param(True, marks=pytest.mark.long)], ids=["as it is", "mapped to IPv6"]
)
def test_two_services_at_one_address_are_refused(tmp_path: Path, mapped: bool) -> None:
    """Of the parties of every random program that compiles, the first two share a pod."""
    tried = 0
    for case in wild(NUMBER, COUNT):
        if isinstance(compiled(case), str):
            continue
        program = load(text([case]))
        first, second = case.calls[0]
        path = tmp_path / f"{case.name}.json"
        path.write_text(json.dumps(_endpoints(program, first, second, mapped=mapped)))
        with pytest.raises(CommandError) as refused:
            configuration(program, place(program), "p", path, redirect=True)
        assert refused.value.exit_code in (Exit.INPUT, Exit.NO_PLACEMENT)
        tried += 1
    assert tried > 10


def _endpoints(program: Program, first: str, second: str, *, mapped: bool) -> dict[str, object]:
    """Every service at addresses of its own, but for one pod that two of them have."""
    services = {
        name: {"addresses": [f"10.0.0.{number}"], "pods": [f"10.1.0.{number}"]}
        for number, name in enumerate(sorted(program.services), start=1)
    }
    pod = services[first]["pods"][0]
    services[second]["pods"].append(str(ipaddress.ip_address(f"::ffff:{pod}")) if mapped else pod)
    return {"services": services}
