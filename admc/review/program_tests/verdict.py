"""Judges a test by a program and its placement.

ProgramTest, Subject -> Passed | Failed | Undecided
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from admc.base.terminal import counted
from admc.review.program_tests.callers import policies_on
from admc.review.program_tests.evaluate import Passage, follow
from admc.review.program_tests.facts import MAX_WAYS, TooManyWaysError, Way, deciding, every_way
from admc.review.program_tests.kinds import changes_nothing
from admc.review.program_tests.mesh import Mesh, Target, mesh
from admc.review.program_tests.model import (
    AdmExpectation,
    CallExpectation,
    Meets,
    NumberExpectation,
    Outcome,
    ProgramTest,
    Refused,
)
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from dsl.program import Program
from dsl.words import few
from solver.placement import Placement

SHOWN: Final = 8
_OPERATORS: Final = {"==": operator.eq, "<=": operator.le, ">=": operator.ge}


@dataclass(frozen=True, slots=True)
class Passed:
    """The test holds."""


@dataclass(frozen=True, slots=True)
class Failed:
    observation: str
    """The behaviour of the program, in place of the expected one."""


@dataclass(frozen=True, slots=True)
class Undecided:
    error: Diagnostic


Result = Passed | Failed | Undecided


@dataclass(frozen=True, slots=True)
class Subject:
    """The program and the placement that tests are judged by."""

    program: Program
    placement: Placement
    mesh: Mesh


def subject_of(program: Program, placement: Placement) -> Subject:
    return Subject(program, placement, mesh(program, placement))


def judge(test: ProgramTest, subject: Subject) -> Result:
    expectation = test.expectation
    if isinstance(expectation, CallExpectation):
        return _call(test, expectation, subject)
    if isinstance(expectation, AdmExpectation):
        return _adm(expectation, subject)
    return _number(expectation, subject)


# ---- calls ----


def holds(outcome: Outcome, passage: Passage) -> bool:
    end = passage.end
    if isinstance(outcome, Refused):
        return end is not None and not end.answered and outcome.by in (None, *end.by)
    if isinstance(outcome, Meets):
        wanted, met = set(outcome.policies), set(passage.met)
        return wanted == met if outcome.only else wanted <= met
    return end is None


def _call(test: ProgramTest, expectation: CallExpectation, subject: Subject) -> Result:
    call, outcome = expectation.call, expectation.outcome
    applying = policies_on(subject.mesh, call.source, Target(call.destination, call.port, call.declared))
    ignored = _ignored(outcome, subject.program)
    try:
        passages = list(every_way(lambda way: follow(subject.mesh, applying, call, way, ignored)))
    except TooManyWaysError:
        return Undecided(_too_open(test))
    results = [(flips, holds(outcome, passage)) for flips, passage in passages]
    if all(result for _, result in results):
        return Passed()
    if not any(result for _, result in results):
        # The expectation fails in every way. The message describes the way in which no open fact holds.
        return Failed(_described(follow(subject.mesh, applying, call, Way())))
    fact = deciding(results)
    return Undecided(
        Diagnostic(
            "ADM841",
            Severity.ERROR,
            f"whether `{test.name}` holds depends on {fact.what}",
            call.span,
            cause="the test leaves it open, so its answer would be a guess",
            hint=fact.hint,
            related=(Related(fact.policy.span, f"`{fact.policy.name}` is here"),),
        )
    )


def _ignored(outcome: Outcome, program: Program) -> frozenset[str]:
    """The policies that change no request and that the outcome does not name: their open facts make no difference."""
    if isinstance(outcome, Meets) and outcome.only:
        return frozenset()
    asked = outcome.policies if isinstance(outcome, Meets) else ()
    return frozenset(policy.name for policy in program.policies if changes_nothing(policy) and policy.name not in asked)


def _too_open(test: ProgramTest) -> Diagnostic:
    return Diagnostic(
        "ADM841",
        Severity.ERROR,
        f"`{test.name}` leaves too much open",
        test.span,
        cause=f"what it leaves open has more than {MAX_WAYS} combinations that differ for the policies on the call",
        hint="give the path, the method and the headers that these policies read",
    )


def _described(passage: Passage) -> str:
    meets = f"it meets {_listed(passage.met)}" if passage.met else "it meets no policy"
    end = passage.end
    if end is None:
        return f"it is admitted, and {meets}"
    verb = "answered" if end.answered else "refused"
    why = f" ({end.why})" if end.why else ""
    by = _listed(end.by) if end.by else "an ADM"
    return f"it is {verb} by {by}{why}, and {meets}"


def _listed(names: Iterable[str]) -> str:
    return few([f"`{name}`" for name in names], SHOWN)


# ---- placements ----


def _adm(expectation: AdmExpectation, subject: Subject) -> Result:
    adms = {adm.service: adm for adm in subject.placement.adms}
    wrong = [name for name in expectation.services if (name in adms) is not expectation.present]
    if not wrong:
        return Passed()
    has = "have" if len(wrong) > 1 else "has"
    if expectation.present:
        return Failed(f"{_listed(wrong)} {has} no ADM")
    policies = dict.fromkeys(policy for name in wrong for policy in (*adms[name].ingress, *adms[name].egress))
    return Failed(f"{_listed(wrong)} {has} an ADM, for {_listed(policies)}")


def _number(expectation: NumberExpectation, subject: Subject) -> Result:
    adms = subject.placement.adms
    number = len(adms)
    if expectation.measure == "sidecars":
        number = sum(subject.program.services[adm.service].replicas for adm in adms)
    if _OPERATORS[expectation.operator](number, expectation.number):
        return Passed()
    where = f": at {_listed(adm.service for adm in adms)}" if adms else ""
    there = "there is" if number == 1 else "there are"
    return Failed(f"{there} {counted(number, 'ADM' if expectation.measure == 'adms' else 'sidecar')}{where}")
