"""Rule R6 in the verifier: the table of effects, stages, and matches that exclude each other."""

from __future__ import annotations

import pytest

from dsl.match import And, Comparison, Field, Match, Not, Operator, Or
from dsl.program import Element, Program, Verb
from solver.placement import Rule
from solver.verify.matches import can_both_hold
from solver.verify.order import effects_commute
from solver.verify.verifier import verify
from tests.solver import oracle
from tests.solver.build import Spec, effect, kind, program, service
from tests.solver.samples import (
    COUNT,
    DELAY,
    HEADER,
    IN,
    MIRROR,
    OUT,
    QUOTA,
    RETRY,
    TIMEOUT,
    TRUSTED,
    TWO,
    place,
    rules,
)


def test_at_one_stage_the_router_decides_the_order() -> None:
    def of(first: Spec, second: Spec) -> Program:
        return program([*TRUSTED, service("t")], [*TWO, ("a", "t")], [first, second])

    mirror = Spec("m", MIRROR, {"a"}, {"d"}, {"to": "t"})
    retry, limit = Spec("r", RETRY, {"a"}, {"d"}), Spec("t", TIMEOUT, {"a"}, {"d"})
    right = {"m": OUT, "r": OUT, "t": OUT}
    assert verify(of(mirror, retry), place(of(mirror, retry), right)) == ()
    assert rules(of(retry, mirror), place(of(retry, mirror), right)) == {Rule.ORDER}
    for one, other in ((retry, limit), (limit, retry)):
        assert verify(of(one, other), place(of(one, other), right)) == ()


def test_a_timeout_covers_a_delay_at_the_receiver_only() -> None:
    of = program(TRUSTED, TWO, [Spec("t", TIMEOUT, {"a"}, {"d"}), Spec("x", DELAY, {"a"}, {"d"})])
    assert verify(of, place(of, {"t": OUT, "x": IN})) == ()
    assert rules(of, place(of, {"t": OUT, "x": OUT})) == {Rule.ORDER}


def _path(value: str, operator: Operator = Operator.EQUALS) -> Comparison:
    return Comparison(Field("path"), operator, value)


def _header(value: str, operator: Operator = Operator.EQUALS) -> Comparison:
    return Comparison(Field("header", "x-a"), operator, value)


PREFIX, OTHER, REGEX = Operator.STARTS_WITH, Operator.NOT_EQUALS, Operator.MATCHES
EXCLUSIVE: list[tuple[Match, Match]] = [
    (_path("/a"), _path("/b")),
    (_path("/a"), _path("/a", OTHER)),
    (_path("/a"), Not(_path("/a"))),
    (_path("/a"), _path("/b", PREFIX)),
    (_path("/a", PREFIX), _path("/b", PREFIX)),
    (_path("/a/b", PREFIX), Not(_path("/a", PREFIX))),
    (_path("/a/b"), Not(_path("/a", PREFIX))),
    (_path("/a.*", REGEX), Not(_path("/a.*", REGEX))),
    (_header("1"), _header("1", OTHER)),
    (_header("1", PREFIX), Not(_header("1", PREFIX))),
    (And((_path("/a"), _header("1"))), And((_path("/b"), _header("1")))),
    (Or((_path("/a"), _path("/b"))), Or((_path("/c"), _path("/d")))),
    (Not(Or((_path("/a"), _path("/b")))), Or((_path("/a"), _path("/b")))),
    (Not(And((_path("/a"), _header("1")))), And((_header("1"), _path("/a")))),
]
NEVER: list[Match] = [
    Not(_path("", PREFIX)),
    And((_path("/a"), _path("/b"))),
    And((_path("/a"), _path("/a", OTHER))),
    And((_header("1"), Not(_header("1")))),
]
COMPATIBLE: list[tuple[Match, Match]] = [
    (_header("1"), _header("2")),
    (_header("1", PREFIX), _header("2", PREFIX)),
    (_header("1"), _header("2", PREFIX)),
    (And((_path("/a"), _header("1"))), And((_path("/a"), _header("2")))),
    (_path("/a"), _path("/a")),
    (_path("/a"), _header("1")),
    (_path("/a"), _path("/b", OTHER)),
    (_path("/a/b", PREFIX), _path("/a", PREFIX)),
    (_path("/a", PREFIX), Not(_path("/a/b", PREFIX))),
    (_path("/a"), _path("/b.*", REGEX)),
    (_header("1", OTHER), _header("2", OTHER)),
    (Not(_header("", PREFIX)), _path("/a")),
    (Or((_path("/a"), _path("/b"))), Or((_path("/b"), _path("/c")))),
    (Not(And((_path("/a"), _header("1")))), _path("/a")),
]


