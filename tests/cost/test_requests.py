"""What ADMs add to a request: against a plain evaluation of every outcome, and by hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_placement
from admc.cost.profiles.amounts import Whole, nearest, rounded_down, rounded_up
from admc.cost.profiles.law import Amount
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.source import built_in
from admc.cost.requests.calls import CallCost
from admc.cost.requests.estimate import RequestCost, RequestOverhead, of_requests, request_cost
from admc.cost.requests.paths import outcomes
from dsl import load_text
from dsl.requests import MAX_OUTCOMES, Grouping, Request, Step, StepGroup
from dsl.requests import outcomes as number_of_outcomes
from dsl.text import SourceText, Span
from solver.place import place
from tests.cli.command import Admc
from tests.cost.documents import Document, changed, profile
from tests.cost.test_commands import compare
from tests.properties import examples

NOWHERE = Span(SourceText("", ""), 0, 0)
MESHINSIGHT = built_in("meshinsight").profile
HTTP = 167_250
"""Nanoseconds of an http hop by MeshInsight."""
TCP = 38_530


# ---- every outcome, one by one ----


def plain(step: Step, latencies: Mapping[str, tuple[int, int, int]]) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    """The probability and the four path lengths of each outcome, by recursion: nothing is merged or counted twice."""
    if step.chance < 1:
        yield 1 - step.chance, (0, 0, 0, 0)
    for chance, lengths in _times(step, latencies, step.times):
        yield step.chance * chance, lengths


def _times(
    step: Step, latencies: Mapping[str, tuple[int, int, int]], times: int
) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    if times == 0:
        yield Fraction(1), (0, 0, 0, 0)
        return
    own = tuple(step.work + each for each in (0, *latencies[step.destination]))
    for first, lengths in _groups(step.groups, latencies):
        for others, more in _times(step, latencies, times - 1):
            yield first * others, tuple(map(sum, zip(own, lengths, more, strict=True)))


def _groups(
    groups: tuple[StepGroup, ...], latencies: Mapping[str, tuple[int, int, int]]
) -> Iterator[tuple[Fraction, tuple[int, ...]]]:
    groups = tuple(group for group in groups if group.grouping is not Grouping.ASYNC)
    if not groups:
        yield Fraction(1), (0, 0, 0, 0)
        return
    for chance, steps in _steps(groups[0].steps, latencies):
        combine = max if groups[0].grouping is Grouping.TOGETHER else sum
        for others, more in _groups(groups[1:], latencies):
            lengths = tuple(combine(each) for each in zip(*steps, strict=True))
            yield chance * others, tuple(map(sum, zip(lengths, more, strict=True)))


def _steps(
    steps: tuple[Step, ...], latencies: Mapping[str, tuple[int, int, int]]
) -> Iterator[tuple[Fraction, list[tuple[int, ...]]]]:
    if not steps:
        yield Fraction(1), []
        return
    for chance, lengths in plain(steps[0], latencies):
        for others, more in _steps(steps[1:], latencies):
            yield chance * others, [lengths, *more]


NAMES = ("a", "b", "c")
GROUPINGS = st.sampled_from([Grouping.SEQUENCE, Grouping.TOGETHER, Grouping.TOGETHER, Grouping.ASYNC])
CHANCES = st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 10), Fraction(2, 3), Fraction(999, 1000)])


def step(
    name: str, chance: Fraction = Fraction(1), times: int = 1, work: int = 0, groups: tuple[StepGroup, ...] = ()
) -> Step:
    return Step("s", name, 80, NOWHERE, chance, times, work, groups)


def _random_steps(inner: st.SearchStrategy[Step]) -> st.SearchStrategy[Step]:
    group = st.builds(StepGroup, GROUPINGS, st.lists(inner, min_size=1, max_size=3).map(tuple))
    return st.builds(
        step,
        st.sampled_from(NAMES),
        CHANCES,
        st.integers(1, 3),
        st.integers(0, 1000),
        st.lists(group, max_size=2).map(tuple),
    )


LEAVES = st.builds(step, st.sampled_from(NAMES), CHANCES, st.integers(1, 3), st.integers(0, 1000))
TREES = st.recursive(LEAVES, _random_steps, max_leaves=7)
LATENCIES = st.fixed_dictionaries(
    {name: st.tuples(st.integers(0, 900), st.integers(0, 300), st.integers(0, 300)) for name in NAMES}
)


@examples(120)
@given(TREES, LATENCIES)
def test_every_outcome(tree: Step, drawn: dict[str, tuple[int, int, int]]) -> None:
    if number_of_outcomes(tree) > 200 or _written_out(tree) > 5_000:
        return
    latencies = {name: (value, value - below, value + above) for name, (value, below, above) in drawn.items()}
    found = outcomes(tree, {("s", name, 80): each for name, each in latencies.items()})
    expected = list(plain(tree, latencies))
    assert sum(chance for chance, _ in expected) == 1
    for at in (1, 2, 3):
        assert found.mean_added(at) == float(sum(chance * (times[at] - times[0]) for chance, times in expected))
        assert found.worst_added(at) == max(times[at] - times[0] for _, times in expected)
    cost = request_cost(Request("r", NOWHERE, None, tree), _costs(latencies))
    means = [float(sum(chance * (times[at] - times[0]) for chance, times in expected)) for at in (1, 2, 3)]
    assert cost.mean == Whole(nearest(means[0]), rounded_down(means[1]), rounded_up(means[2]))


def _written_out(tree: Step) -> int:
    """Outcomes without merging repeated calls: so many has the plain evaluation."""
    one = 1
    for group in tree.groups:
        for inner in group.steps:
            one *= _written_out(inner)
    return one**tree.times + 1


def _costs(latencies: Mapping[str, tuple[int, int, int]]) -> Mapping[tuple[str, str, int], CallCost]:
    return {
        ("s", name, 80): CallCost(Whole(*each), Amount(0.001, 0.0, 1.0), cpu_at_least=False)
        for name, each in latencies.items()
    }


def test_the_mean_is_no_maximum_of_means() -> None:
    """Either of two calls of 100 ns together, each in half of all cases: 75 ns, and not 50."""
    half = Fraction(1, 2)
    tree = step("a", groups=(StepGroup(Grouping.TOGETHER, (step("b", half), step("b", half))),))
    found = outcomes(tree, {("s", "a", 80): (0,), ("s", "b", 80): (100,)})
    assert (found.mean_added(1), found.worst_added(1)) == (75, 100)


def test_the_longest_path_may_be_another_than_without() -> None:
    """500 ns of work beside two calls that add 400 ns each: 800 - 500."""
    deep = step("b", groups=(StepGroup(Grouping.SEQUENCE, (step("b"),)),))
    tree = step("a", groups=(StepGroup(Grouping.TOGETHER, (deep, step("c", work=500))),))
    latencies = {("s", "a", 80): (0,), ("s", "b", 80): (400,), ("s", "c", 80): (0,)}
    assert outcomes(tree, latencies).mean_added(1) == 300


def test_the_most_outcomes_take_little_time() -> None:
    """1,000 repeated calls with a chance as fine as the language allows, and as many outcomes as it allows."""
    fine = Fraction(1, 10**8)
    repeated = step("a", times=1000, groups=(StepGroup(Grouping.SEQUENCE, (step("b", fine),)),))
    tree = step("a", groups=(StepGroup(Grouping.TOGETHER, (repeated, step("c", fine), step("b", fine))),))
    assert 4_000 < number_of_outcomes(tree) <= MAX_OUTCOMES
    start = time.process_time()
    found = outcomes(tree, {("s", name, 80): (each, each, each) for name, each in (("a", 1), ("b", 7), ("c", 5000))})
    assert time.process_time() - start < 5
    assert found.worst_added(1) == 1 + 8_000


# ---- by hand ----

# Requests pass the front end, the page and then, in parallel, the reviews with their ratings, and the details.
BOOKINFO = """app bookinfo
external client
service frontend, product, reviews, ratings, details { http 80 }
call client -> frontend { size 100B }
call frontend -> product { size 100B }
call product -> reviews, details { size 100B }
call reviews -> ratings { size 100B }
policy log = rate_limit(requests: 1000, per: 1s) on product -> reviews
pin log at ingress
request page on client -> frontend {
  rate 1000/s
  call product { together { call reviews { call ratings } call details } }
}
"""


def of(text: str, costs: Profile = MESHINSIGHT) -> RequestOverhead:
    program = load_text(text)
    placement = place(program)
    found = of_requests(program, placement, costs, estimate(program, of_placement(program, placement), costs))
    assert [each.name for each in found] == [request.name for request in program.requests]
    return found[0]


def values(cost: RequestCost) -> tuple[int, int]:
    return cost.mean.value, cost.worst.value


def test_the_paths_of_bookinfo() -> None:
    """One hop into the mesh and two for each call: the longest path passes 7 hops, all calls pass 9."""
    found = of(BOOKINFO)
    # the quota: 8.19 us, and 0.21 cores at 30,000/s
    assert found.plan.mean == Whole(HTTP + 8_190, None, None)
    assert found.plan.mean == found.plan.worst
    assert found.everywhere == found.hosting
    assert values(found.hosting) == (7 * HTTP + 8_190,) * 2
    assert found.plan.cpu.value == round(Fraction("9.85") / 30_000 * 10**9)
    assert found.hosting.cpu.value == round((9 * Fraction("9.64") + Fraction("0.21")) / 30_000 * 10**9)


def test_details_that_take_longer() -> None:
    """Without ADMs the details are the longest path; of reviews and ratings 4 hops and the quota are 677.19 us."""
    found = of(BOOKINFO.replace("call details", "call details { work 500us }"))
    # details: 500 us and 2 hops, which is more than 4 hops and the quota
    assert values(found.hosting) == (5 * HTTP,) * 2
    found = of(BOOKINFO.replace("call details", "call details { work 300us }"))
    assert values(found.hosting) == (7 * HTTP + 8_190 - 300_000,) * 2
    # only the reviews have a sidecar, and their 175.44 us are hidden behind the details
    assert values(found.plan) == (0, 0)


def test_the_chance_of_a_call() -> None:
    """Without ratings the reviews' path has 5 hops, and so the request."""
    found = of(BOOKINFO.replace("call ratings", "call ratings { chance 25% }"))
    assert found.hosting.worst.value == 7 * HTTP + 8_190
    assert found.hosting.mean.value == 5 * HTTP + 8_190 + 2 * HTTP // 4


