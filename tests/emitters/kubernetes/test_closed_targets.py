"""A NetworkPolicy closes the ports that a policy needs closed, and no other: connections of all callers to all numbers
at which something may change, also while two plans are in force. Mistakes of each kind are noticed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.serve.publication.closing import destinations
from admc.serve.rollout.model import Placed
from emitters.kubernetes import ClosedTargets, closed_by_selector, network_policies, pod_labels
from solver.place import place
from tests.emitters.interception.build import closed_at
from tests.emitters.kubernetes.admission import STRANGER, admits, callers, wrong
from tests.emitters.kubernetes.schema import check
from tests.properties import examples

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement

APP = """\
app sample
external office { cidr "10.9.0.0/16" }
service a, b { http 80 -> 8000 }
service d { http 80 -> 8080  http metrics 9100  tcp peers 7000 }
"""
CLOSED = "policy p = request_count() on * except office -> {0}\npin p at egress\n"


def planned(text: str) -> tuple[Program, Placement]:
    program = dsl.load_text(text)
    return program, place(program)


def objects(text: str) -> list[Any]:
    """The NetworkPolicies of one plan, which are right."""
    plan = planned(text)
    made = list(network_policies(*plan))
    for item in made:
        check(item)
    assert wrong([plan], made) == []
    return made


def together(*plans: tuple[Program, Placement]) -> list[Any]:
    """The NetworkPolicies while proxies may have several plans, the newest last, in a cluster."""
    wanted = destinations([Placed(*plan) for plan in plans])
    selectors = {name: pod_labels(service) for program, _ in plans for name, service in program.services.items()}
    made = closed_by_selector(wanted, selectors)
    assert not any(closed.findings for closed in made.values())
    return [closed.policy for closed in made.values()]


def opened(policy: Any, protocol: str = "TCP") -> list[tuple[int, int]]:
    """The ranges that every caller is admitted to."""
    (rule,) = (rule for rule in policy["spec"]["ingress"] if "from" not in rule)
    return [(item["port"], item.get("endPort", item["port"])) for item in rule["ports"] if item["protocol"] == protocol]


def test_metrics_and_peers_of_a_closed_destination_stay_open() -> None:
    (policy,) = objects(APP + "call a -> d:80\n" + CLOSED.format("d:80"))
    assert admits(policy, STRANGER, "TCP", 9100)
    assert admits(policy, STRANGER, "TCP", 7000)
    assert admits(policy, STRANGER, "TCP", 4000), "a port that the program does not have"
    assert not admits(policy, STRANGER, "TCP", 8080)
    assert opened(policy) == [(1, 8079), (8081, 65535)]


def test_udp_and_sctp_stay_closed_at_closed_numbers_alone() -> None:
    (policy,) = objects(APP + "call a -> d:80\n" + CLOSED.format("d:80"))
    for caller in callers(planned(APP)[0]):
        for protocol in ("UDP", "SCTP"):
            assert not admits(policy, caller, protocol, 8080)
            assert admits(policy, caller, protocol, 53)
    assert opened(policy) == opened(policy, "UDP") == opened(policy, "SCTP")


def test_a_sender_of_open_ports_alone_is_not_named() -> None:
    (policy,) = objects(APP + "call a -> d:80\ncall b -> d:9100\n" + CLOSED.format("d:80"))
    assert policy["metadata"]["annotations"]["admc/admits"] == "a"
    assert len(policy["spec"]["ingress"]) == 2


def test_all_decisions_of_a_destination_share_one_object() -> None:
    text = APP + "call a -> {d:80, d:9100}\ncall b -> d:9100\n"
    two = "policy q = access_log() on * except office -> d:9100\npin q at egress\n"
    (policy,) = objects(text + CLOSED.format("d:80") + two)
    assert opened(policy) == [(1, 8079), (8081, 9099), (9101, 65535)]
    assert admits(policy, STRANGER, "TCP", 7000)


def test_a_target_that_two_ports_share_is_closed_for_both() -> None:
    text = APP.replace("http metrics 9100", "http other 81 -> 8080  http metrics 9100")
    (policy,) = objects(text + "call a -> {d:80, d:81}\n" + CLOSED.format("d:80"))
    assert opened(policy) == [(1, 8079), (8081, 65535)]


@pytest.mark.parametrize(
    ("ports", "ranges"),
    [
        ("http 1", [(2, 65535)]),
        ("http 65535", [(1, 65534)]),
        ("http 1  http x 65535", [(2, 65534)]),
        ("http 2", [(1, 1), (3, 65535)]),
        ("http 65534", [(1, 65533), (65535, 65535)]),
        ("http 80  http x 81", [(1, 79), (82, 65535)]),
        ("http 80  http x 82", [(1, 79), (81, 81), (83, 65535)]),
    ],
)
def test_ranges(ports: str, ranges: list[tuple[int, int]]) -> None:
    text = f"app x\nexternal office\nservice a {{ http 80 }}\nservice d {{ {ports} }}\n"
    text += "".join(f"call a -> d:{word}\n" for word in ports.split() if word.isdigit())
    (policy,) = objects(text + CLOSED.format("d"))
    assert opened(policy) == opened(policy, "UDP") == opened(policy, "SCTP") == ranges
    (rule,) = (rule for rule in policy["spec"]["ingress"] if "from" not in rule)
    assert all(item["port"] < item["endPort"] for item in rule["ports"] if "endPort" in item)


OLD = APP + "call a -> {d:80, d:9100}\ncall office -> d:9100\n"
NEW = APP + "call b -> d:80\ncall a -> d:9100\ncall b -> d:7000\n"
OLD_PLAN = OLD + CLOSED.format("d:9100")
NEW_PLAN = (
    NEW
    + "policy p = access_log() on * except office -> d:7000\npolicy q = request_count() on * except office -> d:80\n"
)
NEW_PLAN += "pin p at egress\npin q at egress\n"


def test_two_plans_close_their_targets_each_for_its_senders() -> None:
    old, new = planned(OLD_PLAN), planned(NEW_PLAN)
    (policy,) = together(old, new)
    assert wrong([old, new], [policy]) == []
    assert opened(policy) == [(1, 6999), (7001, 8079), (8081, 9099), (9101, 65535)]
    # The new plan does not close 9100, so all senders of the old one are admitted there.
    assert policy["metadata"]["annotations"]["admc/admits"] == "a, b, office"
    assert wrong([new, old], together(new, old)) == []


def test_a_target_that_both_plans_close_admits_senders_of_both_alone() -> None:
    old = planned(APP + "call a -> {d:80, d:9100}\ncall b -> d:9100\n" + CLOSED.format("{d:80, d:9100}"))
    new = planned(APP + "call a -> d:9100\ncall b -> {d:80, d:9100}\n" + CLOSED.format("{d:80, d:9100}"))
    (policy,) = together(old, new)
    assert wrong([old, new], [policy]) == []
    names = {caller.name for caller in callers(new[0]) if admits(policy, caller, "TCP", 8080)}
    assert names == set()


def test_a_sender_that_only_the_old_plan_has_keeps_its_port() -> None:
    old = planned(OLD_PLAN.replace("service a, b", "service a, b, gone") + "call gone -> d:9100\n")
    new = planned(NEW_PLAN)
    (policy,) = together(old, new)
    assert wrong([old, new], [policy]) == []
    assert any(admits(policy, caller, "TCP", 9100) for caller in callers(old[0]) if caller.name == "gone")


def test_a_name_that_means_another_party_in_each_plan_is_admitted_as_each_says() -> None:
    """`mover` changes its namespace: each plan's own is admitted where that plan closes the port."""
    app = APP + "service mover { namespace NAMESPACE  http 80 }\ncall mover -> {d:80, d:9100}\n"
    old = planned(app.replace("NAMESPACE", "one") + CLOSED.format("d:9100"))
    new = planned(app.replace("NAMESPACE", "two") + CLOSED.format("d:80"))
    (policy,) = together(old, new)
    at = {
        (caller.namespace, number)
        for plan in (old, new)
        for caller in callers(plan[0])
        for number in (8080, 9100)
        if caller.name == "mover" and admits(policy, caller, "TCP", number)
    }
    assert at == {("one", 9100), ("two", 8080)}


