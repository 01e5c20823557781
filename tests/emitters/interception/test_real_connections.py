"""The rules in the kernel: real connections are captured, passed or refused as docs/interception.md says."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from emitters.interception.captures import EgressCapture, IngressCapture, Interception, Probe, Reached
from emitters.interception.rules import remove_file, restore_file
from emitters.interception.tables import Family
from emitters.ports import EGRESS_MARK, EGRESS_PORT, INGRESS_MARK, INGRESS_PORT, OWN_PORTS
from tests.emitters.interception.namespaces import (
    ELSEWHERE,
    LOOPBACK,
    NEEDS_ROOT,
    NODE,
    OTHER_POD,
    POD,
    PREFIX,
    SERVICE,
    Pair,
    cut_off,
    original_destination,
    talks,
)
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [NEEDS_MESH, NEEDS_ROOT]

BY_PORT = 50051
"""In the range from which Linux picks a client's own port."""


def _captures(reached: Reached, places: dict[Family, str], port: int) -> tuple[EgressCapture, ...]:
    return tuple(
        EgressCapture("other", reached, ipaddress.ip_network(places[family]), port, ("quota",)) for family in Family
    )


RULES = Interception(
    app="shop",
    service="sample",
    ingress=(IngressCapture(8080, ("guard",)),),
    egress=(
        *_captures(Reached.SERVICE_ADDRESS, SERVICE, 80),
        *_captures(Reached.POD_ADDRESS, OTHER_POD, 8080),
        EgressCapture("outside", Reached.PORT, None, BY_PORT, ("limit",)),
    ),
)

TO_ITSELF = Interception(
    app="shop",
    service="sample",
    ingress=(IngressCapture(8080, ("guard",)),),
    egress=tuple(
        EgressCapture("sample", Reached.POD_ADDRESS, ipaddress.ip_network(POD[family]), 8080, ("quota",))
        for family in Family
    ),
    refused_to_self=(8080,),
)
"""The service calls itself, with policies at both sides."""