def test_calls_that_are_not_waited_for() -> None:
    found = of(BOOKINFO.replace("together { call reviews { call ratings } call details }", "async call reviews"))
    assert values(found.plan) == (0, 0)
    assert found.plan.cpu.value == round(Fraction("9.85") / 30_000 * 10**9)
    assert values(found.hosting) == (3 * HTTP, 3 * HTTP)


def test_repeated_calls() -> None:
    found = of(BOOKINFO.replace("call ratings", "call ratings { times 3 }"))
    assert found.hosting.mean.value == 11 * HTTP + 8_190


def test_services_without_a_sidecar() -> None:
    text = BOOKINFO.replace("reviews, ratings, details { http 80 }", "reviews, details { http 80 }").replace(
        "external client", "external client\nservice ratings { tcp 80  no adm }"
    )
    found = of(text)
    assert found.hosting.mean.value == 5 * HTTP + 8_190 + TCP
    assert found.everywhere.mean.value == 5 * HTTP + 8_190 + 2 * TCP
    assert found.hosting.cpu.value < found.everywhere.cpu.value


# ---- intervals, and what is missing ----

SHOP = """app shop
service web, api, db { http 80 }
call web -> api { size 100B }
call api -> db { size 100B }
policy count = request_count() on web -> api
pin count at ingress
request buy on web -> api { rate 5/s  call db { chance 50% } }
"""


