"""What moves, what is swapped and when, and what has no safe way."""

from __future__ import annotations

import re

import pytest

from admc.serve.rollout.captures import captures
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.enforcement import Frame
from admc.serve.rollout.model import Placed, Plan, Step, StepName
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.errors import EmitError
from solver.place import place
from tests.serve.rollout.walks import Judge, Leg, walk

APP = """
app diff
service s, t { http 80 }
service d, e, f { http 80 }
call s -> d, e, f
call t -> d
call d -> e
"""
SENDS = "policy f = mirror(to: e) on s -> d\n"
MOVED = "policy m = request_count() on s -> e\npin m at SIDE\n"


def placed(text: str, app: str = APP) -> Placed:
    program = load_text(app + text)
    return Placed(program, place(program))


def pinned(text: str, *sides: str) -> Placed:
    for number, side in enumerate(sides):
        text = text.replace(f"SIDE{number}", side)
    return placed(text)


def refused(old: Placed, new: Placed) -> str:
    with pytest.raises(EmitError) as caught:
        steps(old, new, b"key")
    (found,) = caught.value.diagnostics
    assert found.code == "ADM855"
    assert found.hint is not None
    assert "two plans" in found.hint
    return found.message


def plans(step: Step, service: str) -> dict[str, Plan | None]:
    """The hops of an ADM, each with the plan whose filter chain it has."""
    return {part.hop.name: part.plan for part in step.parts.get(service, ())}


def judged(old: Placed, new: Placed) -> None:
    for leg in (Leg(1), Leg(1, StepName.RECEIVERS), Leg(1, aborted=True)):
        Judge(walk([old, new], [leg])).judge()


def test_only_what_changes_at_both_ends_moves() -> None:
    one = "policy a = request_count() on s -> d\npolicy b = access_log() on s -> d\npin a at SIDE0\npin b at SIDE1\n"
    here, there = pinned(one, "ingress", "egress"), pinned(one, "egress", "egress")
    assert Diff(here, there).moved == {"s", "d"}
    fewer = placed("policy b = access_log() on s -> d\npin b at egress\n")
    assert not Diff(here, fewer).moved
    assert Diff(here, fewer).concerned == {"d"}


def test_all_senders_to_a_port_that_moves_take_part() -> None:
    """The marker of a sender whose own policies stay has to be set, too."""
    text = "policy m = request_count() on s -> d\npolicy k = access_log() on t -> d\npin m at SIDE0\npin k at egress\n"
    old, new = pinned(text, "ingress"), pinned(text, "egress")
    assert Diff(old, new).concerned == {"s", "t", "d"}
    senders = steps(old, new, b"key")[StepName.SENDERS]
    assert senders.services == {"s", "t", "d"}
    assert senders.overlays["t", "egress/d:80"].marks


@pytest.mark.parametrize(
    "other", ['m = deny() on s -> d when path == "/b"', 'n = add_request_header(name: "x", value: "1") on s -> d']
)
@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_a_marker_that_is_lost_means_both_ends_and_never_neither(sides: tuple[str, str], other: str) -> None:
    """In each step, also where the other end is one step behind or ahead; and whether the policy keeps its name, or
    another one takes its place."""
    old = placed(f'policy m = deny() on s -> d when path == "/a"\npin m at {sides[0]}\n')
    new = placed(f"policy {other}\npin {other[0]} at {sides[1]}\n")
    overlays = [step.overlays for step in steps(old, new, b"key").values()]
    where = {Plan.OLD: sides[0], Plan.NEW: sides[1]}
    lost = set()
    for number, sent in enumerate(overlays):
        for received in overlays[max(0, number - 1) : number + 2]:
            sender, receiver = sent["s", "egress/d:80"], received["d", "ingress/80"]
            leaving = where[sender.unmarked] == "egress"
            unmarked = leaving + (where[receiver.unmarked] == "ingress")
            if sender.marks:
                assert receiver.marked is not None
                assert leaving + (where[receiver.marked] == "ingress") == 1
                lost.add(unmarked)
            else:
                assert unmarked == 1
    assert lost == {1, 2}


def test_names_that_two_policies_exchange_say_nothing_about_the_way() -> None:
    text = "policy A = access_log() on s -> d\npolicy B = request_count() on s -> d\npin A at SIDE0\npin B at SIDE1\n"
    old = pinned(text.replace("A", "a").replace("B", "b"), "ingress", "egress")
    new = pinned(text.replace("A", "b").replace("B", "a"), "egress", "ingress")
    assert "while" in refused(old, new)


