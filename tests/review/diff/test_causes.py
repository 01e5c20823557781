"""Why a decision moved: the rule that came or went, or an irreducible set of changes.

The programs between BASE and HEAD are made here from lines of text, and not by admc: each line is one element.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.compile.pipeline import Compiled, compile_program
from admc.compile.plan.model import Plan, SourceLine
from admc.compile.plan.previous import places_of
from admc.review.diff.causes.elements import changes, elements_of, hybrid
from admc.review.diff.causes.explain import Sources, with_causes
from admc.review.diff.causes.search import BudgetSpentError, irreducible
from admc.review.diff.model import SCHEMA_VERSION, Cause, Cost, Counts, Diff, Gap, How, Move, Rename, Rollout, Taken
from dsl.diagnostics.diagnostic import ProgramError
from dsl.loader import load_statements
from dsl.program import Place
from solver.place import place
from solver.placement import PlacementError, Previous
from tests.properties import examples

Places = Mapping[tuple[str, str], Place]
HOTEL = (Path(__file__).parents[3] / "examples/hotel_reservation/policies.adm").read_text("utf-8")
DATABASE: Final = "call geo            -> mongodb-geo "
MORE_CALLERS: Final = (
    (DATABASE, f"call geo -> rate {{ rate 1/s }}\n{DATABASE}"),
    ("allow(callers: [search])", "allow(callers: [search, geo])"),
)


def moved(base: Plan, head: Plan, *, how: How = How.COMPILED, renames: tuple[Rename, ...] = ()) -> Diff:
    """A difference that has the moves alone."""
    new = {rename.base: rename.head for rename in renames}
    before = {(new.get(policy, policy), there): place for (policy, there), place in places_of(base).items()}
    after = places_of(head)
    different = [key for key in sorted(after) if before.get(key, after[key]) != after[key]]
    moves = tuple(Move(*key, before[key], after[key], (), (), None) for key in different)
    taken = Taken("x", "policies.adm", None, how, None, 3, None)
    counts = Counts(0, 0, 0, 0)
    rollout, cost = Rollout((), (), (), (), None), Cost("no profile", None, ())
    return Diff(
        SCHEMA_VERSION,
        "x",
        taken,
        taken,
        counts,
        counts,
        (),
        (),
        (),
        renames,
        (),
        moves,
        rollout,
        (),
        Gap((), ()),
        cost,
        (),
        (),
        (),
    )


class Pair:
    """Two programs in folders, compiled: HEAD with BASE as `--previous` unless `alone`."""

    def __init__(self, folder: Path, base: str, head: str, *, alone: bool = False) -> None:
        self.paths = [folder / name / "policies.adm" for name in ("base", "head")]
        for path, text in zip(self.paths, (base, head), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self.base: Compiled = compile_program(self.paths[0])
        self.head: Compiled = compile_program(self.paths[1], previous=None if alone else self.base.plan)

    def causes(
        self, *, how: How = How.COMPILED, effort: float = 1.0, renames: tuple[Rename, ...] = ()
    ) -> dict[tuple[str, str], Cause | None]:
        diff = moved(self.base.plan, self.head.plan, how=how, renames=renames)
        sources = Sources(*(load_statements(path) for path in self.paths))
        found = with_causes(diff, self.base.plan, self.head.plan, sources, effort)
        return {(move.policy, move.destination): move.cause for move in found.moves}


def changed(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_a_call_that_came(tmp_path: Path) -> None:
    """The example of the issue: a guard goes to the receiver since another service calls it."""
    head = changed(HOTEL, *MORE_CALLERS, ("requests: 90,", "requests: 900,"))
    found = Pair(tmp_path, HOTEL, head).causes()
    line = head[: head.index("call geo -> rate ")].count("\n") + 1
    cause = found["rate_readers", "rate"]
    assert cause is not None
    assert cause.text == "call `geo -> rate` came"
    assert cause.lines == (SourceLine("policies.adm", line),)
    assert cause.complete


def test_the_profile_of_a_file_in_a_folder(tmp_path: Path) -> None:
    """Its path is relative to the file that it stands in, and not to the program."""
    profile = (Path(__file__).parents[3] / "admc/cost/profiles/built_in/meshinsight.json").read_bytes()
    for side in ("base", "head"):
        (tmp_path / side / "costs").mkdir(parents=True)
        (tmp_path / side / "costs/profile.json").write_bytes(profile)
        (tmp_path / side / "costs/costs.adm").write_text('profile "profile.json"\n', "utf-8")
    base = HOTEL + 'use "costs/costs.adm"\n'
    found = Pair(tmp_path, base, changed(base, *MORE_CALLERS)).causes()["rate_readers", "rate"]
    assert found is not None
    assert found.text == "call `geo -> rate` came"


WEB = "service web { http 80 }\n"
TIE = f"""app shop
{WEB}service api {{ http 80 }}
call web -> api
policy mark = set_request_header(name: "x-a", value: "b") on web -> api
"""


def test_a_rule_that_came_or_went(tmp_path: Path) -> None:
    budget = "policy budget = timeout(after: 1s) on web -> api\n"
    bare = changed(TIE, (WEB, "service web { http 80  no adm }\n"))
    (came,) = Pair(tmp_path / "1", TIE + budget, bare).causes().values()
    assert came is not None
    assert came.text.startswith("rule R8 came: ")
    assert came.lines
    (went,) = Pair(tmp_path / "2", bare, TIE + budget).causes().values()
    assert went is not None
    assert went.text.startswith("rule R8 went: ")
    assert went.base_lines
    assert not went.lines


def test_two_changes_that_only_move_together(tmp_path: Path) -> None:
    """`quota` goes where two other policies already need an ADM."""
    base = """app shop
