"""Guards that look right and refuse nothing are errors; elsewhere such a match is a warning."""

from __future__ import annotations

import pytest

from tests.dsl.programs import findings

NEVER = (
    'path == "/admin/*"',
    'path starts_with "/x/*"',
    'path != "/x/*"',
    'not path == "/x/*"',
    'method == "GET" and not (path == "/x/*" or path == "/y")',
    'path == "/users/{id}"',
    'path == "/users/:id/x"',
    'path matches "admin"',
    'path matches "^admin$"',
    'path matches "/search[?]x"',
    'path matches ".*\\\\?debug=1"',
    'path matches "\\\\Q/x?\\\\E"',
    'path matches "/a b"',
    'path matches ""',
    'path matches "/admin|root"',
    'path == "/a b"',
    'not path matches "admin"',
    'path == "/a" and path == "/b"',
    'path == "/a" and not path starts_with "/"',
    'path starts_with "/a" and path matches "/b.*"',
    'path matches "/a+" and not path matches "/a*"',
    'not (path == "/a" and path == "/b")',
    'method == "GET" or (path == "/a" and path == "/b")',
    'path starts_with "/a" and (path == "/b" or path == "/a/x")',
    'path == "*" and method == "GET"',
    'method == "GET" and method == "POST"',
    'method == "GET" and method != "GET"',
    'method == "get"',
    'method != "get"',
    'method matches "get|post"',
    'method == "G*"',
    'method == "*"',
    'method != "*"',
    'method == "GET|POST"',
    'not method == "get|post"',
    'path == "/users/{id:[0-9]+}"',
    'path == "/caf\u00e9"',
    'not path starts_with "/caf\u00e9/"',
    'path starts_with "/users/<int:id>/"',
    'path == "/{proxy+}"',
    'header("x") == " a"',
    'header("x") == "a "',
    'header("x") matches "a\\\\nb"',
    'header("x") == "a" and not header("x") starts_with "a"',
    'header("cookie") matches "a=1; b=2"',
)
NEVER_ON_HOSTS = (
    'host == "api:8080"',
    'host == "api."',
    'host == "b\u00fccher.example"',
    'host starts_with "\u00e9"',
    'host == "::1"',
    'host == "*.example.com"',
    'host != "*.example.com"',
    'host starts_with "https://"',
    'host matches "api:[0-9]+"',
    'host == "a" and host == "b"',
    'host == "a.b" and not host starts_with "A."',
)
NEVER_ON_GRPC = (
    'method == "GET"',
    'method != "GET"',
    'method != "POST"',
    'method matches "GET|PUT"',
    'path == "/admin"',
    'path matches "/[^/]*"',
    'path == "*"',
)
POSSIBLE = (
    'path == "/v1/things/7:cancel"',
    'path matches "/admin/.*"',
    'path matches "/+admin/*"',
    'path matches "(?i)/Admin/.*"',
    'path matches "^/admin$"',
    'path matches "/a[|]b"',
    'path matches "/a[*]"',
    'path matches "/\\\\bx"',
    'path == "*" and method == "OPTIONS"',
    'path == "*"',
    'method matches "(?i)get|post"',
    'method == "PURGE"',
    'method != "GET" and method != "POST"',
    'header("accept") == "*/*"',
    'header("if-none-match") == "*"',
    'header("x") == "a" and header("x") == "b"',
    'header("authorization") starts_with "Bearer "',
    'path starts_with "/a" and path != "/a"',
    'host == "API.example.com"',
    'host starts_with "api."',
    'host matches "[^.]+[.]Example[.]com"',
    'host == "[::1]"',
)


def _program(kind: str, when: str, protocol: str) -> str:
    head = f"app x\nservice web, api {{ {protocol} 8080 }}\ncall web -> api\n"
    return f"{head}policy p = {kind} on * -> api when {when}\n"


def _found(kind: str, when: str, protocol: str = "http") -> list[tuple[str, str]]:
    codes = ("ADM419", "ADM426", "ADM427")
    return [(each.severity, each.code) for each in findings(_program(kind, when, protocol)) if each.code in codes]


