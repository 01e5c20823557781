"""What a transition consists of, as data."""

from __future__ import annotations

import json

import pytest

from admc.transition.as_json import to_json
from admc.transition.model import Phase, Placed
from admc.transition.steps import steps
from dsl import load_text
from solver.place import place

APP = """
app a
service s { http 80 }
service t { http 80 }
service d { http 80  tcp plain 90 }
call s -> d:80
call t -> d:plain
"""


def placed(text: str) -> Placed:
    program = load_text(APP.replace("http 80  tcp", "http web 80  tcp").replace("d:80", "d:web") + text)
    return Placed(program, place(program))


def test_nothing_that_moves_is_two_steps() -> None:
    old = placed("policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at ingress")
    new = placed("policy a = rate_limit(requests: 2, per: 1s) on s -> d:web\npin a at ingress")
    made = steps(old, new, b"k")
    assert [step.phase for step in made] == [Phase.FINAL, Phase.CLEAN]
    assert all(not part.toggles for step in made for part in step.parts.values())


def test_the_secret_is_of_one_transition_and_nobody_can_guess_it() -> None:
    text = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE"
    old, new = placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress"))
    there, back, other = steps(old, new, b"k"), steps(new, old, b"k"), steps(old, new, b"l")
    secrets = [next(iter(made[0].secrets)) for made in (there, back, other)]
    assert len(set(secrets)) == 3
    assert all(len(each) == 64 for each in secrets)
    assert not any(
        each in repr(step)
        for each, made in zip(secrets, (there, back, other), strict=True)
        for step in made
        if "Toggle" not in repr(step)
    )


