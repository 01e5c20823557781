"""The text of tests: its layout, what it resolves to, and the errors of a file of tests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.review.program_tests.model import AdmExpectation, Admitted, CallExpectation, Meets, NumberExpectation, Refused
from admc.review.program_tests.resolve import resolve_tests
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, ProgramError
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.syntax.tokens import KEYWORDS
from dsl.text import SourceText
from tests.dsl.programs import codes, load
from tests.properties import examples

PROGRAM = """app shop
external internet
external stripe { tcp 443  host "api.stripe.com" }
service web, adm, is { http 8080 }
service api { http 8080  http admin 9090 }
service geo { grpc 9000 }
service db { tcp 5432 }
call internet -> web
call web -> api:8080, geo
call api -> db
policy readers = allow(callers: [web]) on * -> api
policy quota = rate_limit(requests: 5, per: 1s) on web -> geo
"""


def resolved(text: str) -> tuple[tuple[object, ...], tuple[Diagnostic, ...]]:
    diagnostics = Diagnostics()
    tests = resolve_tests(parse(SourceText("shop.test.adm", text), diagnostics), load(PROGRAM), diagnostics)
    return tuple(test.expectation for test in tests), tuple(diagnostics.items)


def test_every_form() -> None:
    text = """test a = internet -> web { path "/x?y"  method "PUT"  header("X-A") "1"  header("x-a") "2"
  no header("x-b") } is refused by readers
