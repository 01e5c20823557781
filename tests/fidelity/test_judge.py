"""The judge itself, on programs small enough to know the answer by heart; and that it can tell orders apart."""

from __future__ import annotations

import pytest

import dsl
from dsl.kinds.prelude import kinds
from dsl.program import Protocol
from tests.fidelity.cases import FIRST_PORT, load, text
from tests.fidelity.echo_services import echo
from tests.fidelity.judge import Judge, Outcome
from tests.fidelity.message import Sent, joined
from tests.fidelity.own_kinds import ALL
from tests.fidelity.pairs import shared
from tests.fidelity.requests import Ask, answer_header, delay, header, status
from tests.fidelity.samples import SAMPLES
from tests.fidelity.state import World

BASE = "app t\nservice a, c, s { http 80 }\nservice b { http 80 }\ncall a, c -> b\ncall a -> s\n"


def sent(ask: Ask, index: int = 0, at: float = 0.0, port: int = 80) -> Sent:
    headers = (*ask.headers, ("x-echo-id", str(index)))
    return Sent(ask.source, "b", port, ask.method, ask.path, headers, ask.body, at)


def follow(policies: str, *asks: Ask) -> list[Outcome]:
    """What comes of a sequence that leaves nothing to chance."""
    judge, world, found = Judge(dsl.load_text(BASE + policies), echo, ALL), World(), []
    for index, ask in enumerate(asks):
        (outcome,) = judge.outcomes(world, sent(ask, index))
        found.append(outcome)
        world = outcome.world
    return found


def test_each_built_in_kind_has_a_sample() -> None:
    """From samples come the cases with real Envoys: a kind without one would never be compared with the judge."""
    missing = kinds().keys() - {sample.kind for sample in SAMPLES}
    assert not missing, "add a sample to `tests/fidelity/samples.py`"


QUOTA = "policy q = rate_limit(requests: 2, per: 1h) on a -> b\n"
RETRY = "policy r = retry(attempts: 3, backoff: 1ms) on a -> b\n"


def test_a_quota_outside_a_retry_counts_requests() -> None:
    found = follow(QUOTA + RETRY, status(503), Ask(), Ask())
    assert [(each.answer.status, len(each.sightings)) for each in found] == [(503, 3), (200, 1), (429, 0)]


def test_a_quota_inside_a_retry_counts_attempts() -> None:
    found = follow(RETRY + QUOTA, status(503), Ask())
    assert [(each.answer.status, len(each.sightings)) for each in found] == [(429, 2), (429, 0)]


TIMEOUT = "policy t = timeout(after: 200ms) on a -> b\n"
DELAY = "policy d = fault_delay(delay: 500ms) on a -> b\n"


def test_a_timeout_covers_only_what_is_inside_of_it() -> None:
    (covered,) = follow(TIMEOUT + DELAY, Ask())
    assert (covered.answer.status, covered.sightings) == (504, ())
    assert covered.seconds == pytest.approx(0.2)
    (outside,) = follow(DELAY + TIMEOUT, delay(0.1))
    assert outside.answer.status == 200
    assert outside.seconds == pytest.approx(0.6)


def test_a_timeout_around_a_retry_bounds_all_attempts_and_one_inside_each() -> None:
    again = "policy r = retry(attempts: 3, on: [gateway_error], backoff: 1ms) on a -> b\n"
    (all_of_them,) = follow(TIMEOUT + again, delay(0.5))
    (each_of_them,) = follow(again + TIMEOUT, delay(0.5))
    assert len(all_of_them.sightings) == 1
    assert all_of_them.seconds == pytest.approx(0.2)
    assert len(each_of_them.sightings) == 3
    assert each_of_them.seconds == pytest.approx(0.6)


def test_a_match_sees_what_outer_policies_wrote() -> None:
    write = 'policy w = set_request_header(name: "x-in", value: "set") on a -> b\n'
    guard = 'policy g = deny() on a -> b when header("x-in") == "set"\n'
    assert [each.answer.status for each in follow(write + guard, Ask())] == [403]
    assert [each.answer.status for each in follow(guard + write, Ask())] == [200]


def test_a_policys_own_answer_passes_only_what_is_outside_of_it() -> None:
    write = 'policy w = set_response_header(name: "x-out", value: "1") on a -> b\n'
    (outside,) = follow(write + "policy n = deny() on a -> b", Ask())
    (inside,) = follow("policy n = deny() on a -> b\n" + write, Ask())
    assert (outside.answer.headers, inside.answer.headers) == ((("x-out", "1"),), ())


def test_a_copy_is_made_where_the_mirror_stands() -> None:
    copy = "policy m = mirror(to: s) on a -> b\n"
    write = 'policy w = set_request_header(name: "x-in", value: "set") on a -> b\n'
    (before,) = follow(copy + write, header("x-in", "client"))
    values = {each.service: dict(each.headers)["x-in"] for each in before.sightings}
    assert values == {"s": "client", "b": "set"}


def test_policies_distinguish_callers() -> None:
    found = follow("policy g = allow(callers: [a]) on * -> b", Ask(), Ask(source="c"))
    assert [each.answer.status for each in found] == [200, 403]


OUTLIERS = "policy o = outlier_detection(consecutive_errors: 2, ejection: 60s, max_ejected: 100%) on a -> b\n"
MIRROR = "policy m = mirror(to: s) on a -> b\n"