def test_intervals() -> None:
    """At 5/s a hop adds 840 us and the policy 4, each with an interval of a tenth: as in the estimate of the hop."""
    found = of(SHOP, profile())
    program = load_text(SHOP)
    ((hop,),) = (adm.hops for adm in estimate(program, of_placement(program, place(program)), profile()).adms)
    assert found.plan.mean == found.plan.worst == hop.latency
    assert found.plan.mean.value == 844_000
    # 7.3 mcores at 5/s and 4 us of the policy
    cpu = found.plan.cpu
    assert cpu.value == 1_460_000 + 4_000
    assert cpu.low is not None
    assert cpu.high is not None
    assert hop.cpu.low is not None
    assert hop.cpu.high is not None
    assert abs(cpu.low - hop.cpu.low / 5) < 1
    assert abs(cpu.high - hop.cpu.high / 5) < 1
    assert found.hosting.mean.low is not None
    assert found.hosting.worst.value > found.hosting.mean.value > found.plan.mean.value


def test_cpu_of_requests_is_that_of_the_hops() -> None:
    """Requests make all calls here, so together they take what all hops take: the total without idle CPU."""
    text = SHOP.replace("100B", "1100B") + (
        "call web -> db { size 4KB }\nrequest look on web -> api { rate 10/m }\n"
        "request both on web -> db { rate 3/s }\npolicy logs = access_log() on * -> db\n"
    )
    program = load_text(text)
    placement = place(program)
    overhead = estimate(program, of_placement(program, placement), profile())
    found = of_requests(program, placement, profile(), overhead)
    made = sum(each.rate * each.plan.cpu.value for each in found if each.rate is not None)
    idle = sum(adm.idle.value for adm in overhead.adms if adm.idle is not None)
    assert abs(made - (overhead.totals.cpu.value - idle)) < 20
    assert overhead.totals.cpu.value - idle > 1_000_000


def test_a_call_without_a_rate() -> None:
    """Latency and CPU depend on the rate by this profile, so there is no figure, and what is there is a lower bound."""
    found = of(SHOP.replace("rate 5/s", ""), profile())
    # of the profile's figures only those of the policy and of one part do not depend on the rate
    assert found.plan.mean.at_least
    assert found.plan.cpu.at_least
    assert (found.plan.mean.high, found.plan.cpu.high) == (None, None)
    assert found.rate is None


