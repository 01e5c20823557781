"""Ranges and steps of parameters, and the depth of matches."""

from __future__ import annotations

import pytest

from tests.dsl.programs import codes, findings

APP = """app test
external internet
service a, b, c { http 8000 }
service store { tcp 9000 }
call internet -> a
call a -> b, c, store
"""
OWN = '@ingress\nkind own(x: {type}) for http template "own.yaml"\npolicy p = own({value}) on a -> b\n'


@pytest.mark.parametrize(
    ("type_", "value", "found"),
    [
        ("duration(1ms..)", "999us", ["ADM203"]),
        ("duration(1ms..)", "1001us", []),
        ("duration(1ms.. by 1ms)", "1001us", ["ADM203"]),
        ("duration(..1s)", "1s", []),
        ("duration(..1s)", "1001ms", ["ADM203"]),
        ("size(1B..4KiB)", "0B", ["ADM203"]),
        ("size(1B..4KiB)", "4KiB", []),
        ("size(.. by 1KiB)", "1KB", ["ADM203"]),
        ("percent(1%..)", "0.5%", ["ADM203"]),
        ("percent(.. by 0.1%)", "0.3%", []),
        ("percent(.. by 0.1%)", "0.35%", ["ADM203"]),
        ("string(1..)", '""', ["ADM203"]),
        ("string(..4)", '"éé"', []),
        ("string(..4)", '"ééx"', ["ADM203"]),
        ("[string(1..)]", '["a", ""]', ["ADM203"]),
        ("[duration(1s..)]", "[1s, 1ms]", ["ADM203"]),
        ("duration(1ms.. by 1ms) = 1us", "1s", ["ADM203"]),
        ("duration(1..)", "1s", ["ADM202"]),
        ("duration(2s..1s)", "1s", ["ADM211"]),
        ("duration(.. by 0s)", "1s", ["ADM203"]),
        ("percent(.. by 0%)", "1%", ["ADM211"]),
        ("int(1.. by 2)", "1", ["ADM211"]),
        ("bool(1..)", "true", ["ADM211"]),
        ("file(jkws)", '"keys.json"', ["ADM211"]),
        ("file(jwks)", '"keys.json"', []),
        ("file(lua, wasm)", '"keys.json"', ["ADM211"]),
    ],
)
def test_a_range_holds_for_every_type_that_takes_one(type_: str, value: str, found: list[str]) -> None:
    assert codes(APP + OWN.format(type=type_, value=value)) == found


def test_the_hint_says_the_range_in_the_units_of_the_type() -> None:
    said = findings(APP + "policy p = timeout(500us) on a -> b\npolicy q = buffer_limit(0B) on a -> c\n")
    assert [item.hint for item in said] == [
        "the parameter takes at least 1ms",
        "the parameter takes between 1B and 4294967295B",
    ]
    (said_of_step,) = findings(APP + "policy p = timeout(1500us) on a -> b\n")
    assert said_of_step.hint == "the parameter takes a whole multiple of 1ms"


BENT = (
    "timeout(after: 999us) on a -> b",
    "timeout(after: 1500us) on a -> b",
    "retry(attempts: 2, backoff: 999us) on a -> b",
    "external_authorization(service: c, timeout: 500us) on a -> b",
    "fault_delay(delay: 500us) on a -> b",
    "fault_delay(delay: 1s, percent: 0.00001%) on a -> b",
    "outlier_detection(interval: 500us) on a -> b",
    "outlier_detection(interval: 9ms) on a -> b",
    "outlier_detection(ejection: 500us) on a -> b",
    "outlier_detection(max_ejected: 10.5%) on a -> b",
    'cors(origins: ["x"], max_age: 999ms) on a -> b',
    "buffer_limit(max: 0B) on a -> b",
    "buffer_limit(max: 4GiB) on a -> b",
    "compression(min_size: 4GiB) on a -> b",
    "circuit_breaking(max_pending: 0) on a -> b",
    "circuit_breaking(max_connections: 0) on a -> store",
    'jwt(issuer: "", jwks: "keys.json") on a -> b',
    'jwt(issuer: "x", jwks: "keys.json", audiences: [""]) on a -> b',
    'tap(directory: "") on a -> b',
)


@pytest.mark.parametrize("policy", BENT)
def test_values_that_envoy_would_change_are_refused(policy: str) -> None:
    assert codes(f"{APP}policy p = {policy}\n") == ["ADM203"]


LEVELS = 16


def _nested(levels: int) -> str:
    match = 'path == "/x"'
    for level in range(levels):
        match = f'(method == "GET" {("or", "and")[level % 2]} {match})'
    return match


@pytest.mark.parametrize(
    ("match", "found"),
    [
        (_nested(LEVELS), []),
        (_nested(LEVELS + 1), ["ADM006"]),
        ("not " * LEVELS + 'path == "/x"', []),
        ("not " * (LEVELS + 1) + 'path == "/x"', ["ADM006"]),
        ('(path == "/x" or ' * 60 + 'path == "/y"' + ")" * 60, []),
        ('(path starts_with "/x" and ' * 60 + 'path == "/x"' + ")" * 60, []),
    ],
)
def test_levels_of_a_match(match: str, found: list[str]) -> None:
    assert codes(f"{APP}policy p = access_log() on a -> b when {match}\n") == found


def test_circuit_breaking_has_a_limit() -> None:
    """Without a limit the policy would have no effect."""
    assert codes(f"{APP}policy p = circuit_breaking() on * -> b\n") == ["ADM204"]
    assert codes(f"{APP}policy p = circuit_breaking(max_requests: 1) on * -> b\n") == []