def reset(connection: socket.socket) -> None:
    """End it without a word of goodbye."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def broken_off(accepted: socket.socket, client: socket.socket) -> None:
    """The connection is reset by the side that accepted it, and the client knows."""
    reset(accepted)
    with pytest.raises(ConnectionResetError):
        client.recv(1)
    client.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with Pair(tmp_path) as made:
        yield made


@pytest.fixture(params=[Family.IPV4, pytest.param(Family.IPV6, marks=pytest.mark.long)])
def family(request: pytest.FixtureRequest) -> Family:
    chosen: Family = request.param
    return chosen


def test_only_the_enforced_port_is_redirected_at_ingress(pair: Pair, family: Family) -> None:
    pair.load(RULES)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    process = pair.listen(pair.pod, family, 9090)
    client = pair.connect(pair.world, family, POD[family], 8080)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (POD[family], 8080)
    assert connection.getpeername()[0] == NODE[family]
    assert talks(client, connection)
    client = pair.connect(pair.world, family, POD[family], 9090)
    assert talks(client, pair.accepted(process))


@pytest.mark.parametrize(("places", "port"), [(SERVICE, 80), (OTHER_POD, 8080), (ELSEWHERE, BY_PORT)])
def test_enforced_destinations_are_redirected_at_egress(
    pair: Pair, family: Family, places: dict[Family, str], port: int
) -> None:
    pair.load(RULES)
    adm = pair.listen(pair.pod, family, EGRESS_PORT)
    client = pair.connect(pair.pod, family, places[family], port)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (places[family], port)
    assert talks(client, connection)


@pytest.mark.parametrize(("places", "port"), [(SERVICE, 81), (OTHER_POD, 80), (ELSEWHERE, 80)])
def test_other_destinations_are_not_touched(pair: Pair, family: Family, places: dict[Family, str], port: int) -> None:
    pair.load(RULES)
    server = pair.listen(pair.world, family, port)
    client = pair.connect(pair.pod, family, places[family], port)
    assert talks(client, pair.accepted(server))


@pytest.mark.parametrize("mark", [INGRESS_MARK, EGRESS_MARK])
@pytest.mark.parametrize(("places", "port"), [(SERVICE, 80), (OTHER_POD, 8080), (ELSEWHERE, BY_PORT)])
def test_what_the_adm_opens_is_not_looped(
    pair: Pair, family: Family, places: dict[Family, str], port: int, mark: int
) -> None:
    pair.load(RULES)
    server = pair.listen(pair.world, family, port)
    client = pair.connect(pair.pod, family, places[family], port, mark=mark)
    assert talks(client, pair.accepted(server))


@pytest.mark.parametrize("first", [0, EGRESS_MARK])
@pytest.mark.parametrize(("places", "port"), [(SERVICE, 80), (OTHER_POD, 8080), (ELSEWHERE, BY_PORT)])
def test_a_connection_that_the_system_takes_for_one_that_was_reset_is_refused_not_looped_or_missed(
    pair: Pair, family: Family, places: dict[Family, str], port: int, first: int
) -> None:
    """The service and its ADM have their own ports from one range, and call the same addresses."""
    pair.load(RULES)
    server, adm = pair.listen(pair.world, family, port), pair.listen(pair.pod, family, EGRESS_PORT)
    client = pair.connect(pair.pod, family, places[family], port, mark=first)
    own = client.getsockname()[:2]
    broken_off(pair.accepted(server if first else adm), client)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, places[family], port, mark=0 if first else EGRESS_MARK, source=own)


def test_the_ingress_listener_does_not_reach_itself_by_a_port_of_a_call_to_itself(pair: Pair, family: Family) -> None:
    pair.load(RULES)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = pair.connect(pair.pod, family, POD[family], 8080)
    own = client.getsockname()[:2]
    broken_off(pair.accepted(adm), client)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, POD[family], 8080, mark=INGRESS_MARK, source=own)


def test_the_ingress_listener_reaches_its_own_process(pair: Pair, family: Family) -> None:
    pair.load(RULES)
    process = pair.listen(pair.pod, family, 8080)
    client = pair.connect(pair.pod, family, POD[family], 8080, mark=INGRESS_MARK)
    assert talks(client, pair.accepted(process))


@pytest.mark.parametrize("mark", [0, EGRESS_MARK])
def test_a_call_to_itself_meets_the_ingress_listener(pair: Pair, family: Family, mark: int) -> None:
    pair.load(RULES)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = pair.connect(pair.pod, family, POD[family], 8080, mark=mark)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (POD[family], 8080)
    assert talks(client, connection)


def test_loopback_stays_inside_the_pod(pair: Pair, family: Family) -> None:
    pair.load(RULES)
    for port in (8080, BY_PORT):
        process = pair.listen(pair.pod, family, port)
        client = pair.connect(pair.pod, family, LOOPBACK[family], port)
        assert talks(client, pair.accepted(process))


def test_a_call_to_itself_with_an_egress_enforcement_is_refused_where_it_is_not_captured(
    pair: Pair, family: Family
) -> None:
    pair.load(Interception("shop", "sample", (), (), refused_to_self=(8080,)))
    pair.listen(pair.pod, family, 8080)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, POD[family], 8080)
    assert pair.connect(pair.world, family, POD[family], 8080)


def test_a_call_to_itself_meets_both_listeners_in_turn(pair: Pair, family: Family) -> None:
    pair.load(TO_ITSELF)
    for mark, port in ((0, EGRESS_PORT), (EGRESS_MARK, INGRESS_PORT), (INGRESS_MARK, 8080)):
        listener = pair.listen(pair.pod, family, port)
        client = pair.connect(pair.pod, family, POD[family], 8080, mark=mark)
        assert talks(client, pair.accepted(listener))


# By the mark of an older connection: where it arrives, and who must not follow it there.
FOLLOWS = [(EGRESS_MARK, INGRESS_PORT, 0), (INGRESS_MARK, 8080, EGRESS_MARK), (INGRESS_MARK, 8080, 0)]


@pytest.mark.parametrize(("first", "arrives", "mark"), FOLLOWS)
def test_a_call_to_itself_misses_no_listener_by_a_port_of_an_older_one(
    pair: Pair, family: Family, first: int, arrives: int, mark: int
) -> None:
    pair.load(TO_ITSELF)
    listener = pair.listen(pair.pod, family, arrives)
    client = pair.connect(pair.pod, family, POD[family], 8080, mark=first)
    own = client.getsockname()[:2]
    broken_off(pair.accepted(listener), client)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, POD[family], 8080, mark=mark, source=own)


# Rules that lack one side, whose connection they leave alone, and where it arrives.
OLDER = [
    (dataclasses.replace(TO_ITSELF, egress=(), refused_to_self=()), 0, INGRESS_PORT),
    (dataclasses.replace(TO_ITSELF, ingress=()), EGRESS_MARK, 8080),
]


@pytest.mark.parametrize(("older", "mark", "arrives"), OLDER, ids=["egress", "ingress"])
def test_a_call_to_itself_that_is_older_than_the_rules_of_one_side_is_reset(
    pair: Pair, family: Family, older: Interception, mark: int, arrives: int
) -> None:
    pair.load(older)
    listener = pair.listen(pair.pod, family, arrives)
    client = pair.connect(pair.pod, family, POD[family], 8080, mark=mark)
    assert talks(client, pair.accepted(listener))
    pair.load(TO_ITSELF)
    client.sendall(b"ask")
    with pytest.raises(ConnectionResetError):
        client.recv(1)


def test_a_call_to_itself_that_is_captured_at_ingress_alone_is_refused_where_a_policy_is_at_egress(
    pair: Pair, family: Family
) -> None:
    pair.load(dataclasses.replace(TO_ITSELF, egress=()))
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, POD[family], 8080)
    assert talks(pair.connect(pair.world, family, POD[family], 8080), pair.accepted(adm))


@pytest.mark.parametrize("port", [INGRESS_PORT, EGRESS_PORT])
def test_the_ports_of_the_adm_cannot_be_dialled(pair: Pair, family: Family, port: int) -> None:
    pair.listen(pair.pod, family, port)
    assert pair.connect(pair.world, family, POD[family], port)
    pair.load(RULES)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.world, family, POD[family], port)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, LOOPBACK[family], port)


def track(pair: Pair, family: Family) -> None:
    """Makes the kernel track connections, as it does wherever any rule needs it."""
    pair.in_pod(PREFIX[family], "-A", "INPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")


def _reset(pair: Pair, client: socket.socket, server: socket.socket, first: str) -> bool:
    """Whether rules cut off a connection that works without them, whichever end sends next."""
    assert talks(client, server)
    pair.load(RULES)
    if first == "server":
        server.sendall(b"news")
        assert client.recv(16) == b"news"
    return cut_off(client, server)


@pytest.mark.parametrize("first", ["client", "server"])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_connection_to_the_service_older_than_the_rules_is_reset(
    pair: Pair, family: Family, tracked: bool, first: str
) -> None:
    """Whether the kernel tracked the connection before or first sees it half-way, and whichever end sends next."""
    if tracked:
        track(pair, family)
    process = pair.listen(pair.pod, family, 8080)
    client = pair.connect(pair.world, family, POD[family], 8080)
    assert _reset(pair, client, pair.accepted(process), first)


@pytest.mark.parametrize("first", ["client", "server"])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(("places", "port"), [(SERVICE, 80), (ELSEWHERE, BY_PORT)])
def test_a_connection_of_the_service_older_than_the_rules_is_reset(
    pair: Pair, family: Family, places: dict[Family, str], port: int, tracked: bool, first: str
) -> None:
    if tracked:
        track(pair, family)
    listener = pair.listen(pair.world, family, port)
    client = pair.connect(pair.pod, family, places[family], port)
    assert _reset(pair, client, pair.accepted(listener), first)


def test_answers_to_a_client_whose_port_is_a_captured_number_pass(pair: Pair, family: Family) -> None:
    pair.load(RULES)
    process = pair.listen(pair.pod, family, 9090)
    client = pair.connect(pair.world, family, POD[family], 9090, source=(NODE[family], BY_PORT))
    assert talks(client, pair.accepted(process))


def test_only_a_probe_from_its_node_by_passes_the_adm(pair: Pair, family: Family) -> None:
    rules = replaced(RULES, probes=(Probe(NODE[family], 8080),))
    pair.load(rules)
    process = pair.listen(pair.pod, family, 8080)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = pair.connect(pair.world, family, POD[family], 8080, source=(NODE[family], 0))
    assert talks(client, pair.accepted(process))
    client = pair.connect(pair.world, family, POD[family], 8080, source=(SERVICE[family], 0))
    assert talks(client, pair.accepted(adm))


def test_applying_again_changes_nothing_and_removing_leaves_the_rules_of_others(pair: Pair, family: Family) -> None:
    pair.in_pod(PREFIX[family], "-t", "nat", "-A", "OUTPUT", "-p", "tcp", "--dport", "7", "-j", "RETURN")
    pair.in_pod(PREFIX[family], "-A", "INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP")
    pair.in_pod(PREFIX[family], "-t", "nat", "-N", "OTHERS")
    before = pair.rules(family)
    pair.load(RULES, "remove")
    untouched = set(pair.rules(family))
    assert untouched == set(before)
    pair.load(RULES)
    applied = pair.rules(family)
    assert set(before) < set(applied)
    pair.load(RULES)
    assert pair.rules(family) == applied
    pair.load(Interception("shop", "sample", (), ()))
    assert not any("8080" in rule for rule in pair.rules(family))
    pair.load(RULES)
    assert pair.rules(family) == applied
    pair.load(RULES, "remove")
    assert pair.rules(family) == before


def replaced(rules: Interception, **changes: object) -> Interception:
    return dataclasses.replace(rules, **changes)  # type: ignore[arg-type]  # fields of whatever type


@pytest.mark.long
@pytest.mark.parametrize("action", ["apply", "remove"])
@pytest.mark.parametrize("other", [{"service": "other"}, {"app": "another"}], ids=["service", "app"])
def test_the_rules_of_another_service_are_left_alone(pair: Pair, action: str, other: dict[str, object]) -> None:
    """One pod hosts one ADM: two services in one network namespace would each lose the other's redirection."""
    pair.load(RULES)
    before = {family: pair.rules(family) for family in Family}
    with pytest.raises(AssertionError, match=r"the rules of `shop/sample` are loaded here") as caught:
        pair.load(replaced(RULES, **other), action)
    assert "iptables.rules are those of" in str(caught.value)
    assert {family: pair.rules(family) for family in Family} == before
    pair.load(replaced(RULES, ingress=()))
    pair.load(RULES)
    assert {family: pair.rules(family) for family in Family} == before
    pair.load(RULES, "remove")
    pair.load(replaced(RULES, **other))
    assert {family: pair.rules(family) for family in Family} != before


