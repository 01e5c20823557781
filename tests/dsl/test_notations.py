"""Numbers in the notations of other languages: the advice is right, which means that a program with it is accepted."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.notations import as_here
from tests.properties import examples

PROGRAM = """\
app shop
service web {{ http 8080 }}
service api {{ http 8080 }}
call web -> api {{ rate {rate}  size {size} }}
policy quota = rate_limit({requests}, per: {per})  on web -> api
"""
GOOD = {"rate": "5/s", "size": "1KB", "requests": "requests: 5", "per": "1s"}


def hints(**wrong: str) -> list[str | None]:
    with pytest.raises(ProgramError) as caught:
        dsl.load_text(PROGRAM.format(**{**GOOD, **wrong}))
    return [each.hint for each in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1_000", "1000"),
        ("1_000_000", "1000000"),
        ("1,000", "1000"),
        ("1,000,000", "1000000"),
        ("1 000", "1000"),
        ("1'000", "1000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("2.5e3", "2500"),
        ("1k", "1000"),
        ("1.5k", "1500"),
        ("2M", "2000000"),
        ("0x10", "16"),
        ("0b11", "3"),
        ("10.", "10"),
        ("+5", "5"),
        ("1_000/s", "1000"),
        ("5ms", "5"),
    ],
)
def test_a_whole_number(written: str, meant: str) -> None:
    (hint,) = hints(requests=f"requests: {written}")
    assert hint == f"write `{meant}`"
    dsl.load_text(PROGRAM.format(**{**GOOD, "requests": f"requests: {meant}"}))


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("per", "1_000ms", "1000ms"),
        ("per", ".5s", "0.5s"),
        ("per", "10.s", "10s"),
        ("per", "+5s", "5s"),
        ("per", "1e3ms", "1000ms"),
        ("rate", "1_000/s", "1000/s"),
        ("rate", "1,000/s", "1000/s"),
        ("rate", "1k/s", "1000/s"),
        ("rate", "1e3/s", "1000/s"),
        ("size", ".5KB", "0.5KB"),
        ("size", "1_000B", "1000B"),
    ],
)
def test_a_number_with_a_unit(name: str, written: str, meant: str) -> None:
    (hint,) = hints(**{name: written})
    assert hint == f"write `{meant}`"
    dsl.load_text(PROGRAM.format(**{**GOOD, name: meant}))


def test_a_number_that_lacks_its_unit_besides() -> None:
    (hint,) = hints(per="1e3")
    assert hint is not None
    assert hint.startswith("write `1000ms` or `1000s`")


@pytest.mark.parametrize("written", ["1.5.2", "10.2.3.4"])
def test_a_number_with_two_points(written: str) -> None:
    (hint,) = hints(requests=f"requests: {written}")
    assert hint is not None
    assert "write `" not in hint


@pytest.mark.parametrize("written", ["1_", "1e", "5x", "1e99", "0xzz"])
def test_what_is_no_number_in_any_notation_gets_no_number_as_advice(written: str) -> None:
    (hint,) = hints(requests=f"requests: {written}")
    assert hint == "a whole number has digits alone"


@examples(200)
@given(st.text("0123456789_',. eExXkKMG+-/sm%b", max_size=14))
def test_no_advice_is_itself_in_need_of_advice(text: str) -> None:
    meant = as_here(text)
    if meant is not None:
        assert as_here(meant) is None or re.fullmatch(r"-?[0-9.]+[A-Za-z%]*(/[A-Za-z]+)?", meant)
        assert re.match(r"-?[0-9]+(\.[0-9]+)?", meant)


def test_numbers_of_this_language_are_left_alone() -> None:
    assert as_here("1000") is None
    assert as_here("250ms") is None
    assert as_here("503") is None
    assert as_here("1" * 1000 + "_000") is None
