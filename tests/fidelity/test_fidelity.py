"""Real proxies against the judge: one kind at a time on every side, two in both orders, and random programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsl.program import Place
from solver.verify.verifier import verify
from tests.emitters.envoy.support import ENVOY
from tests.fidelity.cases import TWO_CALLERS, Case, accepted, load, text
from tests.fidelity.counterexamples import Kept, kept, read, written
from tests.fidelity.known_differences import reason
from tests.fidelity.placing import together
from tests.fidelity.random_programs import smaller, wild
from tests.fidelity.runs import How, Result, What
from tests.fidelity.store import SEED, WILD, drawn, groups, random_programs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fidelity.store import Group

pytestmark = pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")


def _parameters() -> Iterator[object]:
    for group in groups():
        if group.name.startswith("wild"):  # drawn when they are run
            for name in group.names:
                yield pytest.param(group, name, How.COMPILED, id=f"compiled-{name}", marks=pytest.mark.long)
            continue
        for case in group.cases:
            for how in group.hows:
                why = reason(case.key, how)
                marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
                marks += [] if group.quick else [pytest.mark.long]
                yield pytest.param(group, case.name, how, id=f"{how}-{case.label}-{case.name}", marks=marks)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One for all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    return (base if worker_id == "master" else base.parent) / "fidelity"


@pytest.mark.parametrize(("group", "case", "how"), list(_parameters()))
def test_as_judged(group: Group, case: str, how: str, folder: Path) -> None:
    results = group.results(folder)
    found = results.get((case, how)) or results[case, group.hows[-1]]
    assert found.what != What.DIFFERENT, f"\n{found.label}, {how}\n{found.detail}{_again(group, case)}"


def _again(group: Group, name: str) -> str:
    """For a random program: all of it, and how to make it smaller."""
    if not group.name.startswith("wild"):
        return ""
    case = next(each for each in group.cases if each.name == name)
    return f"\n{text([case])}\npython -m tests.fidelity.long --shrink {name}"


@pytest.mark.long
def test_enough_random_programs_are_run(folder: Path) -> None:
    results = [each for group in random_programs(SEED, WILD) for each in group.results(folder).values()]
    assert sum(each.what != What.REFUSED for each in results) >= 200


@pytest.mark.long
@pytest.mark.parametrize("each", [each for each in kept() if each.refused], ids=lambda each: each.case.name)
def test_what_is_refused_stays_refused(each: Kept, folder: Path) -> None:
    (group,) = (group for group in groups() if group.name == "kept")
    found = group.results(folder)[each.case.name, How.COMPILED]
    assert (found.what, found.detail) == (What.REFUSED, each.refused)


def test_a_kept_case_is_read_as_it_was_written() -> None:
    for each in kept():
        assert read(written(each.case, each.why, each.refused), each.case.name) == each


def test_placements_of_cases_alone_are_correct_together() -> None:
    """But for what one case's copies do to another's destination, which is why each is placed by itself."""
    cases = [case for case in wild(SEED, 40) if not any("PORT" in policy.arguments for policy in case.policies)]
    alone, _ = accepted(cases)
    taken = [case for case in cases if case.name in alone]
    program = load(text(taken))
    violations = verify(program, together(program, taken, alone))
    assert len(taken) > 10
    assert [each for each in violations if each.rule is not None] == []


def test_random_programs_are_always_the_same() -> None:
    assert wild(1, 20) == wild(1, 20) != wild(2, 20)


@pytest.mark.long
def test_random_programs_have_guards_in_the_network() -> None:
    """With other policies around them."""
    able = [case for case in drawn(SEED, WILD) if ("allow", "*") in {(each.kind, each.scope) for each in case.policies}]
    places = [[decision.place for decision in placement.decisions] for placement in accepted(able)[0].values()]
    assert sum(Place.NETWORK in each for each in places) >= 3
    assert any(Place.NETWORK in each and len(set(each)) > 1 for each in places)


@pytest.mark.long
def test_a_random_program_is_made_smaller_by_hypothesis() -> None:
    """A difference that one policy makes: what is left is that policy, another, and the plainest of everything else."""

    batch = wild(SEED, 100)
    chosen = next(case for case in batch if len(case.policies) > 3)
    kind = chosen.policies[-1].kind

    def attempt(case: Case) -> Result:
        differs = any(policy.kind == kind for policy in case.policies)
        return Result(case.name, case.label, How.COMPILED, What.DIFFERENT if differs else What.EQUAL)

    case, result = smaller(SEED, 100, chosen.name, attempt)
    assert result is not None
    assert kind in {policy.kind for policy in case.policies}
    assert (len(case.policies), case.calls, len(case.asks)) == (2, TWO_CALLERS, 3)


def test_a_program_that_does_not_differ_is_left_as_it_is() -> None:
    case, result = smaller(SEED, 20, f"w{SEED}_3", lambda case: Result(case.name, case.label, "compiled", What.EQUAL))
    assert (case, result) == (wild(SEED, 20)[3], None)
