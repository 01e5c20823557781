"""A guard in the network, as `admc compile`, `admc explain` and a server show it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import dsl
from admc.compile.plan.read import from_json
from dsl.program import Place
from solver.place import place as solve
from solver.placement import PlacementError
from tests.cli.command import Admc

PROGRAM = """app m
network_policies enforced
service web { http 80 }
service db { tcp 5432  no adm }
call web -> db
policy only = allow(callers: [web]) on * -> db
"""
RANGES = 'external office { cidr "10.9.0.0/16" }\nexternal lab { cidr "10.9.5.0/24" }\n'
WITHOUT = PROGRAM.replace("network_policies enforced\n", "")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "p.adm"
    path.write_text(PROGRAM)
    return path


def test_the_plan_has_no_adm_and_says_what_it_relies_on(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Admc(capfd)("compile", program)
    assert run.code == 0
    assert "none needs an ADM" in run.out
    assert "enforced by these NetworkPolicies alone: only at db" in run.out
    content = program.with_name("p.plan.json").read_bytes()
    plan = from_json(content)
    (row,) = plan.enforcements
    assert (row.source, row.place, row.service) == ("web", Place.NETWORK, None)
    (decision,) = plan.decisions
    assert (decision.place, decision.closes) == (Place.NETWORK, True)
    assert {refused.place: refused.reason for refused in decision.not_taken} == {
        Place.INGRESS: "R8",
        Place.EGRESS: "free",
    }
    assert [closed.destination for closed in plan.closed] == ["db"]
    texts = " ".join(assumption.text for assumption in plan.assumptions)
    for word in (
        "enforces the NetworkPolicy",
        "no other NetworkPolicy",
        "labels",
        "own network",
        "older than",
    ):
        assert word in texts
    assert Admc(capfd)("compile", "--check", program).code == 0
    assert json.loads(content)["enforcements"][0]["service"] is None


def test_the_plan_says_what_an_admitted_external_relies_on(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A NetworkPolicy admits whatever comes from its addresses, a pod as well."""
    text = PROGRAM.replace("callers: [web]", "callers: [web, office]")
    assert text != PROGRAM
    program.write_text(f'{text}\nexternal office {{ cidr "10.9.0.0/16" }}\n')
    assert Admc(capfd)("compile", program).code == 0
    plan = from_json(program.with_name("p.plan.json").read_bytes())
    texts = [assumption.text for assumption in plan.assumptions if assumption.about == ("db",)]
    assert [
        text for text in texts if text.startswith("connections of an external arrive with its addresses, which no pod")
    ]