test b = web -> api:admin is refused
test c = web -> geo { path "/geo.Geo/Near" } meets quota, readers
test d = api -> db meets only quota
test e = no adm at {w*, api} except web
test f = adm at adm
test g = sidecars >= 2
test h = adm -> is is admitted
"""
    found, errors = resolved(text)
    assert errors == ()
    a, b, c, d, *placements, h = found
    assert isinstance(a, CallExpectation)
    assert (a.call.path, a.call.method) == ("/x?y", "PUT")
    assert a.call.headers == {"x-a": ("1", "2"), "x-b": ()}
    assert a.outcome == Refused("readers")
    assert isinstance(b, CallExpectation)
    assert (b.call.port.number, b.call.declared, b.outcome) == (9090, False, Refused())
    assert isinstance(c, CallExpectation)
    assert (c.call.method, c.call.declared, c.outcome) == ("POST", True, Meets(("quota", "readers")))
    assert isinstance(d, CallExpectation)
    assert d.outcome == Meets(("quota",), only=True)
    assert placements == [
        AdmExpectation(("api",), False),
        AdmExpectation(("adm",), True),
        NumberExpectation("sidecars", ">=", 2),
    ]
    assert isinstance(h, CallExpectation)
    assert (h.call.source, h.call.destination, h.outcome) == ("adm", "is", Admitted())


@pytest.mark.parametrize(
    ("line", "code", "at", "hint"),
    [
        ("test t = wbe -> api:admin is refused", "ADM101", "wbe", "did you mean `web`?"),
        ("test t = web -> gep is refused", "ADM101", "gep", "did you mean `geo`?"),
        ("test t = web -> api is refused", "ADM112", "api", "write one of `api:8080`, `api:admin`"),
        ("test t = web -> api:amdin is refused", "ADM104", "amdin", "did you mean `admin`?"),
        ("test t = web -> geo meets quote", "ADM103", "quote", "did you mean `quota`?"),
        ("test t = web -> geo is refused by reader", "ADM103", "reader", "did you mean `readers`?"),
        ("test t = web -> geo { passes quta } is refused", "ADM103", "quta", "did you mean `quota`?"),
        ("test t = web -> geo { passes readers } is refused", "ADM843", "passes readers", "remove it"),
        ("test t = internet -> stripe is refused", "ADM113", "internet -> stripe", "from or to a service"),
        ('test t = api -> db { path "/a" } is refused', "ADM842", 'path "/a"', "a `tcp` call has no requests"),
        ('test t = api -> db { no header("x") } is refused', "ADM842", 'no header("x")', "no requests"),
        ('test t = web -> geo { method "GET" } is refused', "ADM842", 'method "GET"', "names the method"),
        ('test t = web -> geo { path "/near" } is refused', "ADM842", 'path "/near"', "/package.Service/Method"),
        ('test t = internet -> web { path "a" } is refused', "ADM842", 'path "a"', 'write `path "/a"`'),
        ('test t = internet -> web { path "/a#b" } is refused', "ADM842", 'path "/a#b"', "leave out"),
        ('test t = internet -> web { path "/a b" } is refused', "ADM842", 'path "/a b"', "`%20`"),
        ('test t = internet -> web { path "/\u00e9" } is refused', "ADM842", 'path "/\u00e9"', "`%20`"),
        ('test t = internet -> web { path "*" } is refused', "ADM842", 'path "*"', "/"),
        ('test t = web -> geo { path "/a.B/C d" } is refused', "ADM842", 'path "/a.B/C d"', "`%20`"),
        ('test t = internet -> web { path "/"  method "CONNECT" } is refused', "ADM842", 'path "/"', "another method"),
        ('test t = internet -> web { no header("Host") } is refused', "ADM842", 'no header("Host")', "its value"),
        ('test t = internet -> web { header("x") " a" } is refused', "ADM842", 'header("x") " a"', "remove them"),
        ('test t = internet -> web { header("upgrade") "h2c" } is refused', "ADM842", 'header("upgrade") "h2c"',
         "`websocket`"),
        ('test t = internet -> web { method "G T" } is refused', "ADM842", 'method "G T"', "methods are words"),
        ('test t = internet -> web { path "/"  path "/" } is refused', "ADM842", 'path "/"', "keep one"),
        ('test t = internet -> web { header("x") } is refused', "ADM842", 'header("x")', "or `no header"),
        ('test t = internet -> web { no header("x") "1" } is refused', "ADM842", 'no header("x") "1"', "remove"),
        ('test t = internet -> web { header("x") "1"  no header("X") } is refused', "ADM842", 'no header("X")', "keep"),
        ('test t = internet -> web { no header("x")  header("x") "1" } is refused', "ADM842", 'header("x") "1"', ""),
        ('test t = internet -> web { header("x") "a\\nb" } is refused', "ADM842", 'header("x") "a\\nb"', "line breaks"),
        ('test t = internet -> web { header("x y") "1" } is refused', "ADM208", '"x y"', "letters"),
        ("test t = adm at wbe", "ADM101", "wbe", "did you mean `web`?"),
        ("test t = no adm at mongo-*", "ADM844", "mongo-*", "select a service"),
        ("test t = adm at internet", "ADM844", "internet", "select a service"),
        ("test t = adms <= 4/s", "ADM202", "4/s", ""),
        ("test t = adms <= 1.5", "ADM201", "1.5", ""),
        ("test t = adms <= -1", "ADM203", "-1", ""),
        ("test t = adms <= 1\ntest t = adms <= 2", "ADM105", "t", "rename"),
        ("service extra { http 80 }", "ADM840", "service extra { http 80 }", "move it to `shop.adm`"),
        ('use "shop.adm"', "ADM840", 'use "shop.adm"', "needs no `use`"),
        ("app shop", "ADM840", "app shop", "move it to `shop.adm`"),
        ("tets t = adms <= 1", "ADM008", "tets", "did you mean `test`?"),
        ("test t = adms < 1", "ADM002", "<", ""),
        ("test t = web -> geo is refusd", "ADM001", "refusd", "did you mean `refused`?"),
        ('test t = web -> geo { pth "/a" } is refused', "ADM001", "pth", "did you mean `path`?"),
        ("test = web -> geo is refused", "ADM001", "=", ""),
        ("test t = web -> geo {", "ADM005", "{", "close it"),
    ],
)  # fmt: skip
def test_errors(line: str, code: str, at: str, hint: str) -> None:
    _, errors = resolved(line + "\n")
    assert [(each.code, each.span.text if each.span else None) for each in errors] == [(code, at)]
    assert hint in (errors[0].hint or "")


def test_one_run_finds_the_errors_of_all_statements() -> None:
    text = """test a = wbe -> gep meets quote