OWN = """
type: envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
config: {mutations: {request_mutations: [{append: {header: {key: x-own, value: "VALUE"}}}]}}
"""


def test_a_scope_and_a_template_are_compared_where_they_count() -> None:
    text = "policy m = request_count() on SCOPE -> d\npin m at SIDE\n"
    for side, changed in (("ingress", {"d", "t"}), ("egress", {"t"})):
        one, other = (placed(text.replace("SCOPE", scope).replace("SIDE", side)) for scope in ("s", "{s, t}"))
        assert Diff(one, other).concerned == changed - ({"t"} if side == "ingress" else set())
    kind = '@ingress\n@effect(counts)\nkind own() for http template "own.yaml"\npolicy o = own() on s -> d\n'
    plans = []
    for value in "12":
        template = OWN.replace("VALUE", value).encode()
        program = load_text(APP + kind, read=lambda _, template=template: template)
        plans.append(Placed(program, place(program)))
    assert Diff(*plans).concerned == {"d"}
    assert not Diff(plans[0], plans[0]).concerned


def test_another_type_or_stage_of_a_kind_is_a_change() -> None:
    template = OWN.replace("VALUE", "${n}").encode()
    found = []
    for annotation, type_, value in (
        ("@egress", "int", "1"),
        ("@egress", "bool", "true"),
        ("@egress(upstream)", "int", "1"),
    ):
        kind = f'{annotation}\n@effect(counts)\nkind own(n: {type_}) for http template "own.yaml"\n'
        program = load_text(f"{APP}{kind}policy o = own(n: {value}) on s -> d\n", read=lambda _: template)
        found.append(Placed(program, place(program)))
    assert not Diff(found[0], found[0]).concerned
    for changed in found[1:]:
        assert Diff(found[0], changed).concerned == {"s"}


def test_an_and_that_becomes_an_or_is_a_change() -> None:
    text = 'policy m = deny() on s -> d when path == "/a" OPERATOR header("x") == "b"\npin m at ingress\n'
    conjunction, disjunction = (placed(text.replace("OPERATOR", operator)) for operator in ("and", "or"))
    assert Diff(conjunction, disjunction).concerned == {"d"}


def test_arguments_alone_move_nothing() -> None:
    text = "policy a = rate_limit(requests: N, per: 1s) on s -> d\npolicy b = fault_delay(delay: Nms) on s -> d\n"
    text += "pin a at egress\npin b at ingress\n"
    assert not Diff(placed(text.replace("N", "5")), placed(text.replace("N", "6"))).moved
    match = text.replace("N", "5").replace("s -> d\n", 's -> d when path == "/p"\n', 2)
    assert Diff(placed(text.replace("N", "5")), placed(match)).moved


def test_an_order_that_changes_at_both_ends_moves() -> None:
    headers = [f'policy {name} = add_request_header(name: "x-h", value: "{name}") on s -> d\n' for name in "abxy"]
    pins = "pin a at egress\npin b at egress\npin x at ingress\npin y at ingress\n"
    old = placed("".join(headers) + pins)
    new = placed("".join((headers[1], headers[0], headers[3], headers[2])) + pins)
    assert Diff(old, new).moved
    judged(old, new)


def test_an_argument_and_a_side_may_change_at_once() -> None:
    text = 'policy a = add_request_header(name: "x-a", value: "N") on s -> d\npin a at SIDE\n'
    old = placed(text.replace("N", "1").replace("SIDE", "ingress"))
    new = placed(text.replace("N", "2").replace("SIDE", "egress"))
    judged(old, new)
    judged(new, old)


def test_what_moves_both_ways_is_refused() -> None:
    text = "policy a = fault_delay(delay: 5ms) on s -> d\npolicy b = request_count() on s -> d\n"
    text += "pin a at SIDE0\npin b at SIDE1\n"
    old, new = pinned(text, "ingress", "egress"), pinned(text, "egress", "ingress")
    assert re.search("`a` goes to the senders of `d` while `b` comes to its ingress", refused(old, new))
    between = pinned(text, "egress", "egress")
    judged(old, between)
    judged(between, new)


@pytest.mark.parametrize("forward", ["mirror(to: e)", "split(to: e, percent: 5%)"])
def test_what_is_sent_to_a_destination_that_moves_begins_at_the_end_and_stops_at_the_beginning(forward: str) -> None:
    sends = f"policy f = {forward} on s -> d\n"
    with_it = placed(sends + MOVED.replace("SIDE", "ingress"))
    without = placed(MOVED.replace("SIDE", "egress"))
    begins = steps(without, with_it, b"key")
    assert all("egress/d:80" not in plans(step, "s") for step in begins.values())
    stops = steps(with_it, without, b"key")
    assert all("egress/d:80" not in plans(step, "s") for step in stops.values())
    judged(with_it, without)
    judged(without, with_it)


