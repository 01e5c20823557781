"""Callouts and copies without end are refused, and the hint leads to a valid program."""

from __future__ import annotations

import re

import pytest

from dsl.diagnostics.diagnostic import Severity
from tests.dsl.programs import FILES, codes, findings

HEAD = """\
app shop
external internet
service web, api, users, authz, judge, shadow { http 8080 }
service asked { grpc 9000 }
service db { tcp 5432 }
call internet -> web
call web -> api
call api -> users
"""
ASK = "external_authorization(service: {})"
KIND = '@ingress\n@effect(none)\nkind asks(who: service) for http, grpc template "own.yaml"\n'


def policy(name: str, who: str, scope: str) -> str:
    return f"policy {name} = {ASK.format(who)} {scope}\n"


def mended(program: str) -> str:
    """The program with the change of each hint."""
    for _ in range(10):
        hints = [(item.span, item.hint) for item in findings(program) if item.code in LOOPS]
        if not hints:
            break
        span, hint = hints[0]
        assert span is not None
        assert hint is not None
        line = program.splitlines()[span.line - 1]
        if hint.startswith("remove"):
            program = program.replace(line, "")
            continue
        (scope,) = re.findall(r"`(on [^`]*)`", hint)
        head, match, tail = line.partition(" when ")
        program = program.replace(line, re.sub(r" on .*", f" {scope}", head) + match + tail)
    return program


LOOPS = {"ADM416", "ADM420", "ADM421", "ADM422"}
REFUSED = {
    "itself": policy("p", "authz", "on * -> * except db"),
    "a set": policy("p", "authz", "on {web, authz} -> {api, authz}"),
    "a label, and sources that leave it out": policy("p", "authz", "on * except authz -> * except {db, users}"),
    "by gRPC": policy("p", "asked", "on * -> asked, api"),
    "by gRPC, with a match for every question": policy("p", "asked", 'on * -> * except db when path != "/health"'),
    "by gRPC, with a match that an earlier policy may bring about": "@ingress\n"
    'kind mine() for grpc template "own.yaml"\n'
    "policy s = mine() on * -> asked\n" + policy("p", "asked", 'on * -> * except db when path starts_with "/api"'),
    "two": policy("p", "authz", "on * -> api, judge") + policy("q", "judge", "on * -> authz, users"),
    "two that are about everything": policy("p", "authz", "on * -> * except db, authz")
    + policy("q", "judge", "on * -> * except db, judge"),
    "three": policy("p", "authz", "on * -> judge, api")
    + policy("q", "judge", "on * -> users, api")
    + policy("r", "users", "on * -> authz, api"),
    "named sources that ask each other": policy("p", "authz", "on authz, web -> judge, api")
    + policy("q", "judge", "on judge, web -> authz, api"),
    "one of the user's own": KIND + "policy p = asks(who: authz) on * -> api, authz\n",
    "a mirror to what it is about": "call web, api, shadow -> shadow\n"
    "policy p = mirror(to: shadow) on * -> shadow, users",
    "a mirror of its own calls": "call api, shadow -> shadow\ncall shadow -> users\n"
    "policy p = mirror(to: shadow) on * -> users\n",
    "both": "call web, api -> shadow\ncall shadow -> users\npolicy p = mirror(to: shadow) on * -> users, shadow\n",
    "a split of its own calls": "call api -> shadow\ncall shadow -> users\n"
    "policy p = split(to: shadow, percent: 5%) on * -> users\n",
}


@pytest.mark.parametrize("name", REFUSED)
def test_endless_callouts_are_refused_and_the_hint_resolves_them(name: str) -> None:
    program = HEAD + REFUSED[name]
    assert LOOPS & {item.code for item in findings(program) if item.severity is Severity.ERROR}
    assert not {item.code for item in findings(mended(program)) if item.severity is Severity.ERROR}


ENDS = {
    "left out": policy("p", "authz", "on * -> * except {db, authz}"),
    "only callers that are named": "call web -> authz\n" + policy("p", "authz", "on web -> api, authz"),
    "at the sender": "call web -> authz\n@egress\n" + policy("p", "authz", "on web -> api, authz"),
    "another port": "service two { http a 1  http b 2 }\ncall web -> two:b\n" + policy("p", "two:a", "on * -> two:b"),
    "a match that no question fits": policy("p", "asked", 'on * -> * except db when path starts_with "/api"'),
    "a chain": policy("p", "authz", "on * -> api") + policy("q", "judge", "on * -> authz"),
    "an external": "external judges { http 80 }\n" + policy("p", "judges", "on * -> * except {db, judges}"),
    "a mirror": "call api -> shadow\npolicy p = mirror(to: shadow) on api -> users\n",
}


@pytest.mark.parametrize("name", ENDS)
def test_callouts_that_end_are_accepted(name: str) -> None:
    found = findings(HEAD + ENDS[name])
    assert not LOOPS & {item.code for item in found}
    assert not [item for item in found if item.severity is Severity.ERROR], "the check was not reached"


def test_only_policies_of_the_cycle_are_named() -> None:
    """Of two policies the later one has to change, and only if it closes the cycle."""
    text = HEAD + policy("p", "authz", "on * -> api, judge") + policy("q", "judge", "on * -> authz, users")
    (found,) = [item for item in findings(text) if item.code == "ADM420"]
    assert found.hint == "leave `authz` out: `on * -> authz, users except authz`"
    assert [related.message for related in found.related] == ["`p` is here"]


WARNED = {
    "what the asked service calls": "call authz -> users\n" + policy("p", "authz", "on * -> * except {db, authz}"),
    "what is called then": "call authz -> judge\ncall judge -> users\n"
    + policy("p", "authz", "on judge, web -> users, api"),
    "copies": "call web, api -> shadow\ncall shadow -> web\npolicy p = mirror(to: shadow) on web -> api\n",
    "copies of two": "call shadow -> authz, users\ncall authz -> shadow, api\n"
    "policy p = mirror(to: authz) on shadow -> users\npolicy q = mirror(to: shadow) on authz -> api\n",
    "another's questions": "call authz -> web\ncall judge -> users\n"
    + policy("p", "judge", "on web -> api")
    + policy("q", "authz", "on judge -> users"),
}


@pytest.mark.parametrize("name", WARNED)
def test_paths_of_calls_back_into_the_scope_give_a_warning(name: str) -> None:
    program = HEAD + WARNED[name]
    found = [item for item in findings(program) if item.code in LOOPS]
    assert {item.code for item in found} == {"ADM422"}
    assert {item.severity for item in found} == {Severity.WARNING}
    assert "ADM422" not in codes(mended(program))


def test_the_text_of_a_warning() -> None:
    text = HEAD + "call authz -> judge\ncall judge -> users\n" + policy("p", "authz", "on judge, web -> users, api")
    (found,) = [item for item in findings(text) if item.code == "ADM422"]
    assert found.message == "`p` asks `authz`, whose own calls lead back into its scope"
    assert found.cause is not None
    assert found.cause.startswith(
        "`authz` calls `judge`, `judge` calls `users`; the last of these calls is in the scope"
    )
    assert found.hint == "leave the calls of `judge` out: `on judge, web except judge -> users, api`"


def test_many_policies_with_callouts_are_checked_quickly() -> None:
    names = [f"s{number}" for number in range(300)]
    rings = "".join(policy(f"p{name}", name, f"on * -> * except {{db, {name}}}") for name in names)
    found = findings(HEAD + f"service {', '.join(names)} {{ http 80 }}\n" + rings, FILES)
    assert {"ADM420"} <= {item.code for item in found}
