"""A pod's rules in the kernel: what the user id and a source address tell there, real connections show."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

import pytest

from emitters.interception.pod import HANDOVER, PodCaptures, rules
from emitters.interception.tables import Family
from emitters.ports import ADM_USER, EGRESS_PORT, INGRESS_PORT
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

DIALLED = 50051
"""In the range from which Linux picks a client's own port."""
CAPTURES = PodCaptures(ingress=frozenset({8080}), egress=frozenset({80, DIALLED}))
TO_ITSELF = PodCaptures(ingress=frozenset({8080}), egress=frozenset({8080}))
"""The service calls itself, with policies at both sides."""
OTHER_USER = 1000
PLACES = [SERVICE, OTHER_POD, ELSEWHERE]


def reset(connection: socket.socket) -> None:
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


def handed_over(pair: Pair, family: Family, port: int, *, user: int = ADM_USER, own: int = 0) -> socket.socket:
    """A connection as the ingress listener opens it."""
    return pair.connect(pair.pod, family, POD[family], port, user=user, source=(HANDOVER[family], own))


def load_without(pair: Pair, family: Family, captures: PodCaptures, *parts: str) -> None:
    """Rules that lack each rule with one of these parts."""
    pair.load_for_pod(captures)
    text = rules(captures, "shop/sample", family).splitlines()
    kept = [line for line in text if not line.startswith("-I") and not any(part in line for part in parts)]
    assert len(kept) < len([line for line in text if not line.startswith("-I")])
    pair.restore(family, "\n".join([*kept, ""]))


def test_only_the_enforced_port_is_redirected_at_ingress(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    adm, process = pair.listen(pair.pod, family, INGRESS_PORT), pair.listen(pair.pod, family, 9090)
    client = pair.connect(pair.world, family, POD[family], 8080)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (POD[family], 8080)
    assert connection.getpeername()[0] == NODE[family]
    assert talks(client, connection)
    assert talks(pair.connect(pair.world, family, POD[family], 9090), pair.accepted(process))


@pytest.mark.parametrize("user", [0, OTHER_USER])
@pytest.mark.parametrize("places", PLACES)
def test_a_captured_port_is_redirected_at_any_address(
    pair: Pair, family: Family, places: dict[Family, str], user: int
) -> None:
    pair.load_for_pod(CAPTURES)
    adm, there = pair.listen(pair.pod, family, EGRESS_PORT), pair.listen(pair.world, family, 81)
    client = pair.connect(pair.pod, family, places[family], DIALLED, user=user)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (places[family], DIALLED)
    assert talks(client, connection)
    assert talks(pair.connect(pair.pod, family, places[family], 81, user=user), pair.accepted(there))


def test_what_the_adm_opens_is_not_looped(pair: Pair, family: Family) -> None:
    server = pair.listen(pair.world, family, DIALLED)
    pair.load_for_pod(CAPTURES)
    client = pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=ADM_USER)
    assert talks(client, pair.accepted(server))
    load_without(pair, family, CAPTURES, f"-m owner --uid-owner {ADM_USER} -g ")
    adm = pair.listen(pair.pod, family, EGRESS_PORT)
    with pytest.raises(ConnectionRefusedError):  # it would loop, and the gate knows
        pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=ADM_USER)
    assert adm


@pytest.mark.long
def test_what_the_adm_opens_is_known_when_its_process_has_closed_it(pair: Pair, family: Family) -> None:
    """The kernel sends the rest without a socket that has an owner."""
    content = bytes(4_000_000)

    def rest() -> int:
        server = pair.listen(pair.world, family, DIALLED)
        client = pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=ADM_USER)
        accepted = pair.accepted(server)
        client.setblocking(False)
        sent = 0
        while True:
            try:
                sent += client.send(content)
            except BlockingIOError:
                break
        client.close()
        received = 0
        try:
            while found := accepted.recv(1 << 20):
                received += len(found)
        except (ConnectionResetError, TimeoutError):
            return sent - received or -1
        finally:
            server.close()
        return sent - received

    pair.load_for_pod(CAPTURES)
    assert rest() == 0
    load_without(pair, family, CAPTURES, "--set-xmark 0x12/0xff", "--set-xmark 0x11/0xff", "0x10/0xf0 -j RETURN")
    pair.in_pod(PREFIX[family], "-I", "ADMC_OUT_GATE", "1", "-m", "owner", "--uid-owner", str(ADM_USER), "-j", "RETURN")
    assert rest() != 0, "by the user id of each packet"


@pytest.mark.parametrize("first", [0, ADM_USER])
@pytest.mark.parametrize("places", PLACES)
def test_a_connection_that_the_system_takes_for_one_that_was_reset_is_refused_not_looped_or_missed(
    pair: Pair, family: Family, places: dict[Family, str], first: int
) -> None:
    pair.load_for_pod(CAPTURES)
    server, adm = pair.listen(pair.world, family, DIALLED), pair.listen(pair.pod, family, EGRESS_PORT)
    client = pair.connect(pair.pod, family, places[family], DIALLED, user=first)
    own = client.getsockname()[:2]
    broken_off(pair.accepted(server if first else adm), client)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.pod, family, places[family], DIALLED, user=0 if first else ADM_USER, source=own)