@pytest.mark.parametrize(("one", "other"), EXCLUSIVE)
def test_matches_that_exclude_each_other(one: Match, other: Match) -> None:
    nothing = frozenset[Field | None]()
    assert not can_both_hold(one, other, nothing)
    assert not can_both_hold(other, one, nothing)
    assert can_both_hold(one, None, nothing)
    assert can_both_hold(one, other, frozenset({Field("path"), Field("header"), Field("method")}))
    assert can_both_hold(one, other, frozenset({None}))


@pytest.mark.parametrize("never", NEVER)
def test_matches_that_nothing_satisfies(never: Match) -> None:
    """Also where the other policy writes what they compare: they contradict themselves."""
    for changing in (frozenset[Field | None](), frozenset[Field | None]({Field("path"), Field("header")})):
        assert not can_both_hold(never, _header("1"), changing)
        assert not can_both_hold(_header("1"), never, changing)


@pytest.mark.parametrize(("one", "other"), COMPATIBLE)
def test_matches_that_can_both_hold(one: Match, other: Match) -> None:
    assert can_both_hold(one, other, frozenset())
    assert can_both_hold(other, one, frozenset())


def test_a_huge_match_counts_as_possible() -> None:
    wide = And((*(Or((_path(f"/{n}", OTHER), _header(f"{n}", OTHER))) for n in range(40)), _path("/a"), _path("/b")))
    assert can_both_hold(wide, _path("/a"), frozenset())


def test_a_match_proves_nothing_about_what_is_rewritten() -> None:
    """The first policy turns requests of the one match into requests of the other."""
    rewrite = kind("rewrite", effects=[effect(Verb.WRITES, Element.PATH)])
    of = program(
        TRUSTED,
        TWO,
        [
            Spec("w", rewrite, {"a"}, {"d"}, match=_path("/old"), reads=(effect(Verb.READS, Element.PATH),)),
            Spec("q", QUOTA, {"a"}, {"d"}, match=_path("/new"), reads=(effect(Verb.READS, Element.PATH),)),
        ],
    )
    assert verify(of, place(of, {"w": OUT, "q": IN})) == ()
    assert rules(of, place(of, {"w": IN, "q": OUT})) == {Rule.ORDER}


def test_exclusive_matches_may_be_met_in_any_order() -> None:
    of = program(
        TRUSTED,
        TWO,
        [
            Spec("q", QUOTA, {"a"}, {"d"}, match=_path("/a")),
            Spec("r", RETRY, {"a"}, {"d"}, match=_path("/b")),
        ],
    )
    assert verify(of, place(of, {"q": IN, "r": OUT})) == ()


def test_a_match_reads_what_it_compares_even_where_the_effects_forget_it() -> None:
    of = program(
        TRUSTED,
        TWO,
        [Spec("h", HEADER, {"a"}, {"d"}), Spec("c", COUNT, {"a"}, {"d"}, match=_header("1"))],
    )
    assert rules(of, place(of, {"h": IN, "c": OUT})) == {Rule.ORDER}


def test_the_table_of_effects_agrees_with_the_one_written_for_tests() -> None:
    elements = [effect(verb, element) for verb in (Verb.READS, Verb.WRITES) for element in Element]
    named = [
        effect(verb, element, name)
        for verb in (Verb.READS, Verb.WRITES)
        for element in (Element.HEADER, Element.RESPONSE_HEADER)
        for name in ("x-a", "x-b")
    ]
    every = [*elements, *named, *(effect(verb) for verb in Verb if verb not in (Verb.READS, Verb.WRITES))]
    for one in every:
        for other in every:
            assert effects_commute(one, other) == oracle.effects_commute(one, other), (one, other)
