"""What a program says about NetworkPolicies: its statements, `accept drop`, `@network` and `pin NAME at network`."""

from __future__ import annotations

import pytest

import dsl
from dsl.kinds.prelude import kinds
from dsl.program import Place, Reliance
from tests.dsl.programs import FILES, codes, findings, load

HEAD = """app shop
external internet
service web, api { http 80 }
service db { tcp 5432 }
service agent { http 9100  host_network }
call internet -> web
call web -> api
call api -> db
"""
ENFORCED = "network_policies enforced\n"
ACCEPTED = "accept host_network\n"
GUARD = "policy only = allow(callers: [api]) on * -> db"
OWN = '@ingress\nkind own() for http template "own.yaml"\n'


# ---- statements ----


def test_a_program_states_nothing_by_itself() -> None:
    program = load(HEAD)
    assert (program.network_policies, program.accepts_host_network) == (None, None)


def test_statements_keep_their_place() -> None:
    program = load(HEAD + ENFORCED + ACCEPTED)
    assert program.network_policies is not None
    assert program.accepts_host_network is not None
    assert (program.network_policies.text, program.network_policies.line) == ("network_policies enforced", 9)
    assert (program.accepts_host_network.text, program.accepts_host_network.line) == ("accept host_network", 10)


def test_a_used_file_may_make_the_statements() -> None:
    program = load(HEAD + 'use "cluster.adm"\n', {**FILES, "cluster.adm": (ENFORCED + ACCEPTED).encode()})
    assert program.network_policies is not None
    assert program.accepts_host_network is not None
    assert program.network_policies.source.path == program.accepts_host_network.source.path == "cluster.adm"


@pytest.mark.parametrize(("line", "code"), [(ENFORCED, "ADM121"), (ACCEPTED, "ADM122")])
def test_a_second_statement_names_the_first(line: str, code: str) -> None:
    (finding,) = findings(HEAD + line + line)
    assert finding.code == code
    assert finding.span is not None
    assert (finding.span.line, finding.related[0].span.line) == (10, 9)


@pytest.mark.parametrize(("line", "code"), [(ENFORCED, "ADM121"), (ACCEPTED, "ADM122")])
def test_a_second_statement_in_a_used_file_names_the_first(line: str, code: str) -> None:
    (finding,) = findings(HEAD + line + 'use "cluster.adm"\n', {**FILES, "cluster.adm": line.encode()})
    assert finding.code == code
    assert finding.span is not None
    assert (finding.span.source.path, finding.related[0].span.source.path) == ("cluster.adm", "policies.adm")


def test_nothing_to_accept_is_a_note_since_a_cluster_may_show_it() -> None:
    program = load("app shop\nservice web { http 80 }\n" + ACCEPTED)
    assert program.warnings == ()
    assert [note.code for note in program.notes] == ["ADM123"]
    assert load(HEAD + ACCEPTED).notes == ()


@pytest.mark.parametrize(
    "lines",
    [
        "network_policies",
        "network_policies enabled",
        "network_policies enforced enforced",
        'network_policies "enforced"',
        "accept",
        "accept drop",
        "accept host_network drop",
        "accept untrusted",
        f"{GUARD} accept",
        f"{GUARD} accept host_network",
        f"{GUARD} accept drop drop",
        f"{GUARD} drop",
        'policy p = deny() on * -> api accept drop when path == "/a"',
        "policy p = deny() accept drop on * -> api",
        f"{GUARD}\n  accept drop",
    ],
)
def test_incomplete_and_misplaced_words(lines: str) -> None:
    assert codes(f"{HEAD}{lines}\n") == ["ADM001"]


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (f"{GUARD}\naccept drop", "stands at the end of its policy"),
        (f"{GUARD} accept host_network", "a statement of its own"),
        ('policy p = deny() on * -> api accept drop when path == "/a"', "without a match"),
    ],
)
def test_misplaced_words_have_hints(lines: str, hint: str) -> None:
    (finding,) = findings(f"{HEAD}{lines}\n")
    assert hint in (finding.hint or "")