def test_explain_says_what_the_statement_would_save(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program.write_text(WITHOUT)
    for subject in ((), ("only",)):
        assert "`network_policies enforced` would save 1 ADM" in " ".join(
            Admc(capfd)("explain", program, *subject).out.split()
        )
    program.write_text(PROGRAM)
    run = Admc(capfd)("explain", program, "only")
    assert "would save" not in run.out
    assert "in the network, by its NetworkPolicy alone" in run.out
    assert "its NetworkPolicy enforces its policies" in Admc(capfd)("explain", program, "db").out


@pytest.mark.parametrize(
    ("objective", "place"),
    [("cpu", Place.INGRESS), ("cpu, then adms", Place.NETWORK), ("adms, then cpu", Place.NETWORK)],
)
def test_closed_decides_before_the_adms_that_a_program_does_not_name(
    objective: str, place: Place, program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without a profile, `cpu` decides nothing."""
    program.write_text(PROGRAM.replace("  no adm", "") + f"objective minimize {objective}\n")
    assert Admc(capfd)("compile", program).code == 0
    (decision,) = from_json(program.with_name("p.plan.json").read_bytes()).decisions
    assert decision.place is place


def test_explain_lists_what_networkpolicies_alone_enforce(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("no adm }", "no adm }\nservice cache { tcp 6379 }").replace(
        "-> db\npolicy", "-> db, cache\npolicy"
    )
    program.write_text(text + "policy few = allow(callers: [web]) on * -> {db, cache}\n")
    said = " ".join(Admc(capfd)("explain", program).out.split())
    assert "enforced by NetworkPolicies alone: - at `cache`: `few` - at `db`: `only` and `few` without" in said


@pytest.mark.parametrize(
    ("statement", "places"),
    [("network_policies enforced\n", "at ingress, in the network or at egress"), ("", "at either side")],
)
def test_a_reason_names_all_places_that_were_free(
    statement: str, places: str, program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each of them would do, and `db` has an ADM anyway."""
    log = "@ingress\npolicy log = access_log() on * -> db\n"
    program.write_text(PROGRAM.replace("  no adm", "").replace("network_policies enforced\n", statement) + log)
    assert f"it may stand {places}, and `log` needs an ADM here anyway" in " ".join(
        Admc(capfd)("explain", program).out.split()
    )


def test_explain_is_silent_where_nothing_would_be_saved(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program.write_text(WITHOUT.replace(" on * ->", " on * except web ->").replace("[web]", "[]"))
    assert "would save" not in Admc(capfd)("explain", program).out


PIN = "remove the pin, or "


@pytest.mark.parametrize(
    ("change", "sentence", "remedy"),
    [
        (
            ("network_policies enforced\n", ""),
            "does not say `network_policies enforced`",
            PIN + "say `network_policies enforced`",
        ),
        (
            ("on * -> db", "on * except db -> db"),
            "cannot leave out some of them",
            PIN + "let the sources of `only` be `*` without an exception",
        ),
        (("tcp 5432", "http 5432"), None, ""),
        (
            ("db { tcp 5432", "db { tcp 5432  tcp again 5433 -> 5432"),
            "have one target",
            "remove `no adm` from `db`; and remove the pin",
        ),
        (
            ("[web]", "[web, outside]"),
            "whose addresses are not known",
            PIN + "give `outside` a `cidr`",
        ),
        (
            ("[web]", "[outside]"),
            "whose addresses are not known",
            PIN + "write `accept drop` at the end of `only` and give `outside` a `cidr`",
        ),
        (
            ("service web { http 80 }", "service web { http 80 }\nservice n { http 1  host_network }"),
            "on the host's network",
            PIN + "say `accept host_network`",
        ),
        (("[web]", "[]"), "refuses the declared call from `web`", PIN + "write `accept drop` at the end of `only`"),
        (("allow(callers: [web])", "access_log()"), "judges more than the caller", "remove the pin\n"),
        # A NetworkPolicy admits the small range inside the large one, too.
        (
            ("[web]", "[web, office]"),
            "would admit `lab` inside it",
            PIN + "take the addresses of `lab` out of the `cidr` of `office`",
        ),
        (("policy only", "@egress\npolicy only"), "narrowed to egress", "remove `@egress` from `only`"),
        (
            ("tcp 5432  no adm", "http 5432  http again 5433 -> 5432"),
            "have one target",
            PIN + "let `only` be for all ports of `db`",
        ),
    ],
)
def test_a_pin_to_the_network_that_cannot_be_kept(
    change: tuple[str, str], sentence: str | None, remedy: str, program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = (
        PROGRAM.replace(*change)
        .replace("-> db\npolicy", "-> db:5432\npolicy")
        .replace("-> db\n@egress", "-> db:5432\n@egress")
        .replace("-> db\n", "-> db:5432\n")
    )
    if "for all ports" in remedy:
        text += "call web -> db:5433\n"
    program.write_text(f"{text}external outside\n{RANGES}pin only at network\n")
    run = Admc(capfd)("compile", program)
    assert run.code == (0 if sentence is None else 3), run.err
    assert sentence is None or sentence in " ".join(run.err.split())
    assert f"to free it: {remedy}" in run.err or sentence is None, run.err


def test_a_match_keeps_a_policy_out_of_the_network(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = PROGRAM.replace("tcp 5432", "http 5432").replace("-> db\n", '-> db when method == "PUT"\n')
    program.write_text(text.replace("call web -> db when", "call web -> db  // when") + "pin only at network\n")
    run = Admc(capfd)("compile", program)
    assert run.code == 3
    assert PIN + "remove the `when` of `only`" in run.err


DROPPING = """app n
network_policies enforced
service a, s { http 8080 }
service b, c { http 8080 }
call a -> b, c
{}policy p = allow(callers: [s]) on * -> c accept drop
pin p at network
"""
SPLIT = "policy t = split(to: c, percent: 10%) on a -> b\n"


@pytest.mark.parametrize(
    ("lines", "may_drop"),
    [
        ("", True),
        ("policy r = retry(attempts: 3) on a -> b\n", True),
        ("policy r = retry(attempts: 3) on a -> c\n", False),
        ("policy r = retry(attempts: 3, on: [connect_failure]) on a -> c\n", False),
        ("policy r = retry(attempts: 3, on: [resource_exhausted]) on a -> c\n", True),
        ("policy r = outlier_detection() on a -> c\n", False),
        # A split sends requests elsewhere with the retries of their own call.
        (SPLIT, False),
    ],
)
def test_a_dropped_call_is_neither_repeated_nor_counted(lines: str, may_drop: bool) -> None:
    program = dsl.load_text(DROPPING.replace("{}", lines))
    if may_drop:
        assert Place.NETWORK in {decision.place for decision in solve(program).decisions}
        return
    with pytest.raises(PlacementError) as raised:
        solve(program)
    assert "repeats, counts or redirects" in " ".join(reason.message for reason in raised.value.reasons)