@pytest.mark.parametrize("when", [*NEVER, *NEVER_ON_HOSTS])
def test_a_match_that_never_holds_is_an_error_of_a_guard_and_else_a_warning(when: str) -> None:
    for kind, severity in (("deny()", "error"), ("allow(callers: [])", "error"), ("request_count()", "warning")):
        found = _found(kind, when)
        assert found
        assert {each for each, _ in found} == {severity}


@pytest.mark.parametrize("when", NEVER_ON_GRPC)
def test_a_match_that_never_holds_on_grpc(when: str) -> None:
    assert [severity for severity, _ in _found("deny()", when, "grpc")] == ["error"]
    assert [severity for severity, _ in _found("timeout(after: 1s)", when, "grpc")] == ["warning"]
    assert _found("deny()", when) == []


@pytest.mark.parametrize("when", POSSIBLE)
def test_a_match_that_holds_for_some_request_gives_nothing(when: str) -> None:
    assert _found("deny()", when) == []


def test_the_header_host_points_to_host() -> None:
    for kind, severity in (("deny()", "error"), ("timeout(after: 1s)", "warning")):
        (found,) = findings(_program(kind, 'header("Host") == "API:8080"', "http"))
        assert (found.severity, found.code) == (severity, "ADM428")
        assert found.hint == 'write `host == "api"`, which means all of them'


def test_a_guard_that_compares_the_host_gets_a_warning() -> None:
    (found,) = findings(_program("deny()", 'host == "api"', "http"))
    assert (found.severity, found.code) == ("warning", "ADM429")
    assert findings(_program("timeout(after: 1s)", 'host == "api"', "http")) == ()


def test_every_dead_comparison_is_reported() -> None:
    found = _found("deny()", 'path matches "admin" or not (path == "/x/*" or path matches "root")')
    assert [code for _, code in found] == ["ADM426", "ADM427", "ADM426"]


def test_a_scope_with_http_and_grpc_may_compare_what_one_of_them_lacks() -> None:
    head = (
        "app x\nservice web { http 80 }\nservice api { http 8080 }\nservice rpc { grpc 9000 }\ncall web -> api, rpc\n"
    )
    assert findings(head + 'policy p = deny() on web -> * except web when method == "GET"\n') == ()


def test_an_undeclared_caller_of_a_guard_counts() -> None:
    head = "app x\nservice web, api { http 8080  grpc rpc 9000 }\ncall web -> api:rpc\n"
    assert "ADM426" not in [
        each.code for each in findings(head + 'policy p = deny() on * -> api when method == "GET"\n')
    ]


def test_a_star_behind_letters_of_a_header_is_a_warning_everywhere() -> None:
    assert _found("deny()", 'header("user-agent") == "curl/*"') == []
    assert _found("deny()", 'header("user-agent") starts_with "curl*"') == [("warning", "ADM427")]


@pytest.mark.parametrize(
    ("when", "hint"),
    [
        ('path == "/admin/*"', 'write `path starts_with "/admin/"`, or `path matches "/admin/.*"`'),
        ('path != "/a.b/*/c"', 'write `not path matches "/a[.]b/[^/]+/c"`'),
        ('path == "/caf\u00e9/a%20b"', 'write `path == "/caf%C3%A9/a%20b"`'),
        ('path matches "admin"', 'write `matches ".*admin.*"`'),
        ('path matches "a|b"', 'write `matches ".*(a|b).*"`'),
        ('path matches "^admin$"', 'write `matches "/admin$"`'),
        ('path matches "/s[?]x"', "leave out the part from the `?` on"),
        ('path matches "/admin/*"', 'write `path starts_with "/admin/"`, or `matches "/admin/.*"`'),
    ],
)
def test_hints_say_what_to_write(when: str, hint: str) -> None:
    first = next(each for each in findings(_program("deny()", when, "http")) if each.code in ("ADM426", "ADM427"))
    assert first.hint == hint
