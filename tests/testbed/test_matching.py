"""Requests made to measure."""

from __future__ import annotations

import pytest

import dsl
from admc.testbed.client import Request
from admc.testbed.facts import denies
from admc.testbed.matching import meeting, missing
from dsl.selecting import holds

PROGRAM = """
app a
service web, api { http 8080 }
call web -> api
policy one = deny() on web -> api when path starts_with "/admin" and not header("x-pass") == "yes"
policy two = fault_abort(status: 500) on web -> api when method == "DELETE" or header("x-fail") != "no"
policy three = timeout(after: 1s) on web -> api
policy never = request_count() on web -> api when path == "/a" and path == "/b"
"""


STARS = """
app a
service web, api { http 8080 }
service rpc { grpc 9000 }
call web -> api, rpc
policy paths = normal_paths() on web -> api
policy star = request_count() on web -> api when path == "/admin/*"
policy beside = request_count() on web -> api when path == "/users/{id}" or path == "/users/7"
policy expression = request_count() on web -> api when path matches "/v[0-9]+/x" and method != "GET"
policy host = request_count() on web -> api when host matches "[^.]+[.]example[.]com"
policy header = request_count() on web -> api when header("x") matches "[a-c]{3}"
policy method = request_count() on web -> rpc when path matches "/shop[.].*/Buy"
"""


def test_no_request_has_the_text_of_a_placeholder() -> None:
    program = dsl.load_text(STARS)
    call = program.calls[0]
    assert meeting(program, call, program.policy_by_name["star"]) is None
    beside = meeting(program, call, program.policy_by_name["beside"])
    assert beside is not None
    assert beside.path == "/users/7"


@pytest.mark.parametrize("name", ["expression", "host", "header", "method"])
def test_an_expression_has_a_request(name: str) -> None:
    program = dsl.load_text(STARS)
    policy = program.policy_by_name[name]
    request = meeting(program, program.calls[policy.calls[0]], policy)
    assert request is not None
    assert holds(policy.match, request)


def test_a_guard_of_spellings_denies_no_caller() -> None:
    assert not denies(dsl.load_text(STARS).policy_by_name["paths"], "web")


@pytest.mark.parametrize(
    ("policy", "request_", "selected"),
    [
        ("one", Request(path="/admin/users"), True),
        ("one", Request(path="/admin?x=1"), True),
        ("one", Request(path="/public?x=/admin"), False),
        ("one", Request(path="/admin", headers=(("X-Pass", "yes"),)), False),
        ("two", Request(), True),
        ("two", Request(headers=(("x-fail", "no"),)), False),
        ("two", Request("DELETE", headers=(("x-fail", "no"),)), True),
        ("three", Request(), True),
    ],
)
def test_a_match_holds_as_the_language_says(policy: str, request_: Request, selected: bool) -> None:
    program = dsl.load_text(PROGRAM)
    assert holds(program.policy_by_name[policy].match, request_) is selected


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_the_request_for_a_policy_meets_no_other_where_that_is_possible(name: str) -> None:
    program = dsl.load_text(PROGRAM)
    request = meeting(program, program.calls[0], program.policy_by_name[name])
    assert request is not None
    met = {policy.name for policy in program.policies if holds(policy.match, request)}
    assert met == {name, "three"}


def test_a_match_that_nothing_meets_has_no_request() -> None:
    program = dsl.load_text(PROGRAM)
    assert meeting(program, program.calls[0], program.policy_by_name["never"]) is None


def test_a_request_beside_a_policy() -> None:
    program = dsl.load_text(PROGRAM)
    policy = program.policy_by_name["one"]
    request = missing(program, program.calls[0], policy)
    assert request is not None
    assert not holds(policy.match, request)
    assert missing(program, program.calls[0], program.policy_by_name["three"]) is None
