"""Guards in the network: the callers that get through to each number, and the policies that their requests meet."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import dsl
from dsl.program import Place
from solver.place import place
from tests.fidelity.mesh.admitting import Fate, Knock, Network
from tests.fidelity.mesh.networks import destinations, drawn, knocks, requests, run
from tests.fidelity.mesh.requests import declared
from tests.testbed.mesh import Mode, Transport
from tests.testbed.mesh.needed import AS_COMPILED, NEEDS_MESH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Program

SEEDS = range(6)
QUICK = 3
"""The seed that is part of `make test`."""
LONG = (0, 4)
EVENTS = (
    *(f"{who} {fate}" for who in ("a call", "no call", "outside") for fate in (Fate.ADMITTED, Fate.DROPPED)),
    *("a node admitted", "a wait at the sender", "two targets", "a twin", "a port beside", "an ADM", "udp", "sctp"),
)
PROGRAM = """\
app small
network_policies enforced
accept host_network
external office { cidr "10.9.0.0/16" }
external beside { cidr "10.8.0.0/16" }
service a, b, c { http 80 }
service agent { http 80  host_network }
service d { http main 80 -> 8080  http twin 81 -> 8080  http metrics 9100  replicas 2 }
call a -> d:main, d:twin
policy few = allow(callers: [a, b, office]) on * -> d:main, d:twin
"""


@pytest.mark.parametrize(
    ("knock", "fate"),
    [
        (Knock("a", "d", Transport.TCP, 8080), Fate.ADMITTED),
        (Knock("b", "d", Transport.TCP, 8080), Fate.ADMITTED),
        (Knock("c", "d", Transport.TCP, 8080), Fate.DROPPED),
        (Knock("c", "d", Transport.TCP, 80), Fate.ADMITTED),
        (Knock("c", "d", Transport.TCP, 9100), Fate.ADMITTED),
        (Knock("a", "d", Transport.UDP, 8080), Fate.DROPPED),
        (Knock("a", "d", Transport.SCTP, 8080), Fate.DROPPED),
        (Knock("a", "d", Transport.UDP, 8081), Fate.ADMITTED),
        (Knock("office", "d", Transport.TCP, 8080), Fate.ADMITTED),
        (Knock("beside", "d", Transport.TCP, 8080), Fate.DROPPED),
        (Knock("agent", "d", Transport.UDP, 8080), Fate.ADMITTED),
        (Knock("d", "d", Transport.TCP, 8080, sender=1, replica=1), Fate.ADMITTED),
        (Knock("d", "d", Transport.TCP, 8080, sender=1, replica=0), Fate.DROPPED),
        (Knock("d", "d", Transport.TCP, 8080, replica=None), Fate.EITHER),
        (Knock("c", "a", Transport.TCP, 80), Fate.ADMITTED),
    ],
    ids=str,
)
def test_the_judge_of_the_network(knock: Knock, fate: Fate) -> None:
    program = dsl.load_text(PROGRAM)
    assert Network(program, place(program)).fate(knock) is fate


def test_policies_at_the_senders_admit_those_with_a_call_alone() -> None:
    program = dsl.load_text(f"{PROGRAM}policy n = request_count() on * -> d:main, d:twin\npin n at egress\n")
    network = Network(program, place(program))
    assert network.fate(Knock("a", "d", Transport.TCP, 8080)) is Fate.ADMITTED
    assert network.fate(Knock("b", "d", Transport.TCP, 8080)) is Fate.DROPPED


def test_random_applications_meet_what_the_network_is_about() -> None:
    met = Counter(event for seed in SEEDS for event in _events(drawn(seed), seed))
    for event in EVENTS:
        assert met[event] >= 2, (event, met)
    assert met["a node dropped"] == 0
    for other in (Place.INGRESS, Place.EGRESS):
        assert met[f"network and {other}"] >= 2, met


def _events(program: Program, seed: int) -> Iterator[str]:
    placement = place(program)
    network = Network(program, placement)
    names = destinations(program)
    for asked in requests(program, placement, seed, names):
        if (asked.destination, asked.port.target) not in network.closed:
            continue
        fate = network.of(asked)
        yield f"{'a call' if declared(program, asked) else 'no call'} {fate}"
        if asked.source in program.externals:
            yield f"outside {fate}"
        if asked.source == "agent":
            yield f"a node {fate}"
        if fate is Fate.DROPPED and network.meets_senders(asked):
            yield "a wait at the sender"
    yield from (
        str(each.transport) for each in knocks(program, placement, seed, names) if network.fate(each) is Fate.DROPPED
    )
    for name in names:
        places = {each.place for each in placement.decisions if each.destination == name}
        closed = {target for of, target in network.closed if of == name}
        ports = program.services[name].ports
        if Place.NETWORK in places:
            yield from (f"network and {other}" for other in places)
            yield from ["two targets"] * (len(closed) > 1)
            yield from ["a twin"] * (len({port.target for port in ports}) < len(ports))
            yield from ["a port beside"] * (not {port.target for port in ports} <= closed)
            yield from ["an ADM"] * any(adm.service == name for adm in placement.adms)


@NEEDS_MESH
def test_a_random_application_is_as_judged() -> None:
    assert run(QUICK, Mode.COMPILED) == []


@pytest.mark.long
@NEEDS_MESH
@pytest.mark.parametrize("mode", AS_COMPILED)
@pytest.mark.parametrize("seed", LONG)
def test_random_applications_are_as_judged(seed: int, mode: Mode) -> None:
    assert run(seed, mode) == []