test b = web -> geo {
test c = web -> geo is refusd
test d =
service x { http 80 }
test e = web ->
test f = adms <= 1
"""
    found, errors = resolved(text)
    assert [each.code for each in errors] == [
        *("ADM005", "ADM001", "ADM001", "ADM001"),
        *("ADM101", "ADM101", "ADM103", "ADM840"),
    ]
    assert found == (NumberExpectation("adms", "<=", 1),)


def test_a_test_in_a_program_is_an_error_that_says_where_it_belongs() -> None:
    assert codes(PROGRAM + "test few = adms <= 1\n") == ["ADM130"]
    files = {"shop.test.adm": b"test few = adms <= 1\n"}
    with pytest.raises(ProgramError) as error:
        load('use "shop.test.adm"\n' + PROGRAM, files)
    assert [each.code for each in error.value.diagnostics] == ["ADM130"]
    assert "`admc test` reads `shop.test.adm`" in (error.value.diagnostics[0].hint or "")


def test_words_of_tests_are_no_keywords_of_programs() -> None:
    names = "test, adm, adms, sidecars, is, refused, admitted, meets, only, path, method, header, passes"
    program = load(f"app a\nservice {names} {{ http 80 }}\ncall test ->\n  adm, adms,\n  test\n")
    assert len(program.services) == 13
    assert "test" not in KEYWORDS


LAYOUT = """// about the mesh

test  geo=web->geo  is   refused by  readers// why
test few_adms=adms<=4

// placements
test  bare =no adm at{ a ,b-*}except c
test long = internet->web{path "/a/very/long/path/of/a/page/indeed"   no header ( "x-b" )method "GET"  } meets quota,
  // the other one
  readers
test open = internet -> web {
// inside
  path "/a" // of the page

  passes  login
} is admitted
"""


def test_the_layout() -> None:
    formatted = dsl.format_text(LAYOUT, "shop.test.adm")
    assert (
        formatted
        == """// about the mesh

test geo      = web -> geo is refused by readers  // why
test few_adms = adms <= 4

// placements
test bare = no adm at {a, b-*} except c
test long = internet -> web { path "/a/very/long/path/of/a/page/indeed"  no header("x-b")
  method "GET" } meets quota,
  // the other one
  readers
test open = internet -> web {
  // inside
  path "/a"  // of the page
  passes login
} is admitted
"""
    )
    assert dsl.format_text(formatted, "shop.test.adm") == formatted


NAMES = st.sampled_from(["web", "adm", "is", "meets", "path", "header", "test", "no", "a-b", "call", "x" * 70])
STRINGS = st.sampled_from(['"/a"', '"x-long-header-name-of-some-kind"', '"a b"', '"\\u00e9"'])
SELECTORS = st.sampled_from(["*", "{a, mongo-*}", '[tier = "db"]', "* except {a, b}", "a, b"])
GAPS = st.sampled_from([" ", "  ", "\n", "  // why\n", "\n\n"])


@st.composite
def lines(draw: st.DrawFn) -> str:
    """One test, with blanks, breaks and comments where they may stand."""
    name = draw(NAMES)
    if draw(st.integers(0, 3)) == 0:
        return draw(
            st.one_of(
                SELECTORS.map(lambda each: f"test {name} = no adm  at {each}"),
                SELECTORS.map(lambda each: f"test {name} = adm at {each}"),
                st.sampled_from(("==", "<=", ">=")).map(lambda sign: f"test {name}={draw(NUMBERS)}{sign} 4"),
            )
        )
    items = draw(
        st.lists(
            st.one_of(
                STRINGS.map(lambda each: f"path {each}"),
                STRINGS.map(lambda each: f"method {each}"),
                st.tuples(STRINGS, STRINGS).map(lambda each: f"header({each[0]}) {each[1]}"),
                STRINGS.map(lambda each: f"no header( {each} )"),
                NAMES.map(lambda each: f"passes {each}"),
            ),
            max_size=5,
        )
    )
    body = (
        "{" + "".join(draw(GAPS) + item for item in items) + draw(GAPS) + "}"
        if items
        else draw(st.sampled_from(("", "{}")))
    )
    port = draw(st.sampled_from(("", ":admin", " : 80")))
    names = f",{draw(GAPS)}".join(draw(st.lists(NAMES, min_size=1, max_size=4)))
    outcome = draw(
        st.sampled_from(("is refused", f"is refused by {name}", "is admitted", f"meets {names}", f"meets only {names}"))
    )
    return f"test {name} = {draw(NAMES)}->{draw(NAMES)}{port} {body} {outcome}"


NUMBERS = st.sampled_from(["adms", "sidecars"])


def words(text: str) -> list[str]:
    """All that is not blank: comments included, so none may get lost."""
    return "".join(text.split()).split("//")


@examples(100)
@given(st.lists(lines(), min_size=1, max_size=4))
def test_formatting_twice_changes_nothing_and_loses_nothing(drawn: list[str]) -> None:
    text = "\n".join(drawn) + "\n"
    once = dsl.format_text(text, "shop.test.adm")
    assert dsl.format_text(once, "shop.test.adm") == once
    assert words(once) == words(text)
    assert _shape(once) == _shape(text)


def _shape(text: str) -> list[str]:
    """The tree without its spans."""

    def plain(node: object) -> object:
        if isinstance(node, tuple) and hasattr(node, "_asdict"):
            return [type(node).__name__, *(plain(value) for key, value in node._asdict().items() if key != "span")]
        if isinstance(node, tuple):
            return [plain(each) for each in node]
        return node

    diagnostics = Diagnostics()
    statements = parse(SourceText("shop.test.adm", text), diagnostics).statements
    assert not diagnostics.items
    assert all(isinstance(statement, tree.Test) for statement in statements)
    return [repr(plain(statement)) for statement in statements]
