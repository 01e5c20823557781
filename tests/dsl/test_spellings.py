"""A guard that another spelling of a path passes gets a warning, unless `normal_paths` stands before it."""

from __future__ import annotations

import pytest

import dsl
from dsl.checks.spellings import other_spelling
from dsl.selecting import Example, holds
from dsl.values.spelling import normal_path
from tests.dsl.programs import findings

HEAD = "app x\nexternal internet\nservice web, api, rest { http 8080  http admin 9090 }\nservice rpc { grpc 9000 }\n"
CALLS = "call web -> api:8080, api:admin, rest:8080, rpc\ncall internet -> web:8080\n"
ESCAPED = (
    'path == "/admin"',
    'path starts_with "/admin"',
    'path matches "/+admin.*"',
    'path matches "(?i)/admin(/.*)?"',
    'not path starts_with "/public/"',
    'not path matches "/public/.*"',
    'path == "/a" and method == "GET"',
    'method == "GET" or path == "/a"',
    'not (path starts_with "/a" or path starts_with "/b")',
)
SAFE = (
    'path matches "/.*"',
    'path starts_with "/"',
    'not path == "/a"',
    'not (path == "/a" or path == "/b")',
    'path != "/health"',
    'method == "POST"',
    'path == "//admin"',
)


def _codes(policies: str) -> list[str]:
    return [found.code for found in findings(HEAD + CALLS + policies)]


@pytest.mark.parametrize("when", ESCAPED)
def test_another_spelling_passes_the_guard(when: str) -> None:
    kinds = ("deny()", "allow(callers: [web])", "external_authorization(service: rest:8080)")
    for kind in kinds:
        assert _codes(f"policy p = {kind} on web -> api when {when}\n") == ["ADM430"], kind
    match = dsl.load_text(f"{HEAD}{CALLS}policy p = request_count() on web -> api when {when}\n").policies[0].match
    assert match is not None
    path, other = other_spelling(match) or ("", "")
    assert normal_path(other) == path != other
    assert not holds(match, Example("PUT", other))


@pytest.mark.parametrize("when", SAFE)
def test_a_guard_that_no_spelling_passes(when: str) -> None:
    assert _codes(f"policy p = deny() on web -> api when {when}\n") == []


def test_what_is_no_guard_gets_no_warning() -> None:
    for kind in ("rate_limit(requests: 9, per: 1s)", "timeout(after: 1s)", "request_count()"):
        assert _codes(f'policy p = {kind} on web -> rest when path == "/admin"\n') == [], kind


def test_a_path_over_grpc_has_one_spelling() -> None:
    assert _codes('policy p = deny() on * -> rpc when path == "/a.B/C"\n') == []


def test_the_hint_is_the_policy_to_declare() -> None:
    guard = 'policy closed = deny() on * -> api when path == "/admin"\n'
    (found,) = findings(HEAD + CALLS + guard)
    assert found.hint is not None
    assert _codes(f"{found.hint.split('`')[1]}\n{guard}") == []


@pytest.mark.parametrize(
    ("before", "warned"),
    [
        ("policy n = normal_paths() on * -> api", False),
        ("policy n = normal_paths() on * -> {api, rest}", False),
        ("policy n = normal_paths() on web -> api", True),  # undeclared callers
        ("policy n = normal_paths() on * -> api:admin", True),
        ("policy n = normal_paths() on * -> api:admin\npolicy m = normal_paths() on * -> api:8080", False),
        ("policy n = normal_paths() on * -> rest", True),
        ('policy n = normal_paths() on * -> api when method == "GET"', True),
        ('policy n = normal_paths() on * -> api when path starts_with "/"', True),
    ],
)
def test_normal_paths_on_all_calls_of_the_guard_takes_the_warning_away(before: str, warned: bool) -> None:
    guard = 'policy closed = deny() on * -> api when path == "/admin"'
    assert _codes(f"{before}\n{guard}\n") == ["ADM430"] * warned
    assert "ADM430" in _codes(f"{guard}\n{before}\n")


def test_a_guard_for_some_methods_behind_normal_paths_for_the_same() -> None:
    get = 'method == "GET"'
    guard = f'policy closed = deny() on * -> api when path == "/admin" and {get}\n'
    assert _codes(f"policy n = normal_paths() on * -> api when {get}\n{guard}") == []


@pytest.mark.parametrize(
    ("between", "warned"),
    [
        ('policy r = rewrite_path(prefix: "/a", to: "/") on web -> api', True),
        ('policy r = rewrite_path(prefix: "/a", to: "/") on web -> rest', False),
        ('policy r = set_request_header(name: "x", value: "1") on web -> api', False),
    ],
)
def test_a_path_that_is_written_behind_normal_paths_may_have_another_spelling(between: str, warned: bool) -> None:
    normal = "policy n = normal_paths() on * -> {api, rest}"
    guard = 'policy closed = deny() on * -> api when path == "/admin"'
    assert _codes(f"{normal}\n{between}\n{guard}\n") == ["ADM430"] * warned
