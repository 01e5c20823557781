"""Where a plan takes the long way: only where what comes to one side may take the place of what leaves the other."""

from __future__ import annotations

from itertools import pairwise, product
from typing import TYPE_CHECKING

import pytest

from admc.transition.change import Change
from admc.transition.model import Part, Phase, Placed
from admc.transition.older import names, renamed
from admc.transition.steps import steps
from dsl import load_text
from dsl.program import Side
from emitters.errors import EmitError
from emitters.hops import hops
from solver.place import place

if TYPE_CHECKING:
    from collections.abc import Mapping

APP = """
app crossing
service s, t, u { http 80 }
service d { http web 80  http admin 81  http again 82 -> 80 }
call s, t -> d:web
call s, t -> d:admin
call s -> d:again
@ingress @egress
kind own() for http template "own.yaml"
"""
TEMPLATE = b"""
"@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
mutations: {request_mutations: [{append: {header: {key: x-own, value: "1"}}}]}
"""
LEAVES = "deny() on s -> d:web"
CASES = {
    "the same under another name": (LEAVES, LEAVES, True),
    "another guard": (LEAVES, "allow(callers: [s, t]) on {s, t} -> d:web", True),
    "a guard of others": (LEAVES, "deny() on t -> d:web", False),
    "a guard of another port": (LEAVES, "deny() on s -> d:admin", False),
    "a guard of a port that leads to the same": (LEAVES, "deny() on s -> d:again", True),
    "what refuses and does more": (LEAVES, "rate_limit(requests: 5, per: 1s) on s -> d:web", True),
    "what refuses nobody": (LEAVES, "timeout(after: 1s) on s -> d:web", False),
    "what only counts": (LEAVES, "request_count() on s -> d:web", False),
    "what writes something else": (
        'set_request_header(name: "x-a", value: "1") on s -> d:web',
        'set_request_header(name: "x-b", value: "1") on s -> d:web',
        True,
    ),
    "what changes requests instead of refusing them": (
        LEAVES,
        'remove_request_header(name: "x-b") on s -> d:web',
        True,
    ),
    "what says nothing of what it does": (LEAVES, "own() on s -> d:web", True),
}


def placed(policy: str, name: str, side: str) -> Placed:
    pin = "" if policy.startswith("timeout") else f"pin {name} at {side}\n"
    program = load_text(f"{APP}policy {name} = {policy}\n{pin}", read=lambda _: TEMPLATE)
    return Placed(program, place(program))


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_the_long_way_is_for_what_may_take_the_place_of_another(case: str, back: bool) -> None:
    leaves, comes, crosses = CASES[case]
    ends = placed(leaves, "old", "ingress"), placed(comes, "new", "egress")
    old, new = reversed(ends) if back else ends
    assert Change(old, new).crossing == ({"d"} if crosses else set())
    phases = [step.phase for step in steps(old, new, b"key")]
    assert phases == (list(Phase) if crosses else [Phase.FINAL, Phase.CLEAN])


def test_one_name_is_one_policy_whatever_becomes_of_it() -> None:
    old, new = placed(LEAVES, "one", "ingress"), placed("request_count() on t -> d:admin", "one", "egress")
    assert Change(old, new).crossing == {"d"}


def at(app: str, *policies: tuple[str, str, str]) -> Placed:
    """Policies by name and side in an application of one port."""
    written = "".join(f"policy {name} = {what}\npin {name} at {side}\n" for name, side, what in policies)
    program = load_text(f"app small\n{app}{written}")
    return Placed(program, place(program))


PLAIN = "service s, t, u { http 80 }\nservice d { http web 80 }\ncall s, t -> d\n"


@pytest.mark.parametrize("back", [False, True])
def test_callers_whom_nobody_has_declared_may_be_meant_by_both(back: bool) -> None:
    ends = (
        at(PLAIN, ("old", "ingress", "deny() on * except {t, u, d} -> d")),
        at(PLAIN, ("new", "egress", "deny() on * except {s, u, d} -> d")),
    )
    old, new = reversed(ends) if back else ends
    assert Change(old, new).crossing == {"d"}


@pytest.mark.parametrize("back", [False, True])
def test_a_port_that_gets_another_number_still_leads_to_the_same(back: bool) -> None:
    """Whoever sends to its target was met by the one, and is to be met by the other."""
    app = "service s { http 80 }\nservice d { http web PORT }\ncall s -> d:web\n"
    ends = (
        at(app.replace("PORT", "80 -> 8080"), ("old", "ingress", "deny() on s -> d:web")),
        at(app.replace("PORT", "8080"), ("new", "egress", "deny() on s -> d:web")),
    )
    old, new = reversed(ends) if back else ends
    assert Change(old, new).crossing == {"d"}


ARRIVES = "service s { http 80 }\nservice d { http web PORT }\ncall s -> d:web\n"


