"""Comparisons with lists: what the regular expressions accept is what the language says, for any value."""

from __future__ import annotations

import re

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from dsl.match import Elements, elements_of
from emitters.envoy.matching import header_elements

VALUES = st.text(alphabet="ab,;. \tA7é-]^", max_size=8)
LISTS = [elements_of("x"), elements_of("cookie")]
PATTERNS = [
    *("a", "a|b", "a.*", ".*", ".a", "[^b]*", "[ab]+", "[*-a]+", "[,a]+", "a,b", "a,?b", r"\D+", r"\S*", r"\W"),
    *(r"[\W]+", r"[^\W,]+", r"\x2c?a", r"\054?b", "[[:punct:]]a", "[[:alpha:]]+", r"\pL+", "^a.b$", "(?P<n>a)b?"),
    *("(?i)A", "a{1,2}", r"(?i:a)|b\b", r"\Qa,\E|\Qa.\E", "(a(b|,))+", "[]a,]+", "[a-]+", r"[\s\S]{2}", ""),
    *("a{,2}", r"\.|[.]a", "a;b", "[;a]+", "[^;]*", r"\x3b?a", "[+-<]", r"[\W]a"),
    *("[^]]+", "[^]a]", "[]a]", "[^],]", "[],]", "[^]-a]", "[^a-]", "[^-a]", "[,^]", "[,^a]+", "[[,:alpha:]]"),
]


def parts(value: str, of: Elements = LISTS[0]) -> set[str]:
    """The whole value and its elements, with or without the blanks around them."""
    found = {value} if of.whole else set()
    for element in re.split(f"[{of.separators}]", value):
        left, right = len(element) - len(element.lstrip(" \t")), len(element) - len(element.rstrip(" \t"))
        found |= {
            element[start : len(element) - end]
            for start in range(left + 1)
            for end in range(right + 1)
            if start + end <= len(element)
        }
    return found


OPTIONS = re2.Options()
OPTIONS.encoding = re2.Options.Encoding.LATIN1  # as Envoy has it
OPTIONS.log_errors = False


def accepted(pattern: str, value: str) -> bool:
    return re2.compile(pattern.encode(), OPTIONS).fullmatch(value.encode()) is not None


@pytest.mark.parametrize("of", LISTS, ids=["list", "cookies"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_matches(pattern: str, of: Elements) -> None:
    whole = header_elements.matches(pattern, of)

    @given(VALUES)
    def agree(value: str) -> None:
        assert accepted(whole, value) == any(accepted(pattern, part) for part in parts(value, of))

    agree()


@pytest.mark.parametrize(
    ("pattern", "value"),
    [("adm[^]]+", "admin,x"), ("adm[^]a]n", "admin,x"), ("[^],]", "a,b"), ("[,^a]", "b,c"), ("[[,:a:]]", ":],b")],
)
def test_a_class_means_the_same_within_an_element(pattern: str, value: str) -> None:
    assert accepted(header_elements.matches(pattern), value) == any(accepted(pattern, part) for part in parts(value))


@given(VALUES, VALUES, st.sampled_from(LISTS))
def test_equals(wanted: str, value: str, of: Elements) -> None:
    assert accepted(header_elements.equals(wanted, of), value) == (wanted in parts(value, of))


@given(VALUES.filter(bool), VALUES, st.sampled_from(LISTS))
def test_starts_with(wanted: str, value: str, of: Elements) -> None:
    expected = any(part.startswith(wanted) for part in parts(value, of))
    assert accepted(header_elements.starts_with(wanted, of), value) == expected


@given(st.text(alphabet=r"ab,;.[]()^-\dDWw*+?{}2|:x", max_size=12), VALUES, st.sampled_from(LISTS))
def test_whatever_is_written_is_right_or_refused(pattern: str, value: str, of: Elements) -> None:
    try:
        re2.compile(pattern.encode(), OPTIONS)
    except re2.error:
        return
    try:
        whole = header_elements.matches(pattern, of)
    except header_elements.TooIntricateError:
        return
    assert accepted(whole, value) == any(accepted(pattern, part) for part in parts(value, of))


@pytest.mark.parametrize(
    "pattern", ["a^b", "(^a)", "a$b", r"\Aa", r"\PL", r"\p{Po}", "[[:^alpha:]]", r"\C", "é?", r"\x{e9}", "^?", "^*a"]
)
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(header_elements.TooIntricateError):
        header_elements.matches(pattern)


@given(st.text(alphabet="tcpTwebsoé ", max_size=10) | st.sampled_from(["tcp", "TCP", "websocket", "WebSocket", "web"]))
def test_none_of(value: str) -> None:
    assert accepted(header_elements.none_of(["tcp", "websocket"]), value) == (value.lower() not in ("tcp", "websocket"))


def test_other_bytes_are_no_matter() -> None:
    assert re2.compile(header_elements.equals("a").encode(), OPTIONS).fullmatch(b"\xff\xfe, a")
