"""Filter chains and route tables with what two plans have, in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from admc.serve.compiling.snapshots import snapshot
from admc.serve.rollout.chains import HttpChain
from admc.serve.rollout.marker import MARKER
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.resources import Emitted
from admc.serve.rollout.steps import steps
from dsl import load_text
from emitters.addresses import Addresses
from emitters.envoy import Mode, emit
from emitters.envoy.failure_marks import FAILED
from emitters.envoy.held_headers import ROUTE
from solver.place import place
from tests.serve.rollout.test_resources import branches, known, routes

if TYPE_CHECKING:
    from emitters.envoy import AdmResources


SMALL = """
app small
service s, t { http 80 }
service d, e { http 80 }
call s, t -> d
call s -> e
FIRST
policy m = set_request_header(name: "x-m", value: "1") on s -> d
pin m at SIDE
"""


def small(side: str, egress: str = "", ingress: str = "") -> Placed:
    """With policies that come after `m`, or before it."""
    program = load_text(SMALL.replace("SIDE", side).replace("FIRST", ingress) + egress)
    return Placed(program, place(program))


def prepared(old: Placed, new: Placed) -> dict[str, AdmResources]:
    step = steps(old, new, b"key")[StepName.PREPARE]
    return Emitted(step, known(old, new), Mode.REDIRECT).at(step)


def test_a_cluster_is_the_new_plans_from_prepare_on() -> None:
    """Also where a policy that works in it becomes one of another kind: the one exception to one plan a request."""
    outliers = "policy c = outlier_detection(consecutive_errors: 5) on {s, t} -> d\n"
    for kind in ("outlier_detection(consecutive_errors: 6)", "load_balancing(policy: random)"):
        other = outliers.replace("outlier_detection(consecutive_errors: 5)", kind)
        old, new = small("ingress", outliers), small("egress", other)
        step = prepared(old, new)["s"]
        assert "egress/d:80/c" in step.endpoints
        made = step.clusters["egress/d:80/c"]
        rest = {each.service: each for each in emit(*new, known(old, new), Mode.REDIRECT, waiting=True, by_chain=True)}
        assert made == rest["s"].clusters["egress/d:80/c"]


def test_a_filter_chain_that_both_plans_have_stays() -> None:
    """Where policies change that have no filter, no connection is closed for it."""
    names = [f"policy {name} = outlier_detection(consecutive_errors: 5) on s -> d\n" for name in "cd"]
    old, new = (
        small("egress", names[0]),
        small("egress", names[1] + "policy n = access_log() on t -> d\npin n at ingress\n"),
    )
    step = steps(old, new, b"key")[StepName.PREPARE]
    assert ("s", "egress/d:80") in step.overlays
    rest = {each.service: each for each in emit(*new, known(old, new), Mode.REDIRECT, by_chain=True)}
    assert manager(prepared(old, new)["s"], "egress/d:80") == manager(rest["s"], "egress/d:80")


@pytest.mark.parametrize("other", ['on {s, t} -> d when header("x-key") == "1"', "on s -> d"])
def test_a_policy_that_gets_another_scope_or_match_is_there_in_both_versions(other: str) -> None:
    """While policies move at its port. Its filter chain has one name in both plans, and each version its own in the
    steps: older connections keep what they have, and requests meet what one plan enforces."""
    text = "policy g = deny() on {s, t} -> d\npin g at ingress\n"
    text += 'policy h = set_request_header(name: "x-h", value: "1") on s -> d\npin h at ingress\n'
    moves = "policy q = request_count() on {s, t} -> d\npin q at egress\n"
    old = small("ingress", text)
    new = small("ingress", text.replace("on {s, t} -> d", other, 1), moves)
    rest = [
        {each.service: each for each in emit(*plan, known(old, new), Mode.REDIRECT, by_chain=True)}["d"]
        for plan in (old, new)
    ]
    assert rest[0].extensions.keys() == rest[1].extensions.keys()
    guards = [config for made in rest for name, config in made.extensions.items() if name.endswith("/g:deny")]
    assert guards[0].typed_config != guards[1].typed_config
    for name, step in steps(old, new, b"key").items():
        made = Emitted(step, known(old, new), Mode.REDIRECT).at(step)["d"]
        assert not made.extensions.keys() & rest[0].extensions.keys()
        found = [config for name, config in made.extensions.items() if name.endswith("/g:deny")]
        assert {each.typed_config.value for each in found} == {each.typed_config.value for each in guards}
        chain = HttpChain(None, manager(made, "ingress/80"))
        unmarked, marked = branches(made.routes[chain.table])
        for found_routes, plan in ((unmarked, name in (StepName.RECEIVERS, StepName.RELEASE)), (marked, True)):
            for route in found_routes:
                (own,) = (each for each in found if each.name not in route.typed_per_filter_config)
                assert own.typed_config == guards[plan].typed_config, name


@pytest.mark.long
def test_what_is_emitted_for_one_step_is_right_for_all() -> None:
    guard = "policy g = allow(callers: [CALLERS]) on {s, t} -> d\npin g at ingress\n"
    old, new = small("ingress", guard.replace("CALLERS", "s, t")), small("egress", guard.replace("CALLERS", "s"))
    found = steps(old, new, b"key")
    for first in StepName:
        emitted = Emitted(found[first], known(old, new), Mode.REDIRECT)
        for step in found.values():
            anew = Emitted(step, known(old, new), Mode.REDIRECT).at(step)
            versions = (
                {name: snapshot(each).version for name, each in made.items()} for made in (emitted.at(step), anew)
            )
            assert next(versions) == next(versions)


def test_a_limit_of_either_plan_counts_as_one() -> None:
    """A bootstrap that is made in the middle has what shared limits need."""
    quota = "policy q = rate_limit(requests: 5, per: 1s) on s -> d\npin q at egress\n"
    assert prepared(small("egress", quota), small("ingress"))["s"].shares_limits
    assert not prepared(small("egress"), small("ingress"))["s"].shares_limits


def manager(made: AdmResources, name: str) -> Any:
    (found,) = (chain for each in made.listeners.values() for chain in each.filter_chains if chain.name == name)  # type: ignore[attr-defined]
    chain = HttpChain.of(found)
    assert chain is not None
    return chain.manager


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_what_a_filter_chain_says_besides_its_filters_holds_for_both_plans(sides: tuple[str, str]) -> None:
    """Access logs, what becomes of the ADM's own replies, and who sends an interim response."""
    log = "policy l = access_log() on {s, t} -> d\npin l at ingress\n"
    body = "policy b = buffer_limit(max: 1KB) on {s, t} -> d\npin b at ingress\n"
    abort = "policy a = fault_abort(status: 204, percent: 50%) on {s, t} -> d\npin a at ingress\n"
    old, new = small(sides[0], log + body + abort), small(sides[1])
    for one, other in ((old, new), (new, old)):
        found = manager(prepared(one, other)["d"], "ingress/80")
        assert len(found.access_log) == 1
        assert not found.proxy_100_continue
        marks, empty = found.local_reply_config.mappers
        assert FAILED in str(marks)
        assert "admc.status.204" in str(empty)
    plain = manager(prepared(small(sides[0]), small(sides[1]))["d"], "ingress/80")
    assert plain.proxy_100_continue
    assert list(plain.local_reply_config.mappers) == [marks]
    both = manager(prepared(small(sides[0], log), small(sides[1], log))["d"], "ingress/80")
    assert len(both.access_log) == 1


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_requests_are_prepared_for_the_routes_of_either_plan(sides: tuple[str, str]) -> None:
    """To copy a request in its own version of HTTP, a route table has to see which one it is."""
    old, new = small(sides[0], **{sides[0]: "policy c = mirror(to: e) on s -> d\n"}), small(sides[1])
    rest = emit(*old, known(old), Mode.REDIRECT, by_chain=True)
    wanted = manager(next(each for each in rest if each.service == "s"), "egress/d:80").early_header_mutation_extensions
    for one, other in ((old, new), (new, old)):
        assert manager(prepared(one, other)["s"], "egress/d:80").early_header_mutation_extensions == wanted