@pytest.mark.parametrize(("before", "after"), [("80 -> 8080", "8080"), ("8080", "80 -> 8080")])
def test_a_port_that_gets_another_number_is_enforced_where_it_leads_to(before: str, after: str) -> None:
    """Whoever dials the new number arrives at what is still enforced by the old one."""
    ends = (
        at(ARRIVES.replace("PORT", before), ("g", "ingress", "deny() on s -> d:web")),
        at(ARRIVES.replace("PORT", after), ("g", "egress", "deny() on s -> d:web")),
    )
    number = ends[1].program.services["d"].ports[0].number

    def refused(parts: Mapping[str, Part], service: str) -> bool:
        """At its end of a call that dials the new number."""
        found = hops(*parts[service].placed).get(service, ()) if service in parts else ()
        return any(
            (hop.port.target == 8080 if hop.side is Side.INGRESS else hop.port.number == number)
            and any(policy.kind.name == "deny" for policy in hop.policies)
            for hop in found
        )

    known = [{name: Part(ends[0], {}) for name in ("s", "d")}, *(step.parts for step in steps(*ends, b"key"))]
    for earlier, later in pairwise(known):
        for sender, receiver in product((earlier, later), repeat=2):
            assert refused(sender, "s") or refused(receiver, "d")


def test_a_port_that_leads_elsewhere_is_no_way_for_what_leaves_its_ingress() -> None:
    """Pods of before listen where they did, and nothing would be enforced there before it is at the senders."""
    old = at(ARRIVES.replace("PORT", "80 -> 8080"), ("g", "ingress", "deny() on s -> d:web"))
    new = at(ARRIVES.replace("PORT", "80 -> 9090"), ("g", "egress", "deny() on s -> d:web"))
    with pytest.raises(EmitError) as refused:
        steps(old, new, b"key")
    (said,) = refused.value.diagnostics
    assert said.code == "ADM855"
    assert "port 80 of `d`" in said.message
    assert [step.phase for step in steps(new, old, b"key")] == list(Phase)


@pytest.mark.parametrize("back", [False, True])
def test_a_policy_for_undeclared_callers_is_for_those_whom_only_the_other_program_knows(back: bool) -> None:
    known = PLAIN + "service n { http 80 }\ncall n -> d\n"
    ends = (
        at(PLAIN, ("guard", "ingress", "deny() on * except d -> d")),
        at(known, ("guard", "egress", "deny() on * except d -> d")),
    )
    old, new = reversed(ends) if back else ends
    for step in steps(old, new, b"key"):
        placed = step.parts["d"].placed if "d" in step.parts else None
        for policy in placed.program.policies if placed is not None else ():
            # Where nobody of this name is known, whoever is not known is meant.
            assert "n" in policy.sources or "n" not in placed.program.services, step.phase


def test_a_port_may_go_with_what_was_enforced_there() -> None:
    two = PLAIN.replace("web 80", "web 80  http admin 81").replace("-> d", "-> d:web, d:admin")
    old, new = at(two, ("old", "ingress", "deny() on s -> d:admin")), at(PLAIN)
    assert [step.phase for step in steps(old, new, b"key")] == [Phase.FINAL, Phase.CLEAN]


LIMIT = "rate_limit(requests: {}, per: 1s) on {} -> d"
TAKEN = {
    "some of its requests are taken by another elsewhere": (
        [("q", "ingress", LIMIT.format(9, "{s, t}"))],
        [("q", "ingress", LIMIT.format(5, "t")), ("r", "egress", LIMIT.format(4, "s"))],
        {"d"},
    ),
    "and at the same side": (
        [("q", "ingress", LIMIT.format(9, "{s, t}"))],
        [("q", "ingress", LIMIT.format(5, "t")), ("r", "ingress", LIMIT.format(4, "s"))],
        set(),
    ),
    "by another guard that has others, too": (
        [("q", "ingress", "deny() on {s, t} -> d"), ("r", "ingress", "allow(callers: [t]) on u -> d")],
        [("q", "ingress", "deny() on t -> d"), ("r", "ingress", "allow(callers: [t]) on {s, u} -> d")],
        set(),
    ),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("case", TAKEN)
def test_what_changes_in_its_place_may_be_replaced_in_part(case: str, back: bool) -> None:
    """What it was goes on under its name, in older connections, too, until the other is in force."""
    before, after, crosses = TAKEN[case]
    ends = (
        at(PLAIN.replace("call s, t", "call s, t, u"), *before),
        at(PLAIN.replace("call s, t", "call s, t, u"), *after),
    )
    old, new = reversed(ends) if back else ends
    called = names({}, old, new)
    assert called["q"] == "q~2"
    assert Change(old, renamed(new, called)).crossing == crosses


OTHERS = {
    "of another kind": ([], [("r", "egress", "deny() on {s, t} -> d")]),
    "that only moves": ([("r", "egress", LIMIT.format(7, "s"))], [("r", "ingress", LIMIT.format(7, "s"))]),
}


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("case", OTHERS)
def test_what_only_changes_keeps_its_name_beside_others(case: str, back: bool) -> None:
    """It would be met together with what it was."""
    before, after = OTHERS[case]
    ends = (
        at(PLAIN, *before, ("q", "ingress", LIMIT.format(9, "{s, t}"))),
        at(PLAIN, *after, ("q", "ingress", LIMIT.format(5, "t"))),
    )
    old, new = reversed(ends) if back else ends
    assert names({}, old, new) == {}