@pytest.mark.parametrize(
    ("kind", "marked"),
    [
        ("deny()", False),
        ('set_request_header(name: "x-a", value: "b")', False),
        ('add_request_header(name: "x-a", value: "b")', True),
        ("fault_abort(status: 503, percent: 50%)", True),
        ("fault_delay(delay: 1ms)", True),
        ("rate_limit(requests: 1, per: 1s)", True),
        ("access_log()", True),
    ],
)
def test_a_marker_is_there_for_what_must_not_act_twice(kind: str, marked: bool) -> None:
    text = f"policy a = {kind} on s -> d:web\npin a at SIDE"
    made = steps(placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress")), b"k")
    assert [step.phase for step in made] == list(Phase)
    assert bool(made[0].secrets) is marked


def test_connections_carry_no_marker_and_the_plan_says_so() -> None:
    text = "policy a = connection_rate_limit(connections: 1, per: 1s) on t -> d:plain\npin a at SIDE"
    made = steps(placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress")), b"k")
    said = [reason for step in made for reason in step.reasons]
    assert any("meet it twice" in reason for reason in said)
    for step in made:
        hosts = {entry for entry, part in step.parts.items() if part.placed.program.policies}
        # Never a gap: whoever holds it, somebody does.
        assert hosts & {"d", "t"}
        enforced = {
            side
            for part in step.parts.values()
            for decision in part.placed.placement.decisions
            for side in decision.sides
        }
        assert enforced


def test_services_that_are_to_be_intercepted_and_not_any_more() -> None:
    text = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE"
    made = {
        step.phase: step
        for step in steps(placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress")), b"k")
    }
    assert made[Phase.PREPARE].intercept == ("s",)
    assert made[Phase.PREPARE].rests == {"s": {"egress/d:80 at 80"}}
    assert not any(step.rests for phase, step in made.items() if phase is not Phase.PREPARE)
    assert made[Phase.CLEAN].release == ("d",)
    assert set(made[Phase.CLEAN].parts) == {"s"}


def test_what_comes_later_in_a_transition_is_asked_for_from_the_beginning() -> None:
    text = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE\n"
    old = placed("service e { http 80 }\ncall t -> e\n" + text.replace("SIDE", "ingress"))
    comes = "service e { http 80 }\ncall t -> e\npolicy b = access_log() on t -> e\npin b at egress\n"
    new = placed(comes + text.replace("SIDE", "egress"))
    made = {step.phase: step for step in steps(old, new, b"k")}
    assert "t" not in made[Phase.PREPARE].parts
    assert made[Phase.PREPARE].intercept == ("s", "t")
    assert set(made[Phase.PREPARE].redirected) == {"d", "s", "t"}
    # Nothing is let go of that could depend on it.
    assert set(made[Phase.PREPARE].rests) == {"s"}


def test_a_policy_that_moves_and_changes_meets_each_request_in_one_version() -> None:
    old = placed('policy a = add_request_header(name: "x-a", value: "old") on s -> d:web\npin a at ingress')
    new = placed('policy a = add_request_header(name: "x-a", value: "new") on s -> d:web\npin a at egress')
    made = {step.phase: step for step in steps(old, new, b"k")}
    prepare = made[Phase.PREPARE]
    assert [policy.arguments["value"] for policy in prepare.parts["d"].placed.program.policies] == ["old"]
    assert [policy.arguments["value"] for policy in prepare.parts["s"].placed.program.policies] == ["new"]


def test_a_renamed_policy_that_moves_leaves_no_gap() -> None:
    old = placed('policy a = add_request_header(name: "x-a", value: "1") on s -> d:web\npin a at egress')
    new = placed('policy b = add_request_header(name: "x-a", value: "1") on s -> d:web\npin b at ingress')
    made = {step.phase: step for step in steps(old, new, b"k")}
    receivers = made[Phase.RECEIVERS]
    assert receivers.parts["d"].toggles["ingress/80"].met == {"b"}
    assert receivers.parts["s"].toggles["egress/d:80"].off == set()
    assert made[Phase.RELEASE].parts["s"].toggles["egress/d:80"].off == {"a", "a~old"}


def test_services_may_come_and_go() -> None:
    old = placed("policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at ingress")
    program = load_text(
        "app a\nservice d { http 80 }\nservice n { http 80 }\ncall n -> d\n"
        "policy a = rate_limit(requests: 1, per: 1s) on n -> d\npin a at egress\n"
    )
    made = steps(old, Placed(program, place(program)), b"k")
    assert [step.phase for step in made] == list(Phase)
    assert set(made[-1].parts) == {"n"}


def test_a_service_that_the_new_program_does_not_have_holds_nobody_up() -> None:
    old = placed("policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at ingress")
    program = load_text(
        "app a\nservice d { http 80 }\nservice n { http 80 }\ncall n -> d\n"
        "policy a = rate_limit(requests: 1, per: 1s) on n -> d\npin a at egress\n"
    )
    after = Placed(program, place(program))
    for step in steps(after, old, b"k"):
        assert "n" not in step.awaits
        assert "n" in step.leaves


def test_what_is_dropped_is_kept_for_connections_that_are_older() -> None:
    text = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at ingress"
    (final, clean) = steps(placed(text), placed(""), b"k")
    assert (final.awaits, final.leaves, final.drain) == ((), ("d",), True)
    assert (clean.awaits, clean.leaves) == ((), ("d",))


def test_steps_can_be_printed_without_their_secrets() -> None:
    text = "policy a = rate_limit(requests: 1, per: 1s) on s -> d:web\npin a at SIDE"
    made = steps(placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress")), b"k")
    document = {step["phase"]: step for step in to_json(made)}
    assert next(iter(made[0].secrets)) not in json.dumps(document)
    policy = {"policy": "a", "old": False}
    assert document["senders"]["adms"] == [
        {
            "service": "d",
            "hops": [{"hop": "ingress/80", "policies": [{**policy, "holds": "unless_marked"}], "marks": False}],
        },
        {"service": "s", "hops": [{"hop": "egress/d:80", "policies": [{**policy, "holds": "always"}], "marks": True}]},
    ]
    assert document["clean"]["release"] == ["d"]
