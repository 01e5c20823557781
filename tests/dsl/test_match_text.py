"""A match is written in one form, which is read back as the same match."""

from __future__ import annotations

import sys
from itertools import chain, product
from string import printable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import dsl
from dsl.match import And, Comparison, Field, Match, Operator
from dsl.match_text import canonical, match_text
from dsl.resolve.match_parser import MatchTextError, parse_match
from dsl.syntax.scan import unescape
from dsl.text import quoted
from dsl.values.patterns import wrong_pattern
from tests.dsl.strategies import CONDITIONS
from tests.dsl.test_disjoint import MATCHES, PATH, TIER, VALUES, holds
from tests.properties import examples

FRAME = "app shop\nservice a, b {{ http 80 }}\ncall a -> b\npolicy p = access_log() on a -> b when {}\n"


def resolved(condition: str) -> Match:
    match = dsl.load_text(FRAME.format(condition)).policies[0].match
    assert match is not None
    return match


def test_every_character_of_a_string_is_read_back() -> None:
    every = chain(range(0xD800), range(0xE000, sys.maxunicode + 1))
    for number in every:
        letter = chr(number)
        literal = quoted(letter)
        assert unescape(literal) == letter, hex(number)
        assert "\n" not in literal


def test_all_pairs_with_signs_of_strings_are_read_back() -> None:
    for one, other in product(printable, repeat=2):
        assert unescape(quoted(one + other)) == one + other


@examples(200)
@given(MATCHES)
def test_a_match_is_read_back(match: Match) -> None:
    found = parse_match(match_text(match))
    assert found == canonical(match)
    assert match_text(found) == match_text(match)
    for path, tier in product(VALUES, (None, *VALUES, "/a, /b")):
        request = {PATH: path, TIER: tier}
        assert holds(found, request) == holds(match, request)


@examples(60)
@given(CONDITIONS)
def test_the_match_of_a_program_is_read_back_unchanged(condition: str) -> None:
    match = resolved(condition)
    assert parse_match(match_text(match)) == match


@examples(60)
@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_any_pattern_is_read_back(value: str) -> None:
    match = Comparison(Field("header", "x-any"), Operator.MATCHES, value)
    assume(wrong_pattern(value) is None)
    assert parse_match(match_text(match)) == match


@pytest.mark.parametrize(
    "spellings",
    [
        ('path == "/a"', '( ( path   =="/a"))'),
        ('path == "/a" and method == "GET" and path == "/b"', '(path == "/a" and (method == "GET" and path == "/b"))'),
        ('path == "/a" or method == "GET" and path == "/b"', 'path == "/a" or (method == "GET" and path == "/b")'),
        ('not path == "/a"', 'not ((path == "/a"))'),
        ('header("x-tier") == "gold"', 'header("X-Tier") == "g\\u006fld"'),
    ],
)
def test_redundant_spelling_gives_one_text(spellings: tuple[str, ...]) -> None:
    assert len({match_text(resolved(text)) for text in spellings}) == 1


def test_different_matches_have_different_texts() -> None:
    conditions = (
        'path == "/a" and method == "GET" or path == "/b"',
        'path == "/a" and (method == "GET" or path == "/b")',
        'not path == "/a" and path == "/b"',
        'not (path == "/a" and path == "/b")',
        'not (not path == "/a")',
        'path == "/a"',
        'header("path") == "/a"',
    )
    assert len({match_text(resolved(text)) for text in conditions}) == len(conditions)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "path",
        'path == "/a" and',
        'path == "/a")',
        'path ==  "/a"',
        '(path == "/a")',
        'path == "a"',
        'path == "/a" // why',
        'path == "/a"\n',
        'path == "/a"\npolicy q = deny() on * -> b',
        'path == "/a"\napp shop',
        '\npolicy q = deny() on * -> b when path == "/a"',
        'path == "/a" when path == "/b"',
        'path matches "("',
        'path matches "' + "(" * 5000 + '"',
        'path == "\\ud800"',
        'header("X-Tier") == "gold"',
        'hosts == "a"',
        "(" * 100_000,
        "not " * 100_000 + 'path == "/a"',
        "(" * 60 + 'path == "/a"' + ")" * 60,
        " or ".join(['path == "/a"'] * 2000),
        "\x00",
        '"' * 1000,
        "a:\n  - b\n",
        '{"a": 1}',
    ],
    ids=lambda text: repr(text[:30]),
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(MatchTextError) as error:
        parse_match(text)
    assert len(str(error.value)) < 300


def test_a_nested_match_is_written_flat() -> None:
    one, two, three = (Comparison(PATH, Operator.EQUALS, value) for value in ("/a", "/b", "/c"))
    assert match_text(And((And((one, two)), three))) == 'path == "/a" and path == "/b" and path == "/c"'