service web, api, shop { http 80 }
call web -> shop
call web -> api
call api -> shop
policy quota = set_request_header(name: "x-a", value: "b") on * -> shop
policy log = access_log() on web -> api
"""
    head = base + "policy web_budget = timeout(after: 1s) on web -> shop\n"
    head += "policy api_budget = timeout(after: 1s) on api -> shop\n"
    found = Pair(tmp_path, base, head).causes()
    cause = found["quota", "shop"]
    assert cause is not None
    assert cause.text == "policy `api_budget` came, policy `web_budget` came"
    assert len(cause.lines) == 2


def at(pair: Pair, which: int, place: Place) -> Compiled:
    """One of two programs, placed at this place where both places are as good."""
    plan = compile_program(pair.paths[which]).plan
    host = "api" if place is Place.INGRESS else "web"
    decisions = tuple(
        replace(row, place=place) if (row.policy, row.destination) == ("mark", "api") else row for row in plan.decisions
    )
    earlier = replace(plan, decisions=decisions, adms=(replace(plan.adms[0], service=host),))
    return compile_program(pair.paths[which], previous=earlier)


@pytest.mark.parametrize(
    ("more", "text"), [("", "the same program was placed anew"), ("call api -> web\n", "the move buys nothing")]
)
def test_a_move_that_buys_nothing(tmp_path: Path, more: str, text: str) -> None:
    pair = Pair(tmp_path, TIE, TIE + more)
    pair.base, pair.head = at(pair, 0, Place.INGRESS), at(pair, 1, Place.EGRESS)
    (cause,) = pair.causes(how=How.PLAN).values()
    assert cause is not None
    assert text in cause.text


def test_a_renamed_policy(tmp_path: Path) -> None:
    head = changed(HOTEL, ("policy rate_readers =", "policy rate_callers ="), *MORE_CALLERS)
    pair = Pair(tmp_path, HOTEL, head)
    found = pair.causes(renames=(Rename("rate_readers", "rate_callers"),))
    cause = found["rate_callers", "rate"]
    assert cause is not None
    assert cause.text == "call `geo -> rate` came"


def test_the_effort_ends_the_search(tmp_path: Path) -> None:
    head = changed(HOTEL, *MORE_CALLERS, ("requests: 90,", "requests: 900,"))
    cause = Pair(tmp_path, HOTEL, head).causes(effort=0.000001)["rate_readers", "rate"]
    assert cause is not None
    assert not cause.complete
    assert cause.text.startswith("one of these 3, or several: ")
    assert len(cause.lines) == 3


# ---- the search alone ----


@given(st.integers(1, 9), st.integers(0, 2**32))
@examples(150)
def test_nothing_can_be_left_out(size: int, seed: int) -> None:
    """Also where the effect is no matter of more or fewer changes: any set of them may have it."""
    rng = random.Random(seed)  # noqa: S311
    subsets = [each for number in range(size) for each in combinations(range(size), number)]
    effective = {each for each in subsets if rng.random() < 0.15} | {tuple(range(size))}
    found, complete = irreducible(tuple(range(size)), lambda subset: tuple(subset) in effective)
    assert complete
    assert tuple(found) in effective
    smaller = [each for each in effective if set(each) < set(found)]
    if len(found) <= 4:
        assert [each for each in smaller if each] == []
    else:
        assert not [each for each in smaller if len(each) == len(found) - 1]


def test_the_best_set_of_a_search_that_ends_early_has_the_effect() -> None:
    left = [10]

    def has_effect(subset: tuple[int, ...]) -> bool:
        left[0] -= 1
        if not left[0]:
            raise BudgetSpentError
        return 3 in subset and 70 in subset

    found, complete = irreducible(tuple(range(100)), has_effect)
    assert not complete
    assert {3, 70} <= set(found)
    assert len(found) < 100


# ---- random pairs ----

KINDS: Final = (
    "rate_limit(requests: 5, per: 1s)",
    'set_request_header(name: "x-{at}", value: "b")',
    'set_response_header(name: "x-{at}", value: "b")',
    "allow(callers: [s0, s1])",
    "request_count()",
)
ONE_SIDE: Final = ("retry(attempts: 2)", "circuit_breaking(max_requests: 5)")


def lines_of(rng: random.Random) -> list[str]:
    names = [f"s{at}" for at in range(6)]
    lines = ["app shop"]
    lines += [f"service {name} {{ http 80{rng.choice(['', '', '  replicas 2'])} }}" for name in names]
    calls = [(a, b) for a in names for b in names if a < b]
    lines += [f"call {a} -> {b} {{ rate {rng.randint(1, 9)}/s }}" for a, b in rng.sample(calls, 9)]
    for at, there in enumerate(rng.sample(names[1:], 4)):
        kind = rng.choice(KINDS).format(at=at)
        lines.append(f"policy p{at} = {kind} on {rng.choice(['*', '*', names[0]])} -> {there}")
    for at, (here, there) in enumerate(rng.sample(calls, 2)):
        lines.append(f"policy q{at} = {ONE_SIDE[at]} on {here} -> {there}")
    return lines


def edited(lines: list[str], rng: random.Random) -> tuple[list[str], list[str]]:
    """Two programs: each lacks some lines of one, and a line may differ."""
    base, head = list(lines), list(lines)
    for line in rng.sample([line for line in lines if line.startswith(("call", "policy"))], rng.randint(2, 5)):
        (base if rng.random() < 0.5 else head).remove(line)
    for at, line in enumerate(head):
        if "replicas 2" in line and rng.random() < 0.3:
            head[at] = line.replace("replicas 2", "no adm")
    return base, head


def key_of(line: str) -> str:
    return line.partition(" {")[0].partition(" = ")[0]


def between(base: list[str], head: list[str], applied: Iterable[str], lines: list[str]) -> str:
    """BASE with some lines of HEAD, in the order of the program that both are from."""
    taken = set(applied)
    sides = [{key_of(line): line for line in side} for side in (base, head)]
    keys = [key_of(line) for line in lines]
    found = [sides[key in taken].get(key) for key in keys]
    return "\n".join(line for line in found if line is not None) + "\n"


def shown(key: str) -> str:
    word, _, name = key.partition(" ")
    return f"{word} `{name}`"


def solved(text: str, previous: Previous) -> Places | None:
    try:
        placement = place(dsl.load_text(text), previous=previous)
    except (ProgramError, PlacementError):
        return None
    return {(each.policy, each.destination): each.place for each in placement.decisions}


@given(st.randoms(use_true_random=False))
@examples(75)
def test_causes_are_irreducible_by_all_subsets(tmp_path_factory: pytest.TempPathFactory, rng: random.Random) -> None:
    lines = lines_of(rng)
    base, head = edited(lines, rng)
    try:
        pair = Pair(tmp_path_factory.mktemp("pair"), "\n".join(base) + "\n", "\n".join(head) + "\n")
    except Exception as error:
        if type(error).__name__ == "CommandError":
            return
        raise
    plan = pair.base.plan
    previous = Previous(places_of(plan), frozenset(adm.service for adm in plan.adms))
    after = places_of(pair.head.plan)
    sides = [{key_of(line): line for line in side} for side in (base, head)]
    keys = [key for key in map(key_of, lines) if sides[0].get(key) != sides[1].get(key)]
    for decision, cause in pair.causes().items():
        assert cause is not None
        if cause.text.startswith("rule "):
            continue
        assert cause.complete
        parts = cause.text.split(", ")
        named = [key for key in keys if any(shown(key) in part for part in parts)]
        assert len(named) == len(cause.lines + cause.base_lines), cause.text
        for size in range(len(named) + 1):
            for subset in combinations(named, size):
                found = solved(between(base, head, subset, lines), previous)
                shows = found is not None and found.get(decision) == after[decision]
                assert shows is (size == len(named)), (decision, cause.text, subset)


NETWORK: Final = """app shop
service a, d { http 80  host_network }
call a -> d
network_policies enforced
accept host_network
policy only = allow(callers: [a]) on * -> d accept drop
"""


@pytest.mark.parametrize(
    ("base", "head", "keys"),
    [
        ("", "", []),
        ("network_policies enforced\n", "", [("network_policies", "enforced")]),
        ("accept host_network\n", "", [("accept", "host_network")]),
        (" accept drop", "", [("policy", "only")]),
        ("app shop\n", "// moved\napp shop\n", []),
    ],
)
def test_what_a_program_says_about_the_network_changes_by_itself(
    tmp_path: Path, base: str, head: str, keys: list[tuple[str, str]]
) -> None:
    sides = []
    for name, text in (("base", NETWORK), ("head", NETWORK.replace(base, head) if base else NETWORK)):
        path = tmp_path / name / "policies.adm"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        sides.append(elements_of(load_statements(path)))
    different = changes(*sides)
    assert [change.key for change in different] == keys
    merged = hybrid(*sides, keys, [])
    assert (merged.network_policies is None, merged.accepts_host_network is None) == (False, False)
    assert merged.policies[0].accepts_drop is not None
