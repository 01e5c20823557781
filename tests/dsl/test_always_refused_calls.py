"""Warnings about declared calls, and callouts, that a guard always refuses."""

from __future__ import annotations

import pytest

from dsl.diagnostics.diagnostic import Severity
from dsl.loader import load_text
from tests.dsl.programs import codes, findings

HEAD = """\
app shop
external internet
external office { cidr "10.9.0.0/16" }
external partner { cidr "10.9.1.0/24" }
external stripe { http 80 }
service web, api { http 8080 }
service pay { http 8080  http admin 9000 }
service agent { http 9100  host_network }
service db { tcp 5432 }
call internet, office, partner -> web
call web -> api, pay:8080, stripe
call api -> pay:admin, db, stripe
call agent -> api
"""
REFUSED = {
    "a caller that is not named": ("policy g = allow(callers: [web]) on * -> db", ["api -> db"]),
    "no caller is admitted": ("policy g = deny() on web -> api", ["web -> api"]),
    "a match that is always true": (
        'policy g = deny() on web -> api when path == "/a" or not path == "/a"',
        ["web -> api"],
    ),
    "one port": ("policy g = allow(callers: [web]) on * -> pay", ["api -> pay:admin"]),
    "an external that is called": ("policy g = allow(callers: [web]) on * -> stripe", ["api -> stripe"]),
    "an external that calls": ("policy g = allow(callers: [api]) on office -> web", ["office -> web"]),
    "several guards": (
        'policy g = deny() on web -> api when method == "GET"\n'
        'policy h = allow(callers: [api]) on web -> api when method != "GET"',
        ["web -> api"],
    ),
    "three guards": (
        'policy g = deny() on web -> api when path starts_with "/a"\n'
        'policy h = deny() on web -> api when path starts_with "/b"\n'
        'policy i = deny() on web -> api when not (path starts_with "/a" or path starts_with "/b")',
        ["web -> api"],
    ),
    "more calls than are listed": (
        "policy g = deny() on * -> * except stripe",
        ["agent -> api", "web -> api", "api -> db"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_call_that_is_always_refused(name: str) -> None:
    text, calls = REFUSED[name]
    (warning,) = [item for item in findings(HEAD + text) if item.code == "ADM424"]
    assert warning.severity is Severity.WARNING
    assert f"declared call `{calls[0]}`" in warning.message
    said = [item.message for item in warning.related if item.message.startswith("the call")]
    assert said == [f"the call `{call}` is declared here" for call in calls]


PASSED = {
    "a match": 'policy g = deny() on web -> api when path == "/a"',
    "a match that may be always true": 'policy g = deny() on web -> api when path matches ".*"',
    "admitted": "policy g = allow(callers: [api]) on * -> db",
    "no declared call": "policy g = deny() on web -> db",
    "another port": "policy g = allow(callers: [web]) on * -> pay:8080",
    "an unknown caller may be admitted": "policy g = allow(callers: [internet]) on * -> web except stripe",
    "addresses may overlap": "policy g = allow(callers: [office]) on partner -> web",
    "the host's network is not known": "policy g = allow(callers: [internet, web]) on * -> api",
    "guards of which some request fits none": 'policy g = deny() on web -> api when path == "/a"\n'
    'policy h = deny() on web -> api when path != "/b"',
    "guards of different calls": 'policy g = deny() on web -> api when path == "/a"\n'
    'policy h = deny() on agent -> api when path != "/a"',
    "what one matches on is written before the other": 'policy g = deny() on web -> api when path == "/a"\n'
    'policy r = rewrite_path(prefix: "/b", to: "/a") on web -> api\n'
    'policy h = deny() on web -> api when path != "/a"',
    "a guard that asks": "service authz { http 80 }\npolicy g = external_authorization(service: authz) on web -> api",
}


@pytest.mark.parametrize("name", PASSED)
def test_a_call_that_may_pass(name: str) -> None:
    assert "ADM424" not in codes(HEAD + PASSED[name])


def test_the_warning_is_at_both_lines_and_is_one_for_each_policy() -> None:
    names = ", ".join(f"s{number}" for number in range(300))
    text = f"app shop\nservice {names}, db {{ http 80 }}\ncall {names} -> db\npolicy g = deny() on * -> db\n"
    (warning,) = load_text(text).warnings
    assert (
        warning.message == "`g` refuses every request of the declared call `s0 -> db` (and of 299 more declared calls)"
    )
    assert warning.span is not None
    assert warning.span.line == 4
    assert [related.span.line for related in warning.related] == [3, 3, 3]
    assert warning.hint == "leave `s0`, `s1`, `s10`, ... out of its sources, or remove calls that are not made"


ASKED = HEAD + "service authz { http a 80  http b 81 }\ncall web -> authz:a\n"
ASKS = "policy p = external_authorization(service: authz:a) on * -> api\n"
QUESTIONS = {
    "the receiver asks": ("@ingress\n" + ASKS, "allow(callers: [web]) on * -> authz", True),
    "either may ask": (ASKS, "allow(callers: [pay]) on * -> authz", True),
    "one of them is admitted": (ASKS, "allow(callers: [api]) on * -> authz", False),
    "no caller is admitted there": (ASKS, "deny() on * -> authz", True),
    "another port": (ASKS, "deny() on * -> authz:b", False),
    "other callers": (ASKS, "deny() on pay -> authz", False),
    "some requests": (ASKS, 'deny() on * -> authz when path == "/a"', False),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_callouts_that_are_refused(name: str) -> None:
    asks, guard, refused = QUESTIONS[name]
    assert ("ADM425" in codes(f"{ASKED}{asks}policy g = {guard}\n")) is refused
