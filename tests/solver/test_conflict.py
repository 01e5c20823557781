"""The lines of a conflict are irreducible: together they allow no placement, without any one of them there is one."""

from __future__ import annotations

import random

import pytest

import dsl
from dsl.program import Program
from solver.conflict.explain import MOST
from solver.place import place
from solver.placement import Cost, Costs, PlacementError, Rule
from tests.solver.generate import case

HEAD = """app shop
external internet
external office { cidr "10.9.0.0/16" }
service a, b { http 80 }
service c { http 80 }
service db { tcp 5432  no adm }
"""


def conflict(text: str, costs: Costs | None = None) -> PlacementError:
    with pytest.raises(PlacementError) as caught:
        place(dsl.load_text(HEAD + text), costs)
    return caught.value


def lines(error: PlacementError) -> set[str]:
    """The source lines of a conflict's parts."""
    return {part.span.source.line(part.span.line).strip() for part in error.parts}


CASES = {
    "an ingress-only policy where no ADM can be": (
        ["call a -> db", "policy q = circuit_breaking(max_connections: 5) on * -> db"],
        {"service db { tcp 5432  no adm }", "policy q = circuit_breaking(max_connections: 5) on * -> db"},
        Rule.HOST,
    ),
    "an egress-only policy on a call from outside": (
        ["call internet -> a", "call b -> a", "policy t = timeout(after: 1s) on {internet, b} -> a"],
        {"call internet -> a", "policy t = timeout(after: 1s) on {internet, b} -> a"},
        Rule.OUTSIDE,
    ),
    "a retry that a quota of two senders comes before": (
        [
            "call a -> c",
            "call b -> c",
            "policy quota = rate_limit(requests: 5, per: 1s) on * -> c",
            "policy log = access_log() on * -> c",
            "policy again = retry(attempts: 3) on a -> c",
        ],
        {
            "call a -> c",
            "call b -> c",
            "policy quota = rate_limit(requests: 5, per: 1s) on * -> c",
            "policy again = retry(attempts: 3) on a -> c",
        },
        Rule.ORDER,
    ),
    "two pins": (
        [
            "call a -> c",
            "policy log = access_log() on a -> c",
            "pin log at ingress",
            "pin log at egress on a -> c",
        ],
        {"policy log = access_log() on a -> c", "pin log at ingress", "pin log at egress on a -> c"},
        Rule.PIN,
    ),
    "a guard that its only sender could go round": (
        [
            "service shady { http 80  untrusted }",
            "service vault { http 80  no adm }",
            "call shady -> vault",
            "policy who = deny() on shady -> vault",
        ],
        {
            "service shady { http 80  untrusted }",
            "service vault { http 80  no adm }",
            "policy who = deny() on shady -> vault",
        },
        Rule.HOST,
    ),
    "a destination that cannot be closed": (
        [
            "service vault { http 80  no adm }",
            "call a -> vault",
            "policy log = access_log() on * -> vault",
            "call internet -> vault",
        ],
        {"service vault { http 80  no adm }", "call internet -> vault", "policy log = access_log() on * -> vault"},
        Rule.HOST,
    ),
    "a narrowing": (
        ["call a -> db", "@ingress\npolicy log = access_log() on a -> db"],
        {"service db { tcp 5432  no adm }", "@ingress", "policy log = access_log() on a -> db"},
        Rule.HOST,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_conflicts_name_their_lines(name: str) -> None:
    text, named, rule = CASES[name]
    error = conflict("\n".join(text) + "\n")
    found = lines(error)
    assert {line for line in found if not line.startswith("call")} == {n for n in named if not n.startswith("call")}
    assert found <= named | {line for line in text if line.startswith("call")}
    assert error.reasons[0].rule is rule
    assert all(part.message and part.remedy for part in error.parts)


@pytest.mark.parametrize("name", CASES)
def test_without_any_of_its_lines_there_is_a_placement(name: str) -> None:
    text = HEAD + "\n".join(CASES[name][0]) + "\n"
    with pytest.raises(PlacementError) as caught:
        place(dsl.load_text(text))
    for part in caught.value.parts:
        place(dsl.load_text(_freed(text, part.remedy, part.span.source.line(part.span.line))))


def _freed(text: str, remedy: str, line: str) -> str:
    """The program with one line changed as its remedy says."""
    for mark in ("no adm", "untrusted"):
        if remedy.startswith(f"remove `{mark}`"):
            return text.replace(line, line.replace(mark, ""))
    words = line.split()
    if words[0] == "policy":
        # A policy takes its narrowing and its pins along.
        name = words[1]
        gone = [other for other in text.splitlines() if other == line or other.startswith(f"pin {name} ")]
        kept = [other for other in text.splitlines() if other not in gone]
        return "\n".join(other for other in kept if not other.startswith("@")) + "\n"
    if words[0] == "call":
        # A pin on a call that is gone would be an error.
        text = "\n".join(o for o in text.splitlines() if not (o.startswith("pin ") and o.endswith(line[5:]))) + "\n"
    return text.replace(line + "\n", "", 1)


def test_the_remedy_for_order_is_confirmed() -> None:
    error = conflict("\n".join(CASES["a retry that a quota of two senders comes before"][0]) + "\n")
    remedies = {part.remedy for part in error.parts}
    assert "declare `again` before `quota`, or remove it" in remedies


def remedies(error: PlacementError) -> dict[str, str]:
    """Remedy by what each part says."""
    return {part.message: part.remedy for part in error.parts}


def test_a_remedy_that_does_not_resolve_the_conflict_is_not_offered() -> None:
    text = """service agent { http 80  host_network }
service notebook { http 80  untrusted }
service warehouse { tcp 5432  http metrics 9090 }
call a, notebook -> warehouse:5432
call agent -> warehouse:metrics
policy readers = allow(callers: [a]) on * -> warehouse:5432
"""
    error = conflict(text)
    assert remedies(error) == {
        "`readers` has to be enforced for `warehouse`": "remove `readers`, or narrow its scope",
        "`agent` calls `warehouse`": "remove the call",
        "`agent` is marked `host_network`": "remove `host_network` from `agent`",
    }
    conflict(text.replace("on * ->", "on * except agent ->"))
    assert not [reason for reason in error.reasons if "notebook" in reason.message]


def test_a_call_may_be_left_out_of_a_scope() -> None:
    text = "call a -> db\ncall internet -> db\npolicy q = access_log() on {a, internet} -> db\n"
    said = "remove the call, or leave `internet` out of the scope of `q`"
    assert remedies(conflict(text))["`internet` calls `db`"] == said
    place(dsl.load_text(HEAD + text.replace("{a, internet}", "a")))


def test_all_callers_of_a_quota_are_named() -> None:
    text = "call a, b, c -> db\npolicy q = connection_rate_limit(connections: 5, per: 1s) on {SCOPE} -> db\n"
    error = conflict(text.replace("SCOPE", "a, b, c"))
    calls = {message: remedy for message, remedy in remedies(error).items() if " calls " in message}
    assert len(calls) == 2
    assert set(calls.values()) == {"let one caller alone be in the scope of `q`: `a`, `b` or `c`"}
    (shared,) = [reason.message for reason in error.reasons if reason.rule is Rule.STATE]
    assert all(message.split()[0] in shared for message in calls)
    for one in "abc":
        place(dsl.load_text(HEAD + text.replace("SCOPE", one)))


def test_a_call_of_a_guard_takes_part_if_its_removal_resolves_the_conflict() -> None:
    text = """service shady, dark { http 80  untrusted }
service vault { http 80  no adm }
call a -> vault
call shady -> vault
policy who = allow(callers: [a]) on * -> vault
"""
    assert remedies(conflict(text)) == {
        "`who` has to be enforced for `vault`": "remove `who`, or narrow its scope",
        "`vault` is marked `no adm`": "remove `no adm` from `vault`",
        "`shady` is marked `untrusted`": "remove `untrusted` from `shady`",
        "`shady` calls `vault`": "remove the call, or leave `shady` out of the scope of `who`",
    }
    place(dsl.load_text(HEAD + text.replace("call shady -> vault\n", "")))
    place(dsl.load_text(HEAD + text.replace("on * ->", "on * except shady ->")))


def test_a_call_from_the_hosts_network_takes_part_too() -> None:
    text = """service agent { http 80  host_network }
call agent, b -> c
policy who = allow(callers: [b]) on * -> c
"""
    assert remedies(conflict(text))["`agent` calls `c`"] == "remove the call"
    place(dsl.load_text(HEAD + text.replace("agent, b", "b")))


def test_a_remedy_that_is_not_enough_alone_names_the_others() -> None:
    text = """service shady, dark { http 80  untrusted }
service vault { http 80  no adm }
call a, shady, dark -> vault
policy who = allow(callers: [a]) on * -> vault
"""
    found = remedies(conflict(text))
    (marked,) = [remedy for message, remedy in found.items() if "`untrusted`" in message]
    assert marked in (
        "remove `untrusted` from `shady`, and likewise for `dark`",
        "remove `untrusted` from `dark`, and likewise for `shady`",
    )
    (called,) = [remedy for message, remedy in found.items() if " calls " in message]
    assert called in (
        "remove the call; and remove `untrusted` from `shady`",
        "remove the call; and remove `untrusted` from `dark`",
    )
    place(dsl.load_text(HEAD + text.replace("  untrusted", "")))


def test_a_capacity_takes_part() -> None:
    text = HEAD.replace("service c { http 80 }", "service c { http 80  capacity 0.002 }")
    text += "call internet -> c\npolicy log = access_log() on * -> c\npolicy more = request_count() on * -> c\n"
    costs = Costs(adm={"c": Cost(1_900_000, 0)}, enforcement={}, known=True)
    place(dsl.load_text(text), costs)
    with pytest.raises(PlacementError) as caught:
        place(dsl.load_text(text), Costs(adm={"c": Cost(2_100_000, 0)}, known=True))
    assert caught.value.reasons[0].rule is Rule.CAPACITY
    found = lines(caught.value)
    assert "service c { http 80  capacity 0.002 }" in found
    assert len([line for line in found if line.startswith("policy")]) == 1


def test_random_conflicts_are_irreducible() -> None:
    """The removal of each named policy alone resolves the conflict, or leaves one about other lines."""
    seen = 0
    for seed in range(150):
        of = case(random.Random(seed))  # noqa: S311
        error = _error(of.program, of.costs)
        if error is None:
            continue
        seen += 1
        assert error.parts
        assert error.reasons
        names = {policy.name for policy in of.program.policies if policy.span in {p.span for p in error.parts}}
        assert names, error.parts
        alone = _only(of.program, names)
        for name in sorted(names):
            rest = _error(_only(alone, names - {name}), of.costs)
            assert rest is None or {p.span for p in rest.parts} != {p.span for p in error.parts}
    assert seen >= 30


def _error(program: Program, costs: Costs) -> PlacementError | None:
    try:
        place(program, costs)
    except PlacementError as error:
        return error
    return None


def _only(program: Program, names: set[str]) -> Program:
    from dataclasses import replace

    policies = tuple(policy for policy in program.policies if policy.name in names)
    return replace(program, policies=policies, pins=tuple(pin for pin in program.pins if pin.policy in names))


def test_all_conflicts_of_order_are_found_at_once() -> None:
    """Each pair of its own, with the fact that decides it."""
    text = """service e { http 80 }
call a, b -> c
call a -> b, e
policy breaker = circuit_breaking(max_connections: 5) on * -> c
policy quota = rate_limit(requests: 5, per: 1s) on * -> c
policy again = retry(attempts: 3) on a -> c
policy chosen = split(to: e, percent: 10%) on a -> b
policy late = timeout(after: 3s) on a -> b
policy copies = mirror(to: e) on a -> b
"""
    error = conflict(text)
    facts = {reason.message for each in error.conflicts for reason in each.reasons if reason.rule is Rule.ORDER}
    swapped = "and the two may not be swapped: "
    assert facts == {
        f"`breaker` is declared before `quota`, {swapped}`circuit_breaking` acts after all filters",
        f"`breaker` is declared before `again`, {swapped}`breaker` can be at ingress only and `again` at egress only, "
        "and egress comes first",
        f"`quota` is declared before `again`, {swapped}`quota` can be at ingress only and `again` at egress only, and "
        "egress comes first",
        f"`chosen` is declared before `late`, {swapped}`split` acts once for each request, inside of its retries and "
        "timeouts",
        f"`chosen` is declared before `copies`, {swapped}`mirror` acts once for each request, before retries, timeouts "
        "and splits",
    }
    assert not error.more
    head, policies = text.splitlines(keepends=True)[:3], text.splitlines(keepends=True)[3:]
    place(dsl.load_text(HEAD + "".join((*head, *reversed(policies)))))


def test_conflicts_of_other_rules_are_found_at_once_too() -> None:
    error = conflict(
        "call a -> db\ncall internet -> a\ncall b -> c\n"
        "policy few = circuit_breaking(max_connections: 5) on * -> db\n"
        "policy late = timeout(after: 1s) on internet -> a\n"
        "policy log = access_log() on b -> c\npin log at ingress\npin log at egress on b -> c\n"
    )
    assert [each.reasons[0].rule for each in error.conflicts] == [Rule.OUTSIDE, Rule.PIN, Rule.HOST]


def test_the_search_for_conflicts_is_bounded() -> None:
    many = "".join(f"policy log{at} = access_log() on * -> c\n" for at in range(MOST + 5))
    error = conflict("call a -> c\npolicy few = circuit_breaking(max_connections: 5) on * -> c\n" + many)
    assert len(error.conflicts) == MOST
    assert error.more


def test_without_the_policies_of_all_conflicts_there_is_a_placement() -> None:
    """No conflict of a random program is left out."""
    several = 0
    for seed in range(150):
        of = case(random.Random(seed))  # noqa: S311
        error = _error(of.program, of.costs)
        if error is None or any(each.reasons[0].rule is Rule.CAPACITY for each in error.conflicts):
            continue
        several += len(error.conflicts) > 1
        spans = {part.span for each in error.conflicts for part in each.parts}
        left = _only(of.program, {each.name for each in of.program.policies if each.span not in spans})
        rest = _error(left, Costs())
        assert rest is None, (seed, rest.reasons)
    assert several > 5
