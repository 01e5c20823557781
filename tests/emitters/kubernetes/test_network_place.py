"""A guard in the network: the NetworkPolicy of its destination admits exactly the callers that the guard admits, at the
guard's ports, and all callers at all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dsl
from dsl.program import Place
from emitters.kubernetes import network_policies
from solver.place import place
from solver.verify.verifier import verify
from tests.emitters.kubernetes.admission import admits, callers
from tests.emitters.kubernetes.schema import check

EXAMPLES = Path(__file__).parents[3] / "examples"
APP = """\
app sample
network_policies enforced
external office { cidr "10.9.0.0/16" }
service a, b, c { http 80 -> 8000 }
service d { http 80 -> 8080  http metrics 9100  no adm }
call a -> d:80
"""


def policy_of(lines: str) -> Any:
    """The one NetworkPolicy of a program whose guards are all in the network."""
    program = dsl.load_text(APP + lines)
    placement = place(program)
    assert verify(program, placement) == ()
    made = network_policies(program, placement)
    for item in made:
        check(item)
    (policy,) = made
    return program, placement, policy


def admitted(lines: str, port: int, protocol: str = "TCP") -> set[str]:
    program, _, policy = policy_of(lines)
    return {caller.name for caller in callers(program) if admits(policy, caller, protocol, port)}


ALL_CALLERS = {"*", "a", "b", "c", "d", "office"}


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("policy p = allow(callers: [a]) on * -> d:80", {"a"}),
        # Callers that the guard admits need no declared call.
        ("policy p = allow(callers: [a, b, office]) on * -> d:80", {"a", "b", "office"}),
        # A caller has to be admitted by all guards.
        ("policy p = allow(callers: [a, b]) on * -> d:80\npolicy q = allow(callers: [c, a]) on * -> d:80", {"a"}),
        # A declared call that is refused is dropped.
        ("call c -> d:80\npolicy p = allow(callers: [a]) on * -> d:80 accept drop", {"a"}),
        # Another policy at the senders relies on closing: then only declared senders are admitted.
        ("policy n = request_count() on * -> d:80\npolicy p = allow(callers: [a, b]) on * -> d:80", {"a"}),
    ],
)
def test_callers_that_a_network_policy_admits(lines: str, wanted: set[str]) -> None:
    assert admitted(lines, 8080) == wanted
    assert admitted(lines, 8080, "UDP") == set()
    assert admitted(lines, 8080, "SCTP") == set()
    for port in (1, 8079, 8081, 9100, 65535):
        assert admitted(lines, port) == ALL_CALLERS
        assert admitted(lines, port, "UDP") == ALL_CALLERS


def test_a_deny_on_one_port_admits_no_caller_there_and_leaves_the_others() -> None:
    lines = "policy p = deny() on * -> d:metrics"
    assert admitted(lines, 9100) == set()
    assert admitted(lines, 8080) == ALL_CALLERS


def test_two_guards_of_two_ports_share_one_object() -> None:
    """Two objects would reopen each other's ports."""
    lines = "policy p = allow(callers: [a]) on * -> d:80\npolicy q = deny() on * -> d:metrics"
    assert admitted(lines, 8080) == {"a"}
    assert admitted(lines, 9100) == set()


def test_no_service_hosts_an_adm() -> None:
    _, placement, policy = policy_of("policy p = allow(callers: [a]) on * -> d:80")
    assert placement.adms == ()
    assert [decision.place for decision in placement.decisions] == [Place.NETWORK]
    annotations = policy["metadata"]["annotations"]
    assert (annotations["admc/needed-by"], annotations["admc/admits"]) == ("p", "a")


@pytest.mark.parametrize(
    ("graph", "two_places"), [("hotel_reservation", 7), ("online_boutique", 4), ("social_network", 9)]
)
def test_allow_lists_of_the_declared_callers_need_no_adm(graph: str, two_places: int) -> None:
    with_network = place(dsl.load_text(allow_lists(graph, "network_policies enforced\n")))
    assert with_network.adms == ()
    assert {decision.place for decision in with_network.decisions} == {Place.NETWORK}
    assert len(place(dsl.load_text(allow_lists(graph, ""))).adms) == two_places


def allow_lists(graph: str, statement: str) -> str:
    """The graph of an example, with an `allow` of its declared callers at each service that only services call."""
    program = dsl.load(EXAMPLES / graph / "policies.adm")
    lines = ["app lists", statement]
    lines += [f"external {name}" for name in program.externals]
    for service in program.services.values():
        ports = "  ".join(f"{port.protocol} {port.number}" for port in service.ports)
        lines.append(f"service {service.name} {{ {ports}{'' if service.hosts_adm else '  no adm'} }}")
    callers_of: dict[str, set[str]] = {}
    for call in program.calls:
        lines.append(f"call {call.source} -> {call.destination}:{call.port.number}")
        callers_of.setdefault(call.destination, set()).add(call.source)
    for number, (destination, names) in enumerate(sorted(callers_of.items())):
        if destination in program.services and names.isdisjoint(program.externals):
            lines.append(f"policy list_{number} = allow(callers: [{', '.join(sorted(names))}]) on * -> {destination}")
    return "\n".join(dict.fromkeys(lines)) + "\n"