def test_a_caller_that_only_the_old_plan_names_meets_its_policies() -> None:
    app = "app named\nservice s { tcp 80 }\nservice d { tcp 80 }\ncall s -> d\n"
    office = 'external office { cidr "10.9.0.0/16" }\ncall office -> d\npolicy p = deny() on office -> d\n'
    moved = "policy m = access_log() on s -> d\npin m at SIDE\n"
    texts = app + moved.replace("SIDE", "ingress") + office, app + moved.replace("SIDE", "egress")
    old, new = (Placed(program, place(program)) for program in map(load_text, texts))
    for one, other in ((old, new), (new, old)):
        (listener,) = (each for name, each in prepared(one, other)["d"].listeners.items() if name == "ingress")
        assert b"10.9.0.0" in listener.filter_chain_matcher.SerializeToString()  # type: ignore[attr-defined]


def test_a_guard_of_connections_knows_a_caller_by_the_name_that_its_own_program_has() -> None:
    """An outside party gets another name: both plans admit it, and so do the steps between them."""
    app = "app named\nservice s { tcp 80 }\nservice d { tcp 80 }\ncall s -> d\n"
    app += 'external NAME { cidr "10.9.0.0/16" }\ncall NAME -> d\npolicy m = access_log() on s -> d\npin m at SIDE\n'
    text = app + "policy p = allow(callers: [s, NAME]) on * -> d\n"
    texts = (text.replace("NAME", name).replace("SIDE", side) for name, side in (("a", "ingress"), ("b", "egress")))
    old, new = (Placed(program, place(program)) for program in map(load_text, texts))
    for one, other in ((old, new), (new, old)):
        (listener,) = (each for name, each in prepared(one, other)["d"].listeners.items() if name == "ingress")
        assert b"10.9.0.0" in listener.filter_chain_matcher.SerializeToString()  # type: ignore[attr-defined]
        chains = {chain.name for chain in listener.filter_chains}  # type: ignore[attr-defined]
        assert "ingress/80/others" in chains  # those who are admitted, beside those who are not


