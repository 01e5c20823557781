"""`admc test` agrees with the judge of `tests/fidelity`, which reads the documents alone and shares no code with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from admc.review.program_tests.resolve import resolve_tests
from admc.review.program_tests.verdict import Passed, Result, Subject, Undecided, judge, subject_of
from dsl.diagnostics.diagnostic import Diagnostics, ProgramError
from dsl.program import Element, Program, Protocol, Side, Verb
from dsl.syntax.parser import parse
from dsl.text import SourceText
from solver.place import place
from solver.placement import PlacementError
from tests.fidelity.cases import PARTIES, Case, Written, load, text
from tests.fidelity.kinds import HANDLERS
from tests.fidelity.mesh.admitting import Network
from tests.fidelity.message import Fields, Sent
from tests.fidelity.random_cases import TOPOLOGIES, programs
from tests.fidelity.requests import GRPC_PATH, Ask
from tests.fidelity.samples import CORS, JWT, PREFLIGHT, TOKEN
from tests.properties import examples
from tests.review.program_tests.by_judge import Answered, answers

READ = ("authorization", "origin", "access-control-request-method")
"""Headers that kinds read without saying so in an argument."""
_GRPC = re.compile(r"/[^/?#]+/[^/?#]+")


class Trial(NamedTuple):
    """One request on a call of a program, declared or not."""

    source: str
    destination: str
    method: str
    path: str
    headers: Fields


DECIDING: Final = (
    ("set_request_header", 'name: "x-in", value: "set"'),
    ("add_request_header", 'name: "x-in", value: "set"'),
    ("remove_request_header", 'name: "x-in"'),
    ("rewrite_path", 'prefix: "/old", to: "/new"'),
    ("allow", "callers: [a]"),
    ("deny", ""),
    ("fault_abort", "status: 503"),
    ("fault_abort", "status: 503, percent: 50%"),
    ("jwt", JWT),
    ("external_authorization", "service: judge"),
    ("request_count", ""),
    ("access_log", ""),
    ("cors", CORS),
    *(("timeout", "after: 300ms"), ("fault_delay", "delay: 450ms")) * 3,
    ("retry", "attempts: 2, backoff: 1ms"),
    ("mirror", "to: d:PORT"),
    ("split", "to: d:PORT, percent: 100%"),
    ("split", "to: d:PORT, percent: 50%"),
)
"""Kinds that decide what becomes of a request or change it, with arguments."""
WHEN: Final = (
    *('when header("x-in") == "set"', 'when header("x-in") != "set"', 'when header("x-in") starts_with "cl"'),
    *('when path == "/new/a"', 'when path starts_with "/old"', 'when method != "GET"'),
    'when header("x-in") == "set" or path == "/new/a"',
)
BLOCKING: Final = frozenset({"deny", "fault_abort", "allow", "jwt"})
"""Without a match, nothing behind them would be met."""
ASKS: Final = (
    *(Ask(path=path) for path in ("/old/a", "/new/a")),
    *(Ask((("x-in", value),), path=path) for value in ("client", "set") for path in ("/old/a", "/new/a", "/")),
    *(Ask((("authorization", value),), path="/old/a") for value in (TOKEN[1], "Basic eA==")),
    PREFLIGHT,
    Ask(PREFLIGHT.headers),
    Ask(method="OPTIONS"),
)
Drawn = tuple[Case, Subject, list[Trial]]


@st.composite
def dense_programs(draw: st.DrawFn) -> Case:
    """Three to six policies of those kinds, on four calls: most of them meet, and what one does matters to the next.

    A seed is drawn, and not each choice: Hypothesis would draw many programs that hardly differ.
    """
    chance = Random(draw(st.integers(0, 2**32)))  # noqa: S311 - no secret
    policies = []
    for _ in range(chance.randint(3, 6)):
        kind, arguments = chance.choice(DECIDING)
        to = "b" if "d:PORT" in arguments else chance.choice("bbbbd")
        when = chance.choice(WHEN) if kind in BLOCKING or chance.random() < 0.4 else ""
        policies.append(Written(kind, arguments, when, chance.choice(("a", "a", "{a, c}", "*")), None, (to,)))
    asks = tuple(replace(ask, source=chance.choice("aaac")) for ask in chance.sample(ASKS, 5))
    return Case("w", Protocol.HTTP, tuple(policies), asks, TOPOLOGIES["two callers of two"])


@st.composite
def trials(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> Drawn:
    case = draw(cases)
    try:
        program = load(text([case]))
        about = subject_of(program, place(program))
    except (ProgramError, PlacementError):
        assume(False)
        raise
    assume(all(policy.kind.name in HANDLERS for policy in program.policies))
    asked = []
    for ask in draw(st.lists(st.sampled_from(case.asks), min_size=1, max_size=4, unique=True)):
        spoken = ask.spoken(case.protocol)
        path = spoken.path
        if case.protocol is Protocol.GRPC and not _GRPC.fullmatch(path):
            path = GRPC_PATH
        source, destination = ask.source, ask.destination
        if draw(st.integers(0, 2)) == 2:
            source = draw(st.sampled_from(PARTIES))
            destination = draw(st.sampled_from(case.destinations))
        asked.append(Trial(source, destination, spoken.method, path, spoken.headers))
    return case, about, asked


def names_read(program: Program) -> list[str]:
    found = set(READ)
    for policy in program.policies:
        for effect in policy.effects or ():
            if effect.verb in (Verb.READS, Verb.WRITES) and effect.element is Element.HEADER:
                found |= effect.names or frozenset()
    return sorted(found)


def items(case: Case, trial: Trial, program: Program, hidden: Iterable[str] = ()) -> list[str]:
    """What a test says of a request: all of it, but for what is `hidden`."""
    if case.protocol is Protocol.TCP:
        return []
    given = [] if "path" in hidden else [f'path "{trial.path}"']
    if case.protocol is Protocol.HTTP and "method" not in hidden:
        given.append(f'method "{trial.method}"')
    names = {name for name, _ in trial.headers}
    given += [f'header("{name}") "{value}"' for name, value in trial.headers if name not in hidden]
    given += [f'no header("{name}")' for name in names_read(program) if name not in names and name not in hidden]
    return given


def result(about: Subject, trial: Trial, given: Sequence[str], outcome: str) -> Result:
    line = f"test it = {trial.source} -> {trial.destination}:p0 {{ {'  '.join(given)} }} {outcome}\n"
    diagnostics = Diagnostics()
    (test,) = resolve_tests(parse(SourceText("a.test.adm", line), diagnostics), about.program, diagnostics)
    return judge(test, about)


def expected(case: Case, about: Subject, trial: Trial) -> set[Answered] | None:
    """By the judge; None where a NetworkPolicy decides, of which the judge does not know."""
    declared = (trial.source, trial.destination) in case.calls
    (target,) = (port.target for port in about.program.services[trial.destination].ports if port.number == 9000)
    if not declared and (trial.destination, target) in Network(about.program, about.placement).closed:
        return None
    sent = Sent(trial.source, trial.destination, 9000, trial.method, trial.path, trial.headers)
    known = {
        each.policy
        for each in about.placement.decisions
        if each.destination == trial.destination and Side.INGRESS in each.place.sides and each.calls
    }
    return answers(about.program, sent, declared=declared, known=known)


def outcomes(about: Subject, found: set[Answered]) -> dict[str, set[bool]]:
    """Expectations, each with what it is in every right answer."""
    kinds = {policy.name: policy.kind.name for policy in about.program.policies}

    def refused(answer: Answered) -> bool:
        return answer.by is not None and kinds[answer.by] != "cors"

    every = {
        "is admitted": {answer.by is None for answer in found},
        "is refused": {refused(answer) for answer in found},
    }
    for name in kinds:
        every[f"meets {name}"] = {name in answer.met for answer in found}
        every[f"is refused by {name}"] = {refused(answer) and answer.by == name for answer in found}
    for met in {answer.met for answer in found} - {frozenset()}:
        every[f"meets only {', '.join(sorted(met))}"] = {met == answer.met for answer in found}
    return every


def assumable_names(about: Subject) -> set[str]:
    kinds = ("jwt", "external_authorization")
    return {policy.name for policy in about.program.policies if policy.kind.name in kinds}


def accepting(about: Subject, found: set[Answered]) -> list[str]:
    """`passes` for each guard that the judge finds to accept the request: a test cannot show why."""
    return [
        f"passes {policy.name}"
        for policy in about.program.policies
        if policy.name in assumable_names(about)
        and any(policy.name in answer.met for answer in found)
        and all(answer.by != policy.name for answer in found)
    ]


@examples(50)
@given(trials(programs()))
def test_the_answers_are_those_of_the_judge(drawn: Drawn) -> None:
    agree(*drawn)


@pytest.mark.long
@examples(150)
@given(trials(dense_programs()))
def test_the_answers_where_policies_matter_to_each_other(drawn: Drawn) -> None:
    agree(*drawn)


def agree(case: Case, about: Subject, asked: list[Trial]) -> None:
    for trial in asked:
        found = expected(case, about, trial)
        given = items(case, trial, about.program)
        if found is None:
            event("refused by a NetworkPolicy")
            # No NetworkPolicy refuses what a pod sends to itself.
            refused = Undecided if trial.source == trial.destination else Passed
            assert isinstance(result(about, trial, given, "is refused"), refused)
            continue
        given += accepting(about, found)
        # No test can say that a token is bad, or that an authorization service refuses.
        unsaid = any(answer.by in assumable_names(about) for answer in found)
        for outcome, values in outcomes(about, found).items():
            got = result(about, trial, given, outcome)
            if isinstance(got, Undecided):
                event("undecided")
                assert unsaid or len(values) > 1, (outcome, values, got.error)
            else:
                event("decided")
                assert values == {isinstance(got, Passed)}, (trial, outcome, got, found)


@examples(50)
@given(trials(dense_programs()), st.data())
def test_an_answer_holds_for_every_request_that_the_test_allows(drawn: Drawn, data: st.DataObject) -> None:
    """What a test leaves open is filled in with values of other requests: a decided answer stays right."""
    case, about, asked = drawn
    trial = asked[0]
    names = sorted({name for each in asked for name, _ in each.headers} | set(names_read(about.program)))
    hidden = data.draw(st.sets(st.sampled_from(["path", "method", *names]), max_size=3))
    given = items(case, trial, about.program, hidden)
    filled = trial
    for other in asked:
        both = tuple(pair for pair in trial.headers if pair[0] not in hidden)
        both += tuple(pair for pair in other.headers if pair[0] in hidden)
        filled = trial._replace(
            method=other.method if "method" in hidden else trial.method,
            path=other.path if "path" in hidden else trial.path,
            headers=both,
        )
        found = expected(case, about, filled)
        if found is None:
            return
        for outcome, values in outcomes(about, found).items():
            got = result(about, trial, given, outcome)
            event(type(got).__name__)
            if not isinstance(got, Undecided):
                assert values == {isinstance(got, Passed)}, (filled, hidden, outcome, got, found)