def test_another_call_through_the_sidecar_without_a_rate() -> None:
    """The rate of the sidecar is not known then, so neither is what a request takes there."""
    text = SHOP.replace("service web,", "service web, batch,") + "call batch -> api { size 100B }\n"
    found = of(text, profile())
    assert found.plan.mean.at_least
    assert found.plan.cpu.at_least


def test_an_async_call_without_figures_leaves_the_latency_alone() -> None:
    text = SHOP.replace("service web, api, db { http 80 }", "service web, api { http 80 }\nservice db { tcp 80 }")
    for line, at_least in (("async call db", False), ("call db", True), ("together { call db }", True)):
        found = of(text.replace("call db { chance 50% }", line), profile())
        assert found.hosting.mean.at_least is at_least
        assert found.hosting.cpu.at_least


def test_a_policy_counts_for_the_calls_in_its_scope() -> None:
    """The policy takes 4 us of CPU and of latency, and `look` does not meet it."""
    text = SHOP.replace("service web,", "service web, batch,")
    text += "call batch -> api { size 100B }\nrequest look on batch -> api { rate 5/s }\n"
    program = load_text(text)
    placement = place(program)
    overhead = estimate(program, of_placement(program, placement), profile())
    buy, look = of_requests(program, placement, profile(), overhead)
    assert buy.plan.cpu.value - look.plan.cpu.value == 4_000
    assert buy.plan.mean.value - look.plan.mean.value == 4_000


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (SHOP.replace("100B", "1KB"), lambda _: None),
        (SHOP.replace(" { size 100B }", ""), lambda _: None),
        (SHOP.replace("request_count", "deny"), lambda _: None),
        (SHOP.replace("http", "grpc"), lambda _: None),
        (SHOP, lambda document: document["hops"][0]["parts"][0].update(cpu=None)),
    ],
    ids=["policy without bytes", "calls without size", "component", "protocol", "part"],
)
def test_what_is_missing_makes_a_lower_bound(text: str, change: Callable[[Document], object]) -> None:
    found = of(text, profile(change))
    assert found.plan.cpu.at_least
    assert found.plan.cpu.high is None


def test_a_call_that_is_nearly_never_made_has_a_rate() -> None:
    """Its rate is below the least positive float. It stays a rate: weights of calls are never all zero."""
    rare = "call api { chance 0.000001%  call web { chance 0.000001%  "
    text = "app loop\nexternal client\nservice web, api, db { http 80 }\n"
    calls = ("client -> web", "web -> api", "api -> web", "web -> db")
    text += "".join(f"call {call} {{ size 100B }}\n" for call in calls)
    text += "policy count = request_count() on * -> db\n"
    found = of(f"{text}request look on client -> web {{ rate 5/s  {rare * 24} call db {'} } ' * 24} }}\n", profile())
    assert not found.plan.worst.at_least
    assert found.plan.worst.value > 0
    assert found.plan.mean.value == 0


def test_a_saturated_sidecar_has_no_latency() -> None:
    found = of(SHOP.replace("5/s", "50000/s"), profile())
    assert found.plan.mean == Whole(0, 0, None, at_least=True)
    assert not found.plan.cpu.at_least


# ---- the command ----


@pytest.mark.parametrize("format_", ["text", "json"])
def test_output(admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_: str) -> None:
    """`ADMC_SNAPSHOTS=1` writes the snapshots anew; review the difference."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "node.json").write_text(changed(lambda _: None))
    (tmp_path / "shop.adm").write_text(
        SHOP + 'request look on web -> api { rate 2/s  async call db { work 1ms } }\nprofile "node.json"\n'
    )
    run = admc("overhead", "shop.adm", "--format", format_)
    assert (run.code, run.err) == (0, "")
    compare(f"overhead-requests.{format_}", run.out)


# ---- what `minimize latency` does not see ----

BUSY = """app shop
external client
service web, api, db, batch { http 80 }
call client -> web { size 100B }
call web -> api { size 100B }
call api -> db { size 100B }
call batch -> db { rate 1500/s  size 100B }
policy count = request_count() on api -> db
request look on client -> web { rate 5/s  call api { call db } }
"""


def test_the_sum_over_calls_and_the_longest_path_differ() -> None:
    """At the egress of `api` few requests pay, each much: its sidecar is cold. At the ingress of `db` it is busy."""
    sums, paths = {}, {}
    for side in ("egress", "ingress"):
        program = load_text(f"{BUSY}pin count at {side}\n")
        placement = place(program)
        overhead = estimate(program, of_placement(program, placement), profile())
        (found,) = of_requests(program, placement, profile(), overhead)
        sums[side], paths[side] = overhead.totals.latency.value, found.plan.mean.value
    assert sums["egress"] < sums["ingress"] / 50
    assert paths["ingress"] < paths["egress"] / 3
