"""The expression by which Envoy compares a path without its query, also a path with bytes that are no letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from dsl.match import Comparison, Field, Operator
from dsl.selecting import Example, holds
from emitters.envoy.matching.header_elements import TooIntricateError
from emitters.envoy.matching.predicates import path_expression
from tests.emitters.envoy.both_ends import CALLS, ways
from tests.emitters.envoy.obliging import Obliging, ask_http_2
from tests.emitters.envoy.support import ENVOY
from tests.properties import examples

if TYPE_CHECKING:
    from pathlib import Path

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1  # as Envoy has it
_PATTERNS = (
    *("/a", "/a?", "/a??b", "/.*", "/[^b]*", "/a[?]?b", r"/a\?b", r"\Q/a?\E", "^/a$", "^/a$|^/b$", "/a|/ab", "(?i)^/A"),
    *("/(a|b)+", "(?i)/A", "(?i-s:/A)b", "/a{1,2}?", r"/\Sb*", r"/\W?a", "[!-@]+a", r"/a\b.*", "", ".*", "(?P<n>/)a*?"),
)
_PATHS = st.text("/abA?-\xe9", max_size=6).map(lambda text: f"/{text}") | st.just("*")


@given(st.sampled_from(_PATTERNS), _PATHS)
@examples(1000)
def test_it_holds_for_a_path_whatever_its_query(pattern: str, path: str) -> None:
    expected = holds(Comparison(Field("path"), Operator.MATCHES, pattern), Example("GET", path))
    found = re2.compile(path_expression(pattern).encode(), _OPTIONS).fullmatch(path.encode())
    assert (found is not None) is expected


@pytest.mark.parametrize("pattern", ["/a$b", "(^/a|/b)", "/\xe9", r"/\C", "/a^|b", r"\A/a"])
def test_what_cannot_be_said_of_a_part_is_refused(pattern: str) -> None:
    with pytest.raises(TooIntricateError):
        path_expression(pattern)


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
@pytest.mark.parametrize("side", ["egress", "ingress"])
def test_bytes_that_are_no_letters_pass_no_guard(tmp_path: Path, side: str) -> None:
    """A client of HTTP/2 may send any byte above ASCII in a path."""
    service = Obliging()
    when = 'path matches "/admin.*" or not path matches "/.*"'
    text = f"{CALLS}@{side}\npolicy p = deny() on front -> back when {when}\n"
    fields = ((":method", "GET"), (":scheme", "http"), (":authority", "back"))
    with ways(tmp_path, service, text) as app:
        for path, status in (("/b", 200), ("/b/\xc3\xa9", 200), ("/admin/\xe9", 403), ("/admin\xff?x", 403)):
            raw = tuple((name.encode(), value.encode()) for name, value in fields)
            answer = ask_http_2(app.through, *raw, (b":path", path.encode("latin-1")), then=b"")
            assert answer.status == status, path
    assert len(service.seen) == 2