# ---- random programs ----


def drawn(chance: Random) -> str:
    """A destination with several ports, some with one target, and open policies on some of them."""
    targets = [1, 2, 80, 81, 82, 15006, 65534, 65535]
    ports = {number: chance.choice(targets) for number in chance.sample(range(1, 9), chance.randint(1, 4))}
    lines = ["app x", "service a, b, c { http 80 }", 'external e { cidr "10.9.0.0/16" }']
    lines.append("service d { " + "  ".join(f"http p{at} {at} -> {to}" for at, to in sorted(ports.items())) + " }")
    for source in ("a", "b", "e"):
        # All ports of a target, or none: otherwise it could not be closed (R7).
        its = [to for to in sorted(set(ports.values())) if chance.random() < 0.6]
        called = [at for at, to in sorted(ports.items()) if to in its]
        lines += [f"call {source} -> d:{at}" for at in called]
    for number in range(chance.randint(1, 3)):
        to = "d" if chance.random() < 0.2 else f"d:{chance.choice(sorted(ports))}"
        kind = chance.choice(('set_request_header(name: "x", value: "1")', "request_count()", "access_log()"))
        lines += [f"policy p{number} = {kind} on * except e -> {to}"]
        if chance.random() < 0.7:
            lines += [f"pin p{number} at egress"]
    return "\n".join([*lines, ""])


