"""The verifier rejects each side that a rule forbids, and nothing but for that rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dsl.program import Port, Program, Protocol
from solver.placement import Rule
from solver.verify.verifier import verify
from tests.solver.build import EGRESS, INGRESS, Spec, external, kind, program, service
from tests.solver.samples import (
    ALLOW,
    AUTHZ,
    BREAKER,
    COUNT,
    DENY,
    HEADER,
    IN,
    LUA,
    MIRROR,
    OUT,
    PORTS,
    QUOTA,
    RETRY,
    SPLIT,
    TRUSTED,
    TWO,
    Sides,
    place,
    rules,
)

# Sides that a rule forbids: the program, right sides, wrong sides, and the rule that the wrong ones break.
FORBIDDEN: dict[str, tuple[Program, Sides, Sides, set[Rule | None]]] = {
    "R3 external at egress": (
        program([service("d"), external("x", cidrs=["10.0.0.0/8"])], [("x", "d")], [Spec("p", COUNT, "*", {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.OUTSIDE},
    ),
    "R3 external beside internal senders": (
        program(
            [service("a"), service("d"), external("x", cidrs=["10.0.0.0/8"])],
            [("x", "d"), ("a", "d")],
            [Spec("p", COUNT, {"a", "x"}, {"d"})],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.OUTSIDE},
    ),
    "R3 external destination at ingress": (
        program([service("a"), external("x", PORTS[0])], [("a", "x")], [Spec("p", COUNT, "*", {"x"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.OUTSIDE},
    ),
    "R4 side of the kind at egress": (
        program(TRUSTED, TWO, [Spec("p", replace(BREAKER, per_replica=False), {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 side of the kind at ingress": (
        program(TRUSTED, TWO, [Spec("p", RETRY, "*", {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.CAPABILITY},
    ),
    "R4 narrowing to ingress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"}, side=INGRESS)]),
        {"p": IN},
        {"p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 narrowing to egress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"}, side=EGRESS)]),
        {"p": OUT},
        {"p": IN},
        {Rule.CAPABILITY},
    ),
    "R4 target of a mirror": (
        program(
            TRUSTED,
            [("a", "b"), ("a", "d")],
            [Spec("m", MIRROR, {"a"}, {"b"}, {"to": "d"}), Spec("p", COUNT, {"a"}, {"d"})],
        ),
        {"m": OUT, "p": IN},
        {"m": OUT, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 target of a split": (
        program(
            TRUSTED,
            [("a", "b"), ("a", "d"), ("b", "d")],
            [Spec("p", COUNT, "*", {"d"}), Spec("m", SPLIT, {"a"}, {"b"}, {"to": "d"})],
        ),
        {"m": OUT, "p": IN},
        {"m": OUT, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 helper of a guard, called by its destination": (
        program(
            TRUSTED,
            [("a", "b"), ("b", "d")],
            [Spec("z", AUTHZ, {"a"}, {"b"}, {"service": "d"}), Spec("p", COUNT, {"b"}, {"d"})],
        ),
        {"z": IN, "p": IN},
        {"z": IN, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R4 helper of a guard, called by its sender": (
        program(
            TRUSTED,
            [("a", "b"), ("a", "d")],
            [Spec("z", AUTHZ, {"a"}, {"b"}, {"service": "d"}, side=EGRESS), Spec("p", COUNT, {"a"}, {"d"})],
        ),
        {"z": OUT, "p": IN},
        {"z": OUT, "p": OUT},
        {Rule.CAPABILITY},
    ),
    "R5 two senders at egress": (
        program(TRUSTED, TWO, [Spec("p", QUOTA, {"a", "b"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R5 every sender at egress": (
        program(TRUSTED, TWO, [Spec("p", QUOTA, "*", {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R5 per replica at egress": (
        program(TRUSTED, TWO, [Spec("p", kind("k", effects=[], per_replica=True), {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.STATE},
    ),
    "R6 counts attempts, not requests": (
        program(TRUSTED, TWO, [Spec("q", QUOTA, {"a"}, {"d"}), Spec("r", RETRY, {"a"}, {"d"})]),
        {"q": OUT, "r": OUT},
        {"q": IN, "r": OUT},
        {Rule.ORDER},
    ),
    "R6 counts requests, not attempts": (
        program(TRUSTED, TWO, [Spec("r", RETRY, {"a"}, {"d"}), Spec("q", QUOTA, {"a"}, {"d"})]),
        {"q": IN, "r": OUT},
        {"q": OUT, "r": OUT},
        {Rule.ORDER},
    ),
    "R6 the same header": (
        program(TRUSTED, TWO, [Spec("h", HEADER, {"a"}, {"d"}), Spec("i", HEADER, {"a", "b"}, {"d"})]),
        {"h": OUT, "i": IN},
        {"h": IN, "i": OUT},
        {Rule.ORDER},
    ),
    "R6 nothing is known of a kind": (
        program(TRUSTED, TWO, [Spec("l", LUA, {"a"}, {"d"}), Spec("c", COUNT, {"a"}, {"d"})]),
        {"l": OUT, "c": IN},
        {"l": IN, "c": OUT},
        {Rule.ORDER},
    ),
    "R7 guard without calls": (
        program([*TRUSTED, service("e")], TWO, [Spec("g", DENY, {"e"}, {"d"})]),
        {"g": IN},
        {"g": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: a sender without address": (
        program(
            [*TRUSTED, external("x")], [*TWO, ("x", "d")], [Spec("p", COUNT, "*", {"d"}, excluded=frozenset({"x"}))]
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: a sender with the range of all addresses": (
        program(
            [*TRUSTED, external("x", cidrs=["10.9.0.0/16", "::/0"])],
            [*TWO, ("x", "d")],
            [Spec("p", COUNT, "*", {"d"}, excluded=frozenset({"x"}))],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: another port with the same target": (
        program(
            [service("a"), service("d", PORTS[0], Port(8081, Protocol.HTTP, 8080))],
            [("a", "d", 8080)],
            [Spec("p", COUNT, "*", {"d"})],
        ),
        {"p": IN},
        {"p": OUT},
        {Rule.CLOSED},
    ),
    "R7 unclosable: called from inside a sidecar": (
        program(
            [*TRUSTED, service("c")],
            [("a", "b"), ("c", "d")],
            [Spec("z", AUTHZ, "*", {"b"}, {"service": "d"}), Spec("p", COUNT, "*", {"d"})],
        ),
        {"z": IN, "p": IN},
        {"z": IN, "p": OUT},
        {Rule.CLOSED},
    ),
    "R7 guard behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("g", DENY, {"a"}, {"d"})]),
        {"g": IN},
        {"g": OUT},
        {Rule.CLOSED},
    ),
    "R7 quota behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("q", QUOTA, {"a"}, {"d"})]),
        {"q": IN},
        {"q": OUT},
        {Rule.CLOSED},
    ),
    "R7 unknown effects behind an untrusted sender": (
        program([service("a", trusted=False), service("d")], [("a", "d")], [Spec("l", LUA, {"a"}, {"d"})]),
        {"l": IN},
        {"l": OUT},
        {Rule.CLOSED},
    ),
    "R7 a caller that no address tells": (
        program(
            [*TRUSTED, service("h", host_network=True)],
            [("a", "d"), ("h", "d")],
            [Spec("p", COUNT, {"a"}, {"d"})],
        ),
        {"p": OUT},
        {"p": IN},
        {Rule.CLOSED},
    ),
    "R7 a guard that names a caller without an address of its own": (
        program([*TRUSTED, service("h", host_network=True)], [("a", "d")], [Spec("g", DENY, {"a", "h"}, {"d"})]),
        {"g": OUT},
        {"g": IN},
        {Rule.CLOSED},
    ),
    "R7 a guard that excludes a caller without an address of its own": (
        program(
            [*TRUSTED, service("h", host_network=True)],
            [("a", "d")],
            [Spec("g", DENY, "*", {"d"}, excluded=frozenset({"h"}))],
        ),
        {"g": OUT},
        {"g": IN},
        {Rule.CLOSED},
    ),
    "R7 an argument that names a caller without an address of its own": (
        program(
            [*TRUSTED, service("h", host_network=True)],
            [("a", "d")],
            [Spec("g", ALLOW, "*", {"d"}, {"callers": "h"})],
        ),
        {"g": OUT},
        {"g": IN},
        {Rule.CLOSED},
    ),
    "R7 second port is a way round": (
        program(
            [service("a"), service("d", *PORTS), service("h", host_network=True)],
            [("a", "d", 8080), ("h", "d", 9000)],
            [Spec("c", COUNT, "*", {"d"}), Spec("g", kind("k", effects=[], guard=True), {"a"}, {"d"}, side=EGRESS)],
        ),
        {"c": IN, "g": OUT},
        {"c": IN, "g": OUT},
        {Rule.CLOSED},
    ),
    "R8 no adm at ingress": (
        program([service("a"), service("d", hosts_adm=False)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.HOST},
    ),
    "R8 no adm at egress": (
        program([service("a", hosts_adm=False), service("d")], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": IN},
        {"p": OUT},
        {Rule.HOST},
    ),
    "R8 host network": (
        program([service("a"), service("d", host_network=True)], [("a", "d")], [Spec("p", COUNT, {"a"}, {"d"})]),
        {"p": OUT},
        {"p": IN},
        {Rule.HOST},
    ),
    "R10 pinned at ingress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"})], pins=[("p", INGRESS, "d")]),
        {"p": IN},
        {"p": OUT},
        {Rule.PIN},
    ),
    "R10 pinned at egress": (
        program(TRUSTED, TWO, [Spec("p", COUNT, {"a"}, {"d"})], pins=[("p", EGRESS, "d")]),
        {"p": OUT},
        {"p": IN},
        {Rule.PIN},
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_forbidden_side_is_rejected(what: str) -> None:
    of, right, wrong, expected = FORBIDDEN[what]
    if right != wrong:
        assert verify(of, place(of, right)) == ()
    assert rules(of, place(of, wrong)) == expected
