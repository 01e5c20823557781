"""What is no difference: names, lines, files, sides, and the order of what commutes."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

import pytest

import dsl
from admc.compile.plan.build import build
from admc.review.diff import identity
from admc.review.diff.identity import renames
from admc.review.diff.model import Rename, Word
from admc.review.diff.protection import Findings, detection, findings
from solver.place import place
from tests.fidelity.order import commute
from tests.fidelity.samples import FILES, JWT, KINDS
from tests.review.diff.protection.examples import SERVICES
from tests.review.diff.protection.plans import compiled, plan_of
from tests.review.diff.protection.soak import compiled_or_none
from tests.review.diff.protection.specs import External, Spec, program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.compile.plan.model import Plan

POLICIES: Final = """
policy tier = set_request_header(name: "x-tier", value: "gold") on a -> b
policy seen = request_count() on * -> b
policy quota = rate_limit(requests: 9, per: 60s) on {a, c} -> b when path == "/a" and method == "GET"
@ingress
policy readers = allow(callers: [a, c]) on * -> b
"""
NOTHING: Final = Findings((), (), ())


def compared(base: Plan, head: Plan) -> Findings:
    return findings(base, head, renames(base, head))


@pytest.mark.parametrize(
    "head",
    [
        POLICIES,
        POLICIES.replace("\npolicy", "\n// why\npolicy"),
        POLICIES.replace("requests: 9, per: 60s", "per: 1m,\n  requests: 9"),
        POLICIES.replace('path == "/a" and method == "GET"', '((path == "/a") and method == "GET")'),
        POLICIES.replace('path == "/a" and method == "GET"', 'method == "GET" and path == "/a"'),
        POLICIES.replace("requests: 9, per: 60s", "requests: 9, per: 60s, burst: 9"),
        POLICIES.replace("[a, c]", "[c, a]").replace("{a, c}", "{c, a}"),
        POLICIES.replace("seen", "looked").replace("quota", "limit").replace("readers", "callers_of_b"),
        "\n".join(reversed(POLICIES.strip().replace("@ingress\n", "@ingress ").splitlines()[:2]))
        + "\n"
        + "\n".join(POLICIES.strip().splitlines()[2:]),
    ],
    ids=[
        *("same", "comments", "order of arguments", "parentheses", "order of conditions"),
        *("a default written out", "order of names", "renamed", "a swap that commutes"),
    ],
)
def test_no_difference(head: str) -> None:
    assert compared(plan_of(SERVICES + POLICIES), plan_of(SERVICES + head)) == NOTHING


def test_lines_of_calls_and_services_may_move() -> None:
    base = SERVICES + POLICIES
    lines = SERVICES.strip().splitlines()
    head = "\n".join([lines[0], POLICIES, *reversed(lines[1:]), ""])
    assert compared(plan_of(base), plan_of(head)) == NOTHING


def test_a_split_into_files_is_no_difference() -> None:
    files = {"more.adm": POLICIES.encode()}
    split = dsl.load_text(SERVICES + '\nuse "more.adm"\n', "shop.adm", files.__getitem__)
    assert compared(plan_of(SERVICES + POLICIES), build(split, place(split), None)) == NOTHING


def test_the_path_of_a_file_is_no_difference() -> None:
    text = SERVICES + f"policy token = jwt({JWT}) on a -> b\n"
    moved = text.replace("keys.json", "keys/shop.json")
    files = {**FILES, "keys/shop.json": FILES["keys.json"]}
    program = dsl.load_text(moved, "shop.adm", files.__getitem__)
    assert compared(plan_of(text), build(program, place(program), None)) == NOTHING


def test_another_content_of_a_file_is_unclear() -> None:
    text = SERVICES + 'policy own = lua(script: "filter.lua") on a -> b\n'
    files = {**FILES, "filter.lua": b"function envoy_on_request(h) end\n"}
    program = dsl.load_text(text, "shop.adm", files.__getitem__)
    found = compared(plan_of(text), build(program, place(program), None))
    assert [(each.word, each.text) for each in found.weaker] == [(Word.UNCLEAR, "`own`: `script` has another content")]


def test_another_template_of_a_kind_is_unclear() -> None:
    text = SERVICES + f'{KINDS}\npolicy own = mine(value: "1") on a -> b\n'
    files = {**FILES, "mine.yaml": FILES["mine.yaml"].replace(b"x-mine", b"x-yours")}
    program = dsl.load_text(text, "shop.adm", files.__getitem__)
    (found,) = compared(plan_of(text), build(program, place(program), None)).weaker
    assert (found.word, found.text) == (Word.UNCLEAR, "the template of the kind `mine` has another content")


def test_renames() -> None:
    base = plan_of(SERVICES + POLICIES)
    head = plan_of(SERVICES + POLICIES.replace("seen", "looked").replace("quota", "limit"))
    assert renames(base, head) == (Rename("quota", "limit"), Rename("seen", "looked"))


def test_a_partner_has_to_be_unique() -> None:
    base = plan_of(SERVICES + "policy seen = request_count() on a -> b\n")
    twice = "policy one = request_count() on a -> b\npolicy two = request_count() on a -> b\n"
    head = plan_of(SERVICES + twice)
    assert renames(base, head) == ()
    assert [each.word for each in compared(base, head).weaker] == [Word.LOST]


def test_a_policy_that_does_something_else_is_no_rename() -> None:
    base = plan_of(SERVICES + "policy seen = request_count() on a -> b\n")
    head = plan_of(SERVICES + "policy looked = request_count() on c -> b\n")
    assert renames(base, head) == ()


def test_a_renamed_policy_keeps_its_order() -> None:
    base = plan_of(SERVICES + POLICIES)
    other = POLICIES.replace("quota", "limit").strip().replace("@ingress\n", "@ingress ").splitlines()
    head = plan_of(SERVICES + "\n".join([*other[:2], other[3].replace("@ingress ", "@ingress\n"), other[2], ""]))
    assert [(each.word, each.policy, each.other) for each in compared(base, head).weaker] == [
        (Word.REORDERED, "limit", "readers")
    ]


def test_a_random_program_does_not_differ_from_itself() -> None:
    for seed in range(60):
        spec = program(Random(seed))  # noqa: S311
        found = compiled_or_none(spec)
        if found is not None:
            assert compared(found.plan, compiled(spec.text(), spec.files()).plan) == NOTHING


def test_renames_and_swaps_that_commute_are_no_difference_in_random_programs() -> None:
    """What commutes is what `tests.fidelity.order` reads in the documents; it shares no code with the rules."""
    swapped = 0
    for seed in range(100, 200):
        random = Random(seed)  # noqa: S311
        spec = program(random)
        base = compiled_or_none(spec)
        if base is None or len({policy._replace(name="") for policy in spec.policies}) < len(spec.policies):
            continue  # two that are equal have no unique partner
        policies = [policy._replace(name=f"q{index}") for index, policy in enumerate(spec.policies)]
        placed = list(base.program.policies)
        for at in range(len(policies) - 1):
            if commute(*placed[at : at + 2]):
                policies[at : at + 2] = reversed(policies[at : at + 2])
                placed[at : at + 2] = reversed(placed[at : at + 2])
                swapped += 1
        other = replace(spec, policies=tuple(policies), calls=spec.calls[::-1])
        head = compiled(other.text(), other.files()).plan
        assert compared(base.plan, head) == NOTHING, f"seed {seed}"
    assert swapped > 20


def _another_name(random: Random, spec: Spec) -> Spec:
    """A party has another name everywhere, and its pods or addresses stay."""
    old = random.choice(list(spec.parties))
    new = spec.unused(f"{old}_new")
    renamed = spec.renamed(old, new)
    party = renamed.parties[new]
    return renamed if isinstance(party, External) else renamed.with_party(new, party.labelled(old))


def _renamed_parties() -> Iterator[tuple[Plan, Plan]]:
    for seed in range(200, 230):
        random = Random(seed)  # noqa: S311
        spec = program(random)
        other = _another_name(random, spec)
        base = compiled_or_none(spec)
        if base is not None:
            yield base.plan, compiled(other.text(), other.files()).plan


def test_another_name_of_a_party_is_no_difference_in_random_programs() -> None:
    pairs = list(_renamed_parties())
    assert len(pairs) > 8
    for base, head in pairs:
        assert compared(base, head) == NOTHING


def test_it_would_be_one_without_a_look_at_pods_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (detection, identity):
        monkeypatch.setattr(module, "in_names_of", lambda base, _head: base)
    assert any(compared(base, head).weaker for base, head in _renamed_parties())