@pytest.mark.parametrize("port", OWN_PORTS)
def test_a_destination_may_be_at_the_ports_that_an_adm_has_in_its_own_pod(pair: Pair, port: int) -> None:
    family = Family.IPV4
    pair.load(replaced(RULES, ingress=(), egress=_captures(Reached.SERVICE_ADDRESS, SERVICE, port)))
    adm, there = pair.listen(pair.pod, family, EGRESS_PORT), pair.listen(pair.world, family, port)
    client = pair.connect(pair.pod, family, SERVICE[family], port)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (SERVICE[family], port)
    assert talks(client, connection)
    onward = pair.connect(pair.pod, family, SERVICE[family], port, mark=EGRESS_MARK)
    assert talks(onward, pair.accepted(there))


def test_one_family_of_another_service_is_enough_to_refuse_both(pair: Pair) -> None:
    pair.restore(Family.IPV6, restore_file(replaced(RULES, service="other"), Family.IPV6))
    before = pair.rules(Family.IPV4)
    with pytest.raises(AssertionError, match=r"the rules of `shop/other` are loaded here"):
        pair.load(RULES)
    assert pair.rules(Family.IPV4) == before


def test_rules_that_name_no_service_are_removed_and_not_replaced(pair: Pair, family: Family) -> None:
    nameless = [line for line in restore_file(RULES, family).splitlines() if "--comment" not in line]
    pair.restore(family, "\n".join([*nameless, ""]))
    with pytest.raises(AssertionError, match="the rules of a service without a name are loaded here"):
        pair.load(RULES)
    pair.load(RULES, "remove")
    pair.load(RULES)


def test_emptied_chains_belong_to_no_service(pair: Pair) -> None:
    pair.load(replaced(RULES, service="other"))
    for each in Family:
        pair.restore(each, remove_file())
    pair.load(RULES)


def test_the_rules_file_alone_captures_and_the_remove_file_alone_ends_it(pair: Pair, family: Family) -> None:
    pair.restore(family, restore_file(RULES, family))
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = pair.connect(pair.world, family, POD[family], 8080)
    assert talks(client, pair.accepted(adm))
    for _ in range(2):
        pair.restore(family, remove_file())
        process = pair.listen(pair.pod, family, 8080)
        client = pair.connect(pair.world, family, POD[family], 8080)
        assert talks(client, pair.accepted(process))
        process.close()
