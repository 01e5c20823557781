"""`http` or `grpc` at a port where clients speak TLS is a warning."""

from __future__ import annotations

import pytest

import dsl

PROGRAM = "app tls\nservice web {{ http 8080 }}\n{party}\n{calls}\n"


def _warnings(party: str, calls: str = "call web -> there") -> list[tuple[str, str]]:
    program = dsl.load_text(PROGRAM.format(party=party, calls=calls), "test.adm")
    return [(each.code, each.hint or "") for each in program.warnings if each.code == "ADM432"]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("number", [443, 8443])
@pytest.mark.parametrize(
    "party",
    [
        'external there {{ {port}  host "api.example.com" }}',
        'external there {{ {port}  cidr "192.0.2.0/24" }}',
        "service there {{ {port} }}",
        "service there {{ {port} -> 9000 }}",
    ],
)
def test_a_call_to_such_a_port_is_warned_of_once(protocol: str, number: int, party: str) -> None:
    party = party.format(port=f"{protocol} {number}")
    ((code, hint),) = _warnings(party, "service two { http 1 }\ncall web, two -> there")
    assert (code, hint.partition(",")[0]) == ("ADM432", f"declare it `tcp {number}`")


@pytest.mark.parametrize(
    ("party", "calls"),
    [
        ('external there { tcp 443  host "api.example.com" }', "call web -> there"),
        ('external there { http 80  host "api.example.com" }', "call web -> there"),
        ('external there { http 443  host "api.example.com" }', ""),
        ("service there { http plain 80  http secure 443 }", "call web -> there:plain"),
    ],
)
def test_nothing_else_is(party: str, calls: str) -> None:
    assert _warnings(party, calls) == []
