"""The meaning of rule R6: an order that the solver or the verifier accepts has the effects of the declared order.

Policies write what others match on, and exclude each other by it, three and more at a time. Requests are followed
through the policies by hand: once in declared order, and once in every order that the rule lets sides make.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from dsl.diagnostics.diagnostic import Severity
from dsl.program import Place
from solver.rules.options import decision_points
from solver.rules.order import clashes, holds
from solver.verify.order import order
from solver.verify.scope import requirements
from tests.dsl.programs import findings, load
from tests.fidelity import selecting
from tests.fidelity.message import Message
from tests.properties import examples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dsl.program import Policy, Program

APP = "app t\nservice a, b { http 80 }\ncall a -> b\n"
MATCHES = (
    *('path == "/a"', 'path == "/b"', 'path != "/a"', 'path starts_with "/b"', 'method == "GET"', 'method != "GET"'),
    *('header("x") == "1"', 'header("x") != "1"', 'header("y") == "1"', 'header("y") != "1"'),
)
KINDS = (
    *('rewrite_path("/a", "/b")', 'rewrite_path("/b", "/a")', 'set_request_header("x", "1")'),
    *('remove_request_header("x")', 'set_request_header("y", "1")', 'remove_request_header("y")'),
    *("request_count()", "deny()", "compression()", "compression(algorithm: brotli)", "buffer_limit(1KB)"),
)
REQUESTS = tuple(
    Message(method, path, headers, b"")
    for method in ("GET", "PUT")
    for path in ("/a", "/b", "/c")
    for headers in ((), (("x", "1"),), (("y", "1"),), (("x", "1"), ("y", "1")))
)
PART = st.sampled_from(MATCHES)
MATCH = st.one_of(st.just(""), PART, st.tuples(PART, PART).map(" and ".join), st.tuples(PART, PART).map(" or ".join))
ANY = st.tuples(st.sampled_from(KINDS), MATCH)
RIVAL = st.tuples(st.just("compression()"), PART)
AROUND = st.tuples(RIVAL, st.lists(ANY, min_size=1, max_size=3), RIVAL).map(lambda each: [each[0], *each[1], each[2]])
POLICIES = st.one_of(st.lists(ANY, min_size=3, max_size=5), AROUND)


class Seen(NamedTuple):
    """The effects on one request: the counts, and unless a guard refused it, its final form and the policies it met."""

    counted: tuple[str, ...]
    arrived: tuple[str, tuple[tuple[str, str], ...], tuple[str, ...]] | None


def followed(policies: Sequence[Policy], message: Message) -> Seen:
    """One request through policies in this order."""
    counted: list[str] = []
    met: list[str] = []
    for policy in policies:
        if not selecting.holds(policy.match, message):
            continue
        name, value = str(policy.arguments.get("name")), str(policy.arguments.get("value"))
        match policy.kind.name:
            case "deny":
                return Seen(tuple(sorted(counted)), None)
            case "request_count":
                counted.append(policy.name)
            case "set_request_header":
                message = message.without(name).plus(name, value)
            case "remove_request_header":
                message = message.without(name)
            case "rewrite_path":
                prefix = str(policy.arguments["prefix"])
                if message.path.startswith(prefix):
                    path = str(policy.arguments["to"]) + message.path[len(prefix) :]
                    message = Message(message.method, path, message.headers, b"")
            case exclusive:
                met.append(f"{exclusive} {policy.name}")
    return Seen(tuple(sorted(counted)), (message.path, tuple(sorted(message.headers)), tuple(sorted(met))))


@given(POLICIES)
@examples(150)
def test_an_accepted_order_has_the_effects_of_the_declared_order(drawn: list[tuple[str, str]]) -> None:
    lines = (
        f"policy p{i} = {kind} on a -> b {f'when {match}' if match else ''}" for i, (kind, match) in enumerate(drawn)
    )
    text = APP + "\n".join(lines) + "\n"
    refused = {found.code for found in findings(text) if found.severity is Severity.ERROR}
    assert refused <= {"ADM402", "ADM426"}
    assume(not refused)
    program = load(text)
    declared = [followed(program.policies, message) for message in REQUESTS]
    for seen in declared:
        kinds = [name.split()[0] for name in (seen.arrived[2] if seen.arrived else ())]
        assert len(set(kinds)) == len(kinds), "two policies of an exclusive kind hold for one request"
    for places in _right(program):
        placed = sorted(program.policies, key=lambda policy: places[policy.name].position)
        assert [followed(placed, message) for message in REQUESTS] == declared, places


def _right(program: Program) -> Iterator[dict[str, Place]]:
    """Every assignment of places that the model or the verifier accepts."""
    names = [policy.name for policy in program.policies]
    found, work = decision_points(program), requirements(program)
    (clashing,) = clashes(program, found).values() or [[]]
    for chosen in product((Place.INGRESS, Place.EGRESS), repeat=len(names)):
        places = dict(zip(names, chosen, strict=True))
        at = [places[names[case.policy]] for case in found]
        model = all(holds(program, found, clash, at[clash.first], at[clash.second]) for clash in clashing)
        verifier = not list(order(program, ((work[name, "b"], places[name]) for name in names)))
        if model or verifier:
            yield places
