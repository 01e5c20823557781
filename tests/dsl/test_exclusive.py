"""Policies of one exclusive kind on one call: what a look at each pair would find, with linear work."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from dsl.checks.disjoint import disjoint, writes_to
from dsl.checks.exclusive import check_exclusive
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Side
from tests.dsl.programs import findings, load
from tests.work import function_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsl.program import Policy, Program

MESH = """\
app shop
@egress
@effect(writes(header))
kind own() for http template "own.yaml"
external internet
service a, c { http 8080 }
service b { http 8080  http admin 9000 }
call internet -> b:8080
call a, c -> b:8080
call a -> c, b:admin
"""
COMPARISONS = [
    'path == "/a"', 'path == "/a/b"', 'path == "/c"', 'path != "/a"', 'path starts_with "/a"', 'path starts_with "/"',
    'path starts_with "/a/b"', 'path starts_with "/c"', 'path matches "/a.*"', 'path matches "/c"', 'method == "GET"',
    'method == "PUT"', 'host == "a.example"', 'host == "b.example"',
    'header("x") == "1"', 'header("x") == "2"', 'header("x") != "1"', 'header("y") starts_with "1"',
]  # fmt: skip
SCOPES = ["a -> b", "* -> b", "c -> b", "* -> c", "a -> *", "* -> b:admin", "* except internet -> *"]
FILES = {
    "own.yaml": b'"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua\n'
    b'default_source_code: {inline_string: "function envoy_on_request(handle) end"}\n'
}
WRITERS = [
    "own()",
    'set_request_header(name: "x", value: "1")',
    'rewrite_path(prefix: "/a", to: "/c")',
    'set_request_header(name: "z", value: "1")',
    "request_count()",
]


def match(rng: random.Random, depth: int = 2) -> str:
    kind = rng.choice(["one", "one", "and", "or", "not"]) if depth else "one"
    if kind == "one":
        return rng.choice(COMPARISONS)
    if kind == "not":
        return f"not ({match(rng, depth - 1)})"
    return f"({match(rng, depth - 1)} {kind} {match(rng, depth - 1)})"


def drawn(rng: random.Random) -> str:
    lines = [MESH]
    for number in range(rng.randint(2, 9)):
        when = f" when {match(rng)}" if rng.random() < 0.85 else ""
        what = rng.choice(["timeout(after: 1s)", "timeout(after: 1s)", "timeout(after: 2s)", *WRITERS])
        lines.append(f"policy p{number} = {what} on {rng.choice(SCOPES)}{when}")
    return "\n".join(lines) + "\n"


def places(program: Program, policy: Policy) -> set[object]:
    found: set[object] = set(policy.calls)
    if policy.open_sources and Side.INGRESS in policy.kind.sides:
        found |= {
            (name, port.number)
            for name in policy.destinations
            if name in program.services
            for port in program.services[name].ports
            if port.protocol in policy.kind.protocols and (policy.ports is None or port.number in policy.ports)
        }
    return found


def clashing(program: Program) -> set[tuple[str, str]]:
    """The pairs of timeouts that a look at each pair and place finds."""
    found = set()
    for at, later in enumerate(program.policies):
        for before, earlier in enumerate(program.policies[:at]):
            if {earlier.kind.name, later.kind.name} != {"timeout"}:
                continue
            for place in places(program, earlier) & places(program, later):
                between = [
                    each
                    for each in program.policies[before:at]
                    if place in places(program, each)
                    and writes_to(each, earlier.match)
                    and writes_to(each, later.match)
                ]
                if not disjoint(earlier.match, later.match, between):
                    found.add((earlier.name, later.name))
    return found


def test_it_finds_the_pairs_that_a_look_at_each_pair_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)  # noqa: S311
    some = 0
    for _ in range(150):
        text = drawn(rng)
        said = {
            tuple(sorted(finding.message.split("`")[1:4:2]))
            for finding in findings(text, FILES)
            if finding.code == "ADM402"
        }
        with monkeypatch.context() as patched:
            patched.setattr("dsl.resolve.resolver.check_exclusive", lambda *_: None)
            program = load(text, FILES)
        assert said == clashing(program), text
        some += bool(said)
    assert 40 < some < 145


@pytest.mark.parametrize("between", [0, 1])
def test_a_policy_that_writes_headers_may_write_the_host(between: int) -> None:
    """Of two matches on the host, each then sees another one."""
    lines = ['policy one = timeout(after: 1s) on a -> b:8080 when host == "a"', "policy own = own() on a -> b:8080"]
    text = "\n".join(
        [MESH, *lines[: 1 + between], 'policy two = timeout(after: 1s) on a -> b:8080 when host == "b"', ""]
    )
    assert [finding.code for finding in findings(text, FILES)].count("ADM402") == between


def equal(number: int) -> str:
    return f'path == "/{number}"'


def prefix(number: int) -> str:
    return f'path starts_with "/{number:05}/"'


def binary(number: int) -> str:
    return " and ".join(f'header("bit{bit}") {"=" if number >> bit & 1 else "!"}= "1"' for bit in range(10))


def either(number: int) -> str:
    return f'path == "/{number}" or method == "M{number}" and path starts_with "/{number:05}/"'


def nested(number: int) -> str:
    return f'path starts_with "{"/a" * (number + 1)}" and not path starts_with "{"/a" * (number + 2)}"'


@pytest.mark.parametrize("match_of", [equal, prefix, binary, either, nested])
@pytest.mark.parametrize("written", ["", 'policy w{} = set_request_header(name: "w{}", value: "1") on a -> b:8080'])
def test_the_work_grows_linearly(match_of: Callable[[int], str], written: str) -> None:
    def work(number: int) -> int:
        lines = [MESH]
        for at in range(number):
            lines.append(f"policy p{at} = timeout(after: 1s) on a -> b:8080 when {match_of(at)}")
            lines += [written.format(at, at)] if written else []
        program = load("\n".join(lines) + "\n", FILES)
        found = Diagnostics()
        application: Any = program  # it has the calls and services of one
        calls = function_calls(lambda: check_exclusive(application, program.policies, found))
        assert not found.items
        return calls

    # The paths of `nested` grow with their number, so the text itself grows by more than twice.
    assert work(160) < (3.2 if match_of is nested else 2.6) * work(80)


def test_one_pair_of_many_is_found() -> None:
    lines = [f'policy p{at} = timeout(after: 1s) on a -> b:8080 when path == "/{at}"' for at in range(300)]
    lines.append('policy again = timeout(after: 2s) on a -> b:8080 when path starts_with "/29" and method == "GET"')
    said = [finding.message for finding in findings(MESH + "\n".join(lines) + "\n", FILES) if finding.code == "ADM402"]
    assert [each.split("`")[1] for each in said] == ["p29", *(f"p{at}" for at in range(290, 300))]