@examples(120)
@given(st.integers(0, 2**32))
def test_random_programs(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    objects(drawn(chance))


@examples(60)
@given(st.integers(0, 2**32))
def test_random_pairs_of_plans(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - no secret
    plans = [planned(drawn(chance)) for _ in range(chance.randint(1, 3))]
    made = together(*plans)
    for policy in made:
        check(policy)
    assert wrong(plans, made) == []


# ---- mistakes ----


def _edited(change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Callable[[Any], Any]:
    """Another form of each range that every caller is admitted to; None leaves it out."""

    def edit(policy: Any) -> Any:
        policy = deepcopy(policy)
        for rule in policy["spec"]["ingress"]:
            if "from" not in rule:
                rule["ports"] = [new for item in rule["ports"] if (new := change(item)) is not None]
        return policy

    return edit


def _later_end(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "endPort": item["endPort"] + 1} if item.get("endPort", 65535) < 65535 else item


def _later_start(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "port": item["port"] + 1} if item["port"] > 1 else item


def _earlier_start(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "port": item["port"] - 1} if item["port"] > 1 else item


def _whole_udp(item: dict[str, Any]) -> dict[str, Any]:
    return {"protocol": "UDP", "port": 1, "endPort": 65535} if item["protocol"] == "UDP" else item


def _no_sctp(item: dict[str, Any]) -> dict[str, Any] | None:
    return None if item["protocol"] == "SCTP" else item


def _first_only(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "endPort"}


def _closed_whole(policy: Any) -> Any:
    """The destination is closed at every port, as before."""
    policy = deepcopy(policy)
    policy["spec"]["ingress"] = [rule for rule in policy["spec"]["ingress"] if "from" in rule]
    return policy


def _for_all_callers(policy: Any) -> Any:
    policy = deepcopy(policy)
    for rule in policy["spec"]["ingress"]:
        rule.pop("from", None)
    return policy


def _over_udp_too(policy: Any) -> Any:
    """Declared senders are admitted over UDP as well."""
    policy = deepcopy(policy)
    for rule in policy["spec"]["ingress"]:
        if "from" in rule:
            rule["ports"] += [{**item, "protocol": "UDP"} for item in rule["ports"]]
    return policy


EDITS = {
    "a range ends one later": _edited(_later_end),
    "a range starts one later": _edited(_later_start),
    "a range starts one earlier": _edited(_earlier_start),
    "UDP is open at closed numbers": _edited(_whole_udp),
    "SCTP is closed everywhere": _edited(_no_sctp),
    "the end of a range is forgotten": _edited(_first_only),
    "closed at every port": _closed_whole,
    "open to all callers": _for_all_callers,
    "senders are admitted over UDP": _over_udp_too,
}


@pytest.mark.parametrize("title", EDITS)
def test_a_mistake_in_an_object_is_noticed(title: str) -> None:
    plan = planned(APP + "call a -> d:80\n" + CLOSED.format("d:80"))
    (policy,) = network_policies(*plan)
    assert wrong([plan], [policy]) == []
    assert wrong([plan], [EDITS[title](policy)])


class Both(NamedTuple):
    """Two plans in force together."""

    old: tuple[Program, Placement]
    new: tuple[Program, Placement]

    @property
    def wanted(self) -> dict[str, ClosedTargets]:
        return destinations([Placed(*self.old), Placed(*self.new)])


def _without_the_old_plans(both: Both) -> dict[str, ClosedTargets]:
    """A target of the old plan is forgotten."""
    new = both.new[1].closed_targets(both.new[0])
    return {
        name: closed._replace(admitted={at: its for at, its in closed.admitted.items() if at in new[name]})
        for name, closed in both.wanted.items()
    }


def _as_the_new_plan(both: Both) -> dict[str, ClosedTargets]:
    """Senders of the new plan are admitted everywhere."""
    program = both.new[0]
    return {name: closed_at(program, name, *closed.admitted) for name, closed in both.wanted.items()}


def _common_to_all(both: Both) -> dict[str, ClosedTargets]:
    """Senders are compared for the whole destination instead of for each target."""
    old = {(call.source, call.destination, call.port.target) for call in both.old[0].calls}
    calls = [call for call in both.new[0].calls if (call.source, call.destination, call.port.target) in old]
    program = replace(both.new[0], calls=tuple(calls))
    return {name: closed_at(program, name, *closed.admitted) for name, closed in both.wanted.items()}


@pytest.mark.parametrize("mistake", [_without_the_old_plans, _as_the_new_plan, _common_to_all])
def test_a_mistake_about_two_plans_is_noticed(mistake: Callable[[Both], dict[str, ClosedTargets]]) -> None:
    both = Both(planned(OLD_PLAN), planned(NEW_PLAN))
    selectors = {name: pod_labels(service) for name, service in both.new[0].services.items()}
    policies = [closed.policy for closed in closed_by_selector(mistake(both), selectors).values()]
    assert None not in policies
    assert wrong([*both], [policy for policy in policies if policy is not None])
