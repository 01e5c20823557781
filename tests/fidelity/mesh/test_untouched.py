"""Every example as compiled, seen from outside: nothing stands where nothing has to.

Processes are the host's own list, rules and counters the kernel's: none of it is asked of the plan that is tested.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dsl
from admc.testbed.matching import meeting
from dsl.program import Side
from tests.fidelity.mesh.beds import bed
from tests.fidelity.mesh.derive import possible
from tests.fidelity.selecting import called, policies_of
from tests.testbed.mesh import Family, Mode
from tests.testbed.mesh import outside as host
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from dsl.program import Call
    from tests.testbed.mesh import Mesh

pytestmark = [pytest.mark.long, NEEDS_MESH]
EXAMPLES = sorted(Path("examples").glob("*/policies.adm"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_only_enforced_traffic_meets_an_adm(path: Path) -> None:
    program = dsl.load(path)
    with bed(program, Mode.COMPILED) as mesh:
        assert _where_nothing_is_needed_nothing_is(mesh) == []
        wrong = {}
        for call in program.calls:
            taken, needed, sent_on = _taken(mesh, call), _hosts(mesh, call), _sent_on(mesh, call)
            if not needed <= taken <= needed | sent_on:
                wrong[f"{call.source} -> {call.destination}:{call.port.number}"] = (taken, needed)
        assert wrong == {}


def _where_nothing_is_needed_nothing_is(mesh: Mesh) -> list[str]:
    """Places with a proxy or a rule that host no ADM, and hosts without."""
    assert mesh.placement is not None
    hosts = {adm.service for adm in mesh.placement.adms}
    everything = host.processes()
    found = []
    for place in mesh.layout.places:
        if place.on_node:
            continue
        proxies = [each for each in everything.get(mesh.inodes[place.name], ()) if each.is_proxy]
        rules = [rule for family in Family for rule in mesh.rules(place.name, family)]
        if (len(proxies), bool(rules)) != ((1, True) if place.party in hosts else (0, False)):
            found.append(f"{place.name}: {len(proxies)} proxies, {len(rules)} rules")
    return found


def _taken(mesh: Mesh, call: Call) -> frozenset[str]:
    """The places whose rules took a connection of this call to their ADM, by whatever way it was made."""
    request = meeting(mesh.program, call, None)
    assert request is not None  # any request will do
    before = {name: mesh.redirected(name) for name in mesh.proxies}
    ways = [each for each in possible(mesh.program, call.source, call.destination, call.port) if not each.version]
    for way in ways:
        mesh.request(
            call.source,
            call.destination,
            request,
            port=call.port.number,
            way=way.way,
            family=way.family,
            source_replica=way.sender,
            replica=way.replica,
        )
    assert ways
    return frozenset(name for name, count in before.items() if mesh.redirected(name) > count)


def _hosts(mesh: Mesh, call: Call) -> frozenset[str]:
    """Whose ADMs have something to do with a call on this port."""
    assert mesh.placement is not None
    index = mesh.program.calls.index(call)
    found: set[str] = set()
    for decision in mesh.placement.decisions:
        if decision.destination != call.destination:
            continue
        if Side.INGRESS in decision.place.sides and call.port.number in decision.ports:
            found.add(call.destination)
        if Side.EGRESS in decision.place.sides and index in decision.calls:
            found.add(call.source)
    return frozenset(place.name for name in found for place in mesh.layout.of(name))


def _sent_on(mesh: Mesh, call: Call) -> frozenset[str]:
    """Whose ADMs may meet what a split or a mirror of this call sends elsewhere."""
    policies = policies_of(mesh.program, call.source, call.destination, call.port)
    goals = {name for policy in policies for name in called(policy)}
    others = (each for each in mesh.program.calls if each.source == call.source and each.destination in goals)
    return frozenset(name for other in others for name in _hosts(mesh, other))