def test_listeners_wait_for_the_addresses_that_policies_of_either_plan_need() -> None:
    """A caller without an address does not pass a policy of the receiver that is about its calls."""
    for sides in (("ingress", "egress"), ("egress", "ingress")):
        old, new = small(sides[0]), small(sides[1])
        addresses = known(old, new)
        there = Addresses({name: each for name, each in addresses.services.items() if name != "s"})
        step = steps(old, new, b"key")[StepName.PREPARE]
        waiting, ready = (
            Emitted(step, each, Mode.REDIRECT).at(step)["d"].listeners["ingress"] for each in (there, addresses)
        )
        assert "ingress/closed" in str(waiting.filter_chain_matcher)  # type: ignore[attr-defined]
        assert "ingress/closed" not in str(ready.filter_chain_matcher)  # type: ignore[attr-defined]


def table(step: StepName, service: str, hop: str, old: Placed, new: Placed) -> tuple[Any, str]:
    """The route table of a hop in a step, and the marker's value."""
    found = steps(old, new, b"key")[step]
    made = Emitted(found, known(old, new), Mode.REDIRECT).at(found)[service]
    return made.routes[manager(made, hop).rds.route_config_name], found.overlays[service, hop].secret


@pytest.mark.parametrize("forward", ["mirror(to: e)", "split(to: e, percent: 5%)"])
def test_only_requests_to_the_destination_itself_have_the_marker(forward: str) -> None:
    """What an ADM sends elsewhere must not say what it has met."""
    old, new = (
        small("ingress", ingress=f"policy c = {forward} on s -> d\n"),
        small("egress", f"policy c = {forward} on s -> d\n"),
    )
    found, secret = table(StepName.SENDERS, "s", "egress/d:80", old, new)
    marked = 0
    for route in routes(found.virtual_hosts[0]):
        for mirror in route.route.request_mirror_policies:
            assert MARKER in [each.remove for each in mirror.request_headers_mutations]
        for place_ in route.route.weighted_clusters.clusters or (route,):
            assert MARKER in place_.request_headers_to_remove
            sent = [each.header.value for each in place_.request_headers_to_add if each.header.key == MARKER]
            assert sent == ([] if getattr(place_, "name", "").startswith("egress/d:80/to:") else [secret])
            marked += len(sent)
    assert marked


def test_the_receiver_compares_the_whole_value_and_only_where_it_says_something() -> None:
    to_senders, to_receiver = (small("ingress"), small("egress")), (small("egress"), small("ingress"))
    found, secret = table(StepName.SENDERS, "d", "ingress/80", *to_senders)
    (predicate,) = (each.predicate for each in found.virtual_hosts[0].matcher.matcher_list.matchers)
    assert predicate.single_predicate.value_match.exact == secret
    assert MARKER in str(predicate.single_predicate.input)
    for step, ends in (
        (StepName.RECEIVERS, to_senders),
        (StepName.RELEASE, to_senders),
        (StepName.PREPARE, to_receiver),
    ):
        found, secret = table(step, "d", "ingress/80", *ends)
        assert secret not in str(found)
        assert branches(found)[0] == branches(found)[1]


@pytest.mark.parametrize("step", StepName)
def test_settings_of_either_plans_filters_are_in_the_table(step: StepName) -> None:
    """Marked requests meet the routes of one plan, and unmarked ones those of the other, in one virtual host."""
    cors = 'policy c = cors(origins: ["https://x.test"]) on s -> d\npin c at ingress\n'
    ends = small("egress", cors), small("ingress", cors)
    for old, new in (ends, ends[::-1]):
        found, _ = table(step, "d", "ingress/80", old, new)
        assert len(found.virtual_hosts[0].typed_per_filter_config) == 2


@pytest.mark.parametrize("step", StepName)
def test_no_header_leaves_by_which_a_filter_of_either_plan_tells_its_routes_something(step: StepName) -> None:
    bounded = "policy b = circuit_breaking(max_requests: 1) on s -> d\n"
    ends = small("egress", bounded), small("ingress")
    for old, new in (ends, ends[::-1]):
        found, _ = table(step, "d", "ingress/80", old, new)
        removed = list(found.virtual_hosts[0].request_headers_to_remove)
        assert len([name for name in removed if name.startswith(ROUTE)]) == 1
        assert len(removed) == len(set(removed))