def test_a_statement_ends_an_incomplete_one() -> None:
    assert codes(HEAD + "policy p = deny() on * ->\n" + ENFORCED + ENFORCED) == ["ADM001", "ADM121"]
    assert codes(HEAD + "call api -> db,\n" + ACCEPTED + ACCEPTED) == ["ADM001", "ADM122"]


def test_the_words_remain_names_of_services() -> None:
    program = load(
        "app x\nservice web, accept, drop, enforced, network_policies { http 80 }\n"
        "call web ->\n  accept,\n  network_policies, drop,\n  enforced\n"
        "policy a = deny() on * -> drop,\n  accept accept drop\n"
        "policy b = deny() on accept except accept -> network_policies\n"
    )
    assert len(program.calls) == 4
    assert program.policies[0].destinations == ("accept", "drop")
    assert program.policies[0].accepts_drop is not None
    assert program.policies[1].accepts_drop is None


def test_other_names_of_the_statement_have_a_hint() -> None:
    (finding,) = findings(HEAD + "network_plugin calico\n")
    assert "network_policies enforced" in (finding.hint or "")


# ---- accept drop ----


def test_a_policy_keeps_the_place_of_its_accept_drop() -> None:
    for head in (HEAD, HEAD + ENFORCED):
        policy = load(f"{head}{GUARD} accept drop\n").policies[0]
        assert policy.accepts_drop is not None
        assert policy.accepts_drop.text == "accept drop"
        assert policy.span.text == f"{GUARD} accept drop"
    assert load(f"{HEAD}{GUARD}\n").policies[0].accepts_drop is None


DENY = "policy p = deny() on * -> api"


@pytest.mark.parametrize(
    ("lines", "reasons"),
    [
        ("policy p = request_count() on * -> api", ["a NetworkPolicy cannot do what `request_count` does"]),
        ("@ingress\npolicy p = request_count() on web -> api", ["a NetworkPolicy cannot do what `request_count` does"]),
        (f"{OWN}policy p = own() on * -> api", ["a NetworkPolicy cannot do what `own` does"]),
        (f'{DENY} when header("x") == "a"', ["the policy has a match"]),
        (f"@ingress\n{DENY}", ["`@ingress` keeps the policy at an ADM"]),
        (f"@ingress @egress\n{DENY}", ["`@ingress` keeps the policy at an ADM"]),
        ("policy p = deny() on web -> api", ["`web` is not every caller"]),
        ("policy p = deny() on * except web -> api", ["`* except web` is not every caller"]),
        ("policy p = deny() on {web, api, db, agent, internet} -> api", ["is not every caller"]),
        (
            '@egress\npolicy p = deny() on web -> api when header("x") == "a"',
            ["`@egress` keeps the policy at an ADM", "the policy has a match", "`web` is not every caller"],
        ),
    ],
)
def test_accept_drop_where_it_cannot_be_used(lines: str, reasons: list[str]) -> None:
    errors = findings(f"{HEAD}{lines} accept drop\n")
    assert [error.code for error in errors] == ["ADM433"] * len(reasons)
    for error, reason in zip(errors, reasons, strict=True):
        assert error.message.startswith("`p` cannot accept a drop: ")
        assert error.message.endswith(reason)
        assert error.span is not None
        assert error.span.text == "accept drop"
        assert error.cause
        assert "remove `accept drop`" in (error.hint or "")
        assert error.related


def test_the_kinds_that_can_are_named() -> None:
    (finding,) = findings(HEAD + "policy p = request_count() on * -> api accept drop\n")
    assert finding.cause == "only `allow` and `deny` can be left to a NetworkPolicy"


# ---- places ----


def test_the_network_lies_between_the_sides_and_has_no_adm() -> None:
    assert [place.position for place in (Place.EGRESS, Place.NETWORK, Place.INGRESS)] == [0, 1, 2]
    assert Place.NETWORK.sides == ()
    assert Place.NETWORK.ends == (Place.NETWORK,)
    assert Place.NETWORK.sees_undeclared
    assert Place.NETWORK.relies_on == {Reliance.CLOSED}


def test_two_built_in_kinds_can_be_in_the_network() -> None:
    able = [name for name, declared in kinds().items() if declared.kind.network]
    assert able == ["allow", "deny"]
    assert all(Place.NETWORK in kinds()[name].kind.places for name in able)
    assert Place.NETWORK not in kinds()["jwt"].kind.places