def test_the_port_of_a_connection_of_the_adm_is_no_way_past_it(pair: Pair, family: Family) -> None:
    """The mark of a connection belongs to the socket that began it last."""
    server = pair.listen(pair.world, family, DIALLED)

    def follow() -> None:
        client = pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=ADM_USER)
        own = client.getsockname()[:2]
        broken_off(pair.accepted(server), client)
        pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=OTHER_USER, source=own)

    pair.load_for_pod(CAPTURES)
    with pytest.raises(ConnectionRefusedError):
        follow()
    load_without(pair, family, CAPTURES, "--set-xmark 0x0/0xff")
    follow()


def test_the_ingress_listener_reaches_its_own_process(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    process = pair.listen(pair.pod, family, 8080)
    client = handed_over(pair, family, 8080)
    connection = pair.accepted(process)
    assert talks(client, connection)
    assert connection.getpeername()[0] == HANDOVER[family]
    client.close()
    assert connection.recv(1) == b""


def test_another_process_is_captured_whatever_address_it_sends_from(pair: Pair, family: Family) -> None:
    """The user and the address belong together: either alone is no way past the ingress listener."""
    pair.load_for_pod(CAPTURES)
    adm, process = pair.listen(pair.pod, family, INGRESS_PORT), pair.listen(pair.pod, family, 8080)
    assert talks(handed_over(pair, family, 8080, user=OTHER_USER), pair.accepted(adm))
    assert talks(pair.connect(pair.pod, family, POD[family], 8080, user=ADM_USER), pair.accepted(adm))
    user = f"-m owner --uid-owner {ADM_USER} "
    text = rules(CAPTURES, "shop/sample", family).splitlines()
    by_source = [line.replace(user, "") if HANDOVER[family] in line else line for line in text if line[:2] != "-I"]
    pair.restore(family, "\n".join([*by_source, ""]))
    assert talks(handed_over(pair, family, 8080, user=OTHER_USER), pair.accepted(process))


def test_the_ingress_listener_does_not_reach_itself_by_a_port_of_another_process(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = handed_over(pair, family, 8080, user=OTHER_USER)
    own = client.getsockname()[1]
    broken_off(pair.accepted(adm), client)
    with pytest.raises(ConnectionRefusedError):
        handed_over(pair, family, 8080, own=own)


@pytest.mark.parametrize("user", [0, ADM_USER])
def test_a_call_to_itself_meets_the_ingress_listener(pair: Pair, family: Family, user: int) -> None:
    pair.load_for_pod(CAPTURES)
    adm = pair.listen(pair.pod, family, INGRESS_PORT)
    client = pair.connect(pair.pod, family, POD[family], 8080, user=user)
    connection = pair.accepted(adm)
    assert original_destination(connection, family) == (POD[family], 8080)
    assert talks(client, connection)


def test_loopback_stays_inside_the_pod(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    for port in (8080, DIALLED):
        process = pair.listen(pair.pod, family, port)
        assert talks(pair.connect(pair.pod, family, LOOPBACK[family], port), pair.accepted(process))


def test_a_call_to_itself_meets_both_listeners_in_turn(pair: Pair, family: Family) -> None:
    pair.load_for_pod(TO_ITSELF)
    listeners = {port: pair.listen(pair.pod, family, port) for port in (EGRESS_PORT, INGRESS_PORT, 8080)}
    client = pair.connect(pair.pod, family, POD[family], 8080)
    assert talks(client, pair.accepted(listeners[EGRESS_PORT]))
    client = pair.connect(pair.pod, family, POD[family], 8080, user=ADM_USER)
    assert talks(client, pair.accepted(listeners[INGRESS_PORT]))
    assert talks(handed_over(pair, family, 8080), pair.accepted(listeners[8080]))


@pytest.mark.parametrize("port", [8080, DIALLED])
def test_answers_pass_to_a_port_that_is_captured(pair: Pair, family: Family, port: int) -> None:
    """A port of the ADM's own connection may be a captured number, and so may a client's."""
    pair.load_for_pod(CAPTURES)
    adm, process = pair.listen(pair.pod, family, INGRESS_PORT), pair.listen(pair.pod, family, 9090)
    client = pair.connect(pair.pod, family, POD[family], 8080, user=ADM_USER, source=(POD[family], port))
    assert talks(client, pair.accepted(adm))
    client = pair.connect(pair.world, family, POD[family], 9090, source=(NODE[family], port))
    assert talks(client, pair.accepted(process))


# The first of two connections from one port, where it arrives, and which may not follow it there.
FOLLOWS = [(ADM_USER, False, INGRESS_PORT, 0, False), (ADM_USER, True, 8080, OTHER_USER, True)]


@pytest.mark.parametrize(("first", "first_over", "arrives", "then", "then_over"), FOLLOWS)
def test_a_call_to_itself_misses_no_listener_by_a_port_of_an_older_one(
    pair: Pair, family: Family, first: int, first_over: bool, arrives: int, then: int, then_over: bool
) -> None:
    pair.load_for_pod(TO_ITSELF)
    listener = pair.listen(pair.pod, family, arrives)

    def dial(user: int, over: bool, own: int) -> socket.socket:
        source = HANDOVER[family] if over else POD[family]
        return pair.connect(pair.pod, family, POD[family], 8080, user=user, source=(source, own))

    client = dial(first, first_over, 0)
    own = client.getsockname()[1]
    broken_off(pair.accepted(listener), client)
    with pytest.raises(ConnectionRefusedError):
        dial(then, then_over, own)


def test_the_port_of_what_was_handed_over_is_no_way_past_the_ingress_listener(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    process = pair.listen(pair.pod, family, 8080)
    client = handed_over(pair, family, 8080)
    own = client.getsockname()[1]
    broken_off(pair.accepted(process), client)
    with pytest.raises(ConnectionRefusedError):
        handed_over(pair, family, 8080, user=OTHER_USER, own=own)


@pytest.mark.parametrize("port", [INGRESS_PORT, EGRESS_PORT])
def test_the_ports_of_the_adm_cannot_be_dialled(pair: Pair, family: Family, port: int) -> None:
    pair.listen(pair.pod, family, port)
    assert pair.connect(pair.world, family, POD[family], port)
    pair.load_for_pod(CAPTURES)
    for user in (0, ADM_USER):
        with pytest.raises(ConnectionRefusedError):
            pair.connect(pair.pod, family, LOOPBACK[family], port, user=user)
    with pytest.raises(ConnectionRefusedError):
        pair.connect(pair.world, family, POD[family], port)


def track(pair: Pair, family: Family) -> None:
    """Makes the kernel track connections, as it does wherever any rule needs it."""
    pair.in_pod(PREFIX[family], "-A", "INPUT", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")


def _reset(pair: Pair, client: socket.socket, server: socket.socket, first: str) -> bool:
    assert talks(client, server)
    pair.load_for_pod(CAPTURES)
    if first == "server":
        server.sendall(b"news")
        assert client.recv(16) == b"news"
    return cut_off(client, server)


@pytest.mark.parametrize("first", ["client", "server"])
@pytest.mark.parametrize("tracked", [False, True])
def test_a_connection_to_the_service_older_than_the_rules_is_reset(
    pair: Pair, family: Family, tracked: bool, first: str
) -> None:
    if tracked:
        track(pair, family)
    process = pair.listen(pair.pod, family, 8080)
    client = pair.connect(pair.world, family, POD[family], 8080)
    assert _reset(pair, client, pair.accepted(process), first)


@pytest.mark.parametrize("first", ["client", "server"])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(("places", "port"), [(SERVICE, 80), (ELSEWHERE, DIALLED)])
def test_a_connection_of_the_service_older_than_the_rules_is_reset(
    pair: Pair, family: Family, places: dict[Family, str], port: int, tracked: bool, first: str
) -> None:
    if tracked:
        track(pair, family)
    listener = pair.listen(pair.world, family, port)
    client = pair.connect(pair.pod, family, places[family], port)
    assert _reset(pair, client, pair.accepted(listener), first)


def test_a_call_to_itself_older_than_the_rules_is_reset(pair: Pair, family: Family) -> None:
    process = pair.listen(pair.pod, family, 8080)
    client = pair.connect(pair.pod, family, POD[family], 8080)
    assert _reset(pair, client, pair.accepted(process), "client")


def test_the_end_of_a_connection_older_than_the_rules_passes(pair: Pair, family: Family) -> None:
    """Its process would keep it for ever."""
    process = pair.listen(pair.pod, family, 8080)
    client = pair.connect(pair.world, family, POD[family], 8080)
    server = pair.accepted(process)
    assert talks(client, server)
    pair.load_for_pod(CAPTURES)
    reset(client)
    with pytest.raises(ConnectionResetError):
        server.recv(1)


def test_rules_that_are_loaded_again_leave_open_connections_as_they_are(pair: Pair, family: Family) -> None:
    pair.load_for_pod(CAPTURES)
    adm, there = pair.listen(pair.pod, family, EGRESS_PORT), pair.listen(pair.world, family, DIALLED)
    client = pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED)
    first = pair.accepted(adm)
    onward = pair.connect(pair.pod, family, ELSEWHERE[family], DIALLED, user=ADM_USER)
    second = pair.accepted(there)
    before = pair.rules(family)
    pair.load_for_pod(CAPTURES)
    assert pair.rules(family) == before
    assert talks(client, first)
    assert talks(onward, second)