def test_other_changes_at_that_destination_wait_too() -> None:
    counts = "policy c = request_count() on s -> d\npin c at egress\n"
    old = placed(counts + MOVED.replace("SIDE", "egress"))
    new = placed("policy f = mirror(to: e) on s -> d\n" + MOVED.replace("SIDE", "ingress"))
    found = steps(old, new, b"key")
    assert {plans(step, "s")["egress/d:80"] for step in found.values()} == {Plan.OLD}
    assert any("`d` change with the new plan" in reason for reason in found[StepName.PREPARE].reasons)
    judged(old, new)


def test_what_begins_or_stops_at_a_destination_that_moves_itself_is_refused() -> None:
    also = "policy q = request_count() on s -> d\npin q at SIDE0\n"
    old = placed(SENDS + (also + MOVED.replace("SIDE", "ingress")).replace("SIDE0", "ingress"))
    new = placed((also + MOVED.replace("SIDE", "egress")).replace("SIDE0", "egress"))
    assert "requests of its own to `e` for `f`" in refused(old, new)
    assert "requests of its own to `e` for `f`" in refused(new, old)
    # The way round.
    between = placed((also + MOVED).replace("SIDE0", "SIDE").replace("SIDE", "ingress"))
    judged(old, between)
    judged(between, new)


def test_what_is_sent_before_and_afterwards_is_no_obstacle() -> None:
    text = SENDS + 'policy x = deny() on s -> e when path == "PATH"\npin x at ingress\n'
    text += "policy m = request_count() on d -> e\npin m at SIDE\n"
    old = placed(text.replace("PATH", "/a").replace("SIDE", "ingress"))
    new = placed(text.replace("PATH", "/b").replace("SIDE", "egress"))
    assert Diff(old, new).moving == {("e", 80)}
    judged(old, new)
    judged(new, old)


def test_what_begins_waits_for_what_its_receiver_enforces_on_the_sender() -> None:
    text = 'policy x = deny() on s -> e when path == "PATH"\npin x at ingress\n'
    text += "policy m = request_count() on d -> e\npin m at SIDE\n"
    old = placed(text.replace("PATH", "/a").replace("SIDE", "ingress"))
    for path, waits in (("/b", True), ("/a", False)):
        new = placed(SENDS + text.replace("PATH", path).replace("SIDE", "egress"))
        found = steps(old, new, b"key")
        assert all(("egress/d:80" in plans(step, "s")) is not waits for step in found.values())
        judged(old, new)
        judged(new, old)


def test_one_that_stops_and_one_that_begins_at_one_destination_are_refused() -> None:
    both = MOVED + "policy n = request_count() on s -> f\npin n at OTHER\n"
    old = placed("policy g = mirror(to: e) on s -> d\n" + both.replace("SIDE", "ingress").replace("OTHER", "egress"))
    new = placed("policy g = mirror(to: f) on s -> d\n" + both.replace("SIDE", "egress").replace("OTHER", "ingress"))
    assert "requests of its own to `e` for `g`" in refused(old, new)


def test_a_port_that_changes_while_policies_change_sides_is_refused() -> None:
    text = "policy m = request_count() on s -> d\npin m at SIDE\n"
    app = APP.replace("service d, e, f { http 80 }", "service d { http 80 -> 8080 }\nservice e, f { http 80 }")
    number = app.replace("http 80 -> 8080", "http 81 -> 8080")
    old, new = placed(text.replace("SIDE", "ingress"), app), placed(text.replace("SIDE", "egress"), number)
    assert "a port of `d` changes" in refused(old, new)
    grpc = placed(text.replace("SIDE", "egress"), app.replace("service d { http", "service d { grpc"))
    assert "a port of `d` changes" in refused(old, grpc)
    both = text.replace("SIDE", "ingress") + "policy n = request_count() on s -> d\npin n at egress\n"
    other = placed(both, app.replace("8080", "9090"))
    assert "a port of `d` changes" in refused(placed(both, app), other)
    target = app.replace("8080", "9090")
    assert "a port of `d` changes" in refused(old, placed(text.replace("SIDE", "egress"), target))
    assert "a port of `d` changes" in refused(placed(text.replace("SIDE", "egress"), app), placed(both, target))
    for side in ("ingress", "egress"):
        one = text.replace("SIDE", side)
        assert not Diff(placed(one, app), placed(one, target)).moved
    assert not Diff(old, placed(text.replace("SIDE", "ingress"), number)).moved
    another = (
        app.replace("http 80 -> 8080", "http a 80 -> 8080  http b 82")
        .replace("-> d,", "-> d:a,")
        .replace("-> d\n", "-> d:a\n")
    )
    assert steps(old, placed(text.replace("SIDE", "egress").replace("s -> d", "s -> d:a"), another), b"key")
    both = text.replace("SIDE", "ingress") + "policy n = request_count() on s -> d\npin n at egress\n"
    assert not Diff(placed(both, app), placed(both, number)).moved