@pytest.mark.parametrize(
    ("policy", "possible"),
    [
        (GUARD, True),
        (DENY, True),
        ("policy p = deny() on *, web -> api", True),
        ("policy p = deny() on * -> *", True),
        ("policy p = deny() on * -> api:80", True),
        ("policy p = deny() on * except internet -> api", False),
        ("policy p = deny() on web -> api", False),
        (f'{DENY} when header("x") == "a"', False),
        (f"@ingress {DENY}", False),
        (f"@ingress @egress {DENY}", False),
        ("policy p = request_count() on * -> api", False),
    ],
)
def test_the_places_of_a_policy(policy: str, possible: bool) -> None:
    without = load(f"{HEAD}{policy}\n").policies[0].places
    with_statement = load(f"{HEAD}{ENFORCED}{policy}\n").policies[0].places
    assert Place.NETWORK not in without
    assert with_statement == without | ({Place.NETWORK} if possible else set())


def test_the_order_of_the_statement_means_nothing() -> None:
    before, after = load(HEAD + ENFORCED + DENY), load(f"{HEAD}{DENY}\n{ENFORCED}")
    assert before.policies[0].places == after.policies[0].places


# ---- @network ----


@pytest.mark.parametrize("annotations", ["@network", "@ingress @network", "@network @guard @egress"])
def test_a_kind_of_a_program_cannot_be_in_the_network(annotations: str) -> None:
    (finding,) = findings(f'{HEAD}{annotations}\nkind own() for http template "own.yaml"\n')
    assert finding.code == "ADM313"
    assert finding.span is not None
    assert finding.span.text == "@network"
    assert "NetworkPolicy" in (finding.cause or "")


def test_the_annotation_is_not_offered() -> None:
    (finding,) = findings(f'{HEAD}@ingress @netwrk\nkind own() for http template "own.yaml"\n')
    assert finding.code == "ADM301"
    assert "@network" not in (finding.hint or "")


def test_a_policy_is_not_narrowed_to_the_network() -> None:
    (finding,) = findings(f"{HEAD}{ENFORCED}@network\n{DENY}\n")
    assert finding.code == "ADM301"
    assert finding.hint == "write `pin p at network`"


# ---- pins ----


@pytest.mark.parametrize("policy", [DENY, "policy p = request_count() on * -> api"])
def test_a_pin_at_the_network(policy: str) -> None:
    (pin,) = load(f"{HEAD}{policy}\npin p at network\n").pins
    assert (pin.policy, pin.destination, pin.place) == ("p", "api", Place.NETWORK)


def test_an_unknown_place_lists_all_three() -> None:
    (finding,) = findings(f"{HEAD}{GUARD}\npin only at somewhere\n")
    assert finding.code == "ADM411"
    assert finding.hint == "write `at ingress`, `at egress` or `at network`"
    (finding,) = findings(f"{HEAD}{GUARD}\npin only at netwrok\n")
    assert finding.hint == "did you mean `network`?"


# ---- layout ----


def test_the_words_are_formatted() -> None:
    text = (
        "app x\nnetwork_policies    enforced // by the plugin\naccept   host_network\n"
        "policy a = deny() on * -> b   accept   drop // yes\n"
        "policy long = allow(callers:[c]) on * -> b accept drop\npin a   at network\n"
    )
    formatted = dsl.format_text(text)
    assert formatted == (
        "app x\nnetwork_policies enforced  // by the plugin\naccept host_network\n"
        "policy a    = deny()              on * -> b accept drop  // yes\n"
        "policy long = allow(callers: [c]) on * -> b accept drop\npin a at network\n"
    )
    assert dsl.format_text(formatted) == formatted


def test_a_line_is_not_broken_before_accept() -> None:
    names = ", ".join(f"accept_{index}" for index in range(12))
    text = f"policy p = deny() on * -> {names}, accept accept drop\n"
    formatted = dsl.format_text("app x\n" + text)
    assert "accept accept drop" in formatted
    assert dsl.format_text(formatted) == formatted