def test_what_is_sent_nowhere_is_not_copied() -> None:
    judge, world = Judge(dsl.load_text(BASE + MIRROR + OUTLIERS), echo, ALL), World()
    for index in range(2):
        (failed,) = judge.outcomes(world, sent(status(503), index))
        assert {each.service for each in failed.sightings} == {"b", "s"}
        world = failed.world
    (nowhere,) = judge.outcomes(world, sent(Ask(), 2, at=1.0))
    assert (nowhere.answer.status, nowhere.sightings) == (503, ())


def test_a_copy_is_made_where_the_first_attempt_went_out() -> None:
    judge = Judge(dsl.load_text(BASE + MIRROR + RETRY + OUTLIERS), echo, ALL)
    outcomes = judge.outcomes(World(), sent(status(503)))
    assert {tuple(sorted(each.service for each in found.sightings)) for found in outcomes} >= {("b", "b", "s")}
    assert all("s" in {each.service for each in found.sightings} for found in outcomes)


def test_a_share_of_the_endpoints_is_no_endpoint_of_one() -> None:
    found = follow(OUTLIERS.replace("100%", "99%"), status(503), status(503), Ask())
    assert [each.answer.status for each in found] == [503, 503, 200]


def test_a_grpc_call_is_committed_by_headers() -> None:
    judge = Judge(dsl.load_text(BASE.replace("http", "grpc") + RETRY), echo, ALL)
    (alone,) = judge.outcomes(World(), sent(status(14, 0)))
    assert (alone.answer.status, len(alone.sightings)) == (0, 2)
    (committed,) = judge.outcomes(World(), sent(answer_header("x-out", "1").besides(status(14, 0))))
    assert (committed.answer.status, len(committed.sightings)) == (14, 1)


def test_chance_leaves_every_outcome_with_its_probability() -> None:
    judge = Judge(dsl.load_text(BASE + "policy s = split(to: s, percent: 25%) on a -> b"), echo, ALL)
    found = {each.answer.by: each.chance for each in judge.outcomes(World(), sent(Ask()))}
    assert found == {"s": pytest.approx(0.25), "b": pytest.approx(0.75)}


def test_a_bucket_is_known_within_bounds() -> None:
    judge = Judge(dsl.load_text(BASE + "policy q = rate_limit(requests: 1, per: 1s) on a -> b"), echo, ALL)
    (first,) = judge.outcomes(World(), sent(Ask()))
    half = judge.outcomes(first.world, sent(Ask(), at=0.5))
    whole = judge.outcomes(first.world, sent(Ask(), at=1.1))
    assert {each.answer.status for each in half} == {429}
    assert {each.answer.status for each in whole} == {200}


def test_a_token_that_came_while_a_request_was_on_its_way_may_be_taken() -> None:
    """Five come in a second: 0.1 s after both were taken there is none for sure, but an answer took 0.15 s more."""
    judge = Judge(dsl.load_text(BASE + "policy q = rate_limit(requests: 5, per: 1s, burst: 2) on a -> b"), echo, ALL)
    world = World()
    for index in range(2):
        (outcome,) = judge.outcomes(world, sent(Ask(), index))
        world = outcome.world
    quick = sent(Ask(), 2, at=0.1)
    assert {each.answer.status for each in judge.outcomes(world, quick)} == {429}
    slow = judge.outcomes(world, quick._replace(answered=0.25))
    assert {each.answer.status for each in slow} == {200, 429}
    (taken,) = (each.world for each in slow if each.answer.status == 200)
    for at, found in ((0.35, {429}), (0.41, {200, 429})):  # what came while it was on its way is there once only
        assert {each.answer.status for each in judge.outcomes(taken, sent(Ask(), 3, at=at))} == found


def test_pairs_that_do_not_commute_are_asked_what_tells_their_orders_apart() -> None:
    """A third at least: the rules also keep orders of kinds without declared effects, which no request may show."""
    seen: dict[bool, int] = {True: 0, False: 0}
    for case in shared()[::7]:
        if case.protocol is not Protocol.HTTP:
            continue
        orders = []
        for policies in (case.policies, case.policies[::-1]):
            program = load(text([type(case)("c", case.protocol, policies, case.asks)]))
            judge, world, found = Judge(program, echo, ALL), World(), []
            asked = [ask for ask in case.asks for _ in range(ask.times)]
            for index, ask in enumerate(asked):
                outcomes = judge.outcomes(world, sent(ask.spoken(case.protocol), index, index / 1000, FIRST_PORT))
                world = outcomes[0].world
                counted = {
                    tuple(sorted((name.split("_", 2)[2], number) for name, number in each.counted.items()))
                    for each in outcomes
                }
                found.append(({_visible(each) for each in outcomes}, counted))
            orders.append(found)
        seen[orders[0] != orders[1]] += 1
    assert seen[True] * 2 > seen[False], seen


def _visible(outcome: Outcome) -> tuple[object, ...]:
    answer, sightings = outcome.answer, outcome.sightings
    seen = sorted((each.service, each.path, str(sorted(joined(each.headers).items()))) for each in sightings)
    return answer.status, answer.by, str(sorted(joined(answer.headers).items())), str(seen), round(outcome.seconds, 2)