def test_a_service_that_only_one_plan_has_comes_and_goes() -> None:
    app = APP + "service n { http 80 }\ncall n -> d\ncall s -> n\n"
    text = "policy m = request_count() on * -> d\npin m at SIDE\n"
    there = (
        "policy k = request_count() on s -> n\npolicy l = access_log() on s -> n\npin k at egress\npin l at ingress\n"
    )
    small = placed(text.replace("SIDE", "ingress"))
    large = placed(text.replace("SIDE", "egress") + there, app)
    assert {"n", "s", "d"} <= Diff(small, large).moved
    judged(small, large)
    judged(large, small)


def test_the_marker_differs_by_destination_key_and_plans() -> None:
    text = "policy m = request_count() on s -> {d, e}\npin m at SIDE\n"
    old, new = placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress"))
    found = [steps(*ends, key)[StepName.PREPARE].secrets for ends in ((old, new), (new, old)) for key in (b"1", b"2")]
    assert [len(each) for each in found] == [2, 2, 2, 2]
    assert len(frozenset().union(*found)) == 8
    assert all(re.fullmatch("[0-9a-f]{64}", value) for each in found for value in each)


def test_a_quota_that_moves_is_said_to_have_a_second_bucket() -> None:
    text = "policy q = rate_limit(requests: 5, per: 1s) on s -> d\npin q at SIDE\n"
    old, new = placed(text.replace("SIDE", "ingress")), placed(text.replace("SIDE", "egress"))
    reasons = steps(old, new, b"key")[StepName.PREPARE].reasons
    assert "`q` moves from the ingress of `d` to the egress of all that call `d`" in reasons
    assert any("full bucket" in reason for reason in reasons)


def test_reasons_say_which_policies_move_and_which_limits_have_a_second_bucket() -> None:
    stays = "policy q = rate_limit(requests: 5, per: 1s) on s -> d\npin q at ingress\n"
    text = "policy NAME = request_count() on s -> d\npin NAME at SIDE\n"
    old = placed(text.replace("SIDE", "ingress").replace("NAME", "m") + stays)
    comes = "policy r = rate_limit(requests: 5, per: 1s) on t -> d\npin r at ingress\n"
    new = placed(text.replace("SIDE", "egress").replace("NAME", "m") + stays + comes)
    assert steps(old, new, b"key")[StepName.PREPARE].reasons == (
        "`m` moves from the ingress of `d` to the egress of all that call `d`",
        "`q` has a second bucket while policies move at the ingress of `d`",
    )
    matched = text.replace("s -> d", 's -> d when path == "/a"').replace("SIDE", "egress").replace("NAME", "m")
    assert "`m` moves" in steps(old, placed(matched), b"key")[StepName.PREPARE].reasons[0]
    renamed = placed(text.replace("SIDE", "egress").replace("NAME", "other") + stays)
    assert not any("moves" in reason for reason in steps(old, renamed, b"key")[StepName.PREPARE].reasons)


def test_two_ports_that_lead_to_one_target_are_two_for_senders() -> None:
    app = APP.replace(
        "service d, e, f { http 80 }", "service d { http a 80 -> 8080  http b 81 -> 8080 }\nservice e, f { http 80 }"
    )
    app = app.replace("call s -> d, e, f\ncall t -> d\n", "call s -> d:a, d:b, e, f\ncall t -> d:b\n")
    text = "policy m = request_count() on {s, t} -> d\npin m at SIDE\n"
    old, new = placed(text.replace("SIDE", "ingress"), app), placed(text.replace("SIDE", "egress"), app)
    assert Diff(old, new).moved == {"s", "t", "d"}
    for step in steps(old, new, b"key").values():
        assert plans(step, "s").keys() == {"egress/d:80", "egress/d:81"}
        senders, receivers = (
            {(service, f"egress/d:{port}") for service, port in (("s", 80), ("s", 81), ("t", 81))},
            {("d", "ingress/80"), ("d", "ingress/81")},
        )
        assert step.overlays.keys() == senders | receivers


def test_prepare_waits_for_redirection_of_what_moves() -> None:
    text = "policy m = request_count() on s -> d\npin m at SIDE\n"
    more = "policy o = request_count() on s -> f\npin o at ingress\n"
    for sides, needed in (
        (("ingress", "egress"), {"s": {"egress/d:80 at 80"}}),
        (("egress", "ingress"), {"d": {"ingress/80 at 80"}}),
    ):
        found = steps(placed(text.replace("SIDE", sides[0])), placed(text.replace("SIDE", sides[1]) + more), b"key")
        assert found[StepName.PREPARE].needs_redirection == needed
        assert not any(found[name].needs_redirection for name in StepName if name is not StepName.PREPARE)
        assert captures(found[StepName.PREPARE].merged).keys() == {"s", "d", "f"}


def test_connections_meet_the_policies_of_both_plans() -> None:
    app = APP.replace("service d, e, f { http 80 }", "service d { tcp 80 }\nservice e, f { http 80 }").replace(
        "call d -> e\n", ""
    )
    first = "policy g = connection_rate_limit(connections: 5, per: 1s) on s -> d\npin g at ingress\n"
    text = "policy m = access_log() on s -> d\npin m at SIDE\n"
    text += "policy p = allow(callers: [CALLERS]) on {s, t} -> d\npin p at ingress\n"
    text += "policy stays = deny() on t -> d\npin stays at ingress\n"
    old = placed(first + text.replace("CALLERS", "s").replace("SIDE", "ingress"), app)
    new = placed(text.replace("CALLERS", "s, t").replace("SIDE", "egress"), app)
    for step in steps(old, new, b"key").values():
        (receiver,), (sender,) = step.parts["d"], step.parts["s"]
        assert [policy.name for policy in receiver.hop.policies] == ["g", "m", "p", "p~old", "stays"]
        assert [policy.name for policy in sender.hop.policies] == ["m"]
        assert not step.overlays
    judged(old, new)
    judged(new, old)


@pytest.mark.parametrize("scope", ["*", "* except t"])
def test_a_policy_for_all_callers_stays_as_it_is_where_a_service_comes(scope: str) -> None:
    text = f"policy p = deny() on {scope} -> d\npin p at ingress\n"
    old, new = placed(text), placed(text, APP + "service n { http 80 }\ncall n -> d\n")
    assert old.program.policies[0].open_sources
    assert not Diff(old, new).changed
    assert not Diff(new, old).changed


def test_redirection_of_a_port_that_gets_another_number_is_not_forgotten() -> None:
    """A pod that starts in the middle may still have the old plan."""
    app = APP.replace("service d, e, f { http 80 }", "service d { http 80 -> 8080 }\nservice e, f { http 80 }")
    moved = "policy m = request_count() on s -> e\npin m at SIDE\n"
    old = placed("policy k = request_count() on s -> d\npin k at ingress\n" + moved.replace("SIDE", "ingress"), app)
    new = placed(moved.replace("SIDE", "egress"), app.replace("http 80 -> 8080", "http 81 -> 8080"))
    found = captures(steps(old, new, b"key")[StepName.PREPARE].merged)
    assert found == {"d": {"ingress/80 at 8080"}, "s": {"egress/e:80 at 80"}, "e": {"ingress/80 at 80"}}


def test_destinations_are_closed_before_senders_switch_and_opened_at_the_end() -> None:
    text = "policy m = request_count() on * -> d\npin m at SIDE\n"
    here, there = (placed(text.replace("SIDE", side)) for side in ("ingress", "egress"))
    closes = {name: step.closes for name, step in steps(here, there, b"key").items()}
    opens = {name: step.opens for name, step in steps(there, here, b"key").items()}
    assert closes == {name: ("d",) if name is StepName.PREPARE else () for name in StepName}
    assert opens == {name: ("d",) if name is StepName.RELEASE else () for name in StepName}
    assert not any(step.opens for step in steps(here, there, b"key").values())
    assert not any(step.closes for step in steps(there, here, b"key").values())


def test_a_name_is_that_of_a_service_or_of_an_outside_party() -> None:
    old, new = placed(""), placed("", APP.replace("service s, t", "external t\nservice s"))
    for program in (Frame(old, new).program, Frame(new, old).program):
        assert "t" in program.services
        assert "t" not in program.externals
