"""None, full and compiled of one program; and translation in the caller's own namespace, beside the emitted rules."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsl
from admc.testbed.client import Request
from dsl.program import Program
from emitters.interception.pod import HANDOVER
from emitters.ports import ADM_USER
from solver.place import place
from tests.testbed.mesh import Family, Mesh, MeshError, Mode, Translation, Way
from tests.testbed.mesh.needed import AS_COMPILED, NEEDS_MESH, NEEDS_ROOT
from tests.testbed.mesh.pod import plain

pytestmark = NEEDS_MESH
TEXT = """\
app modes
service a    { http 80 -> 8080 }
service b    { http 80 -> 8080  replicas 2 }
service c    { grpc 90 }
service data { tcp 5000  no adm }
call a -> b, c
call b -> data
policy tag  = set_request_header(name: "x-out", value: "yes") on a -> b
policy stop = deny() on a -> b when path == "/stop"
pin tag at egress
pin stop at egress
"""
WAYS = [(way, family) for way in Way for family in Family]


@pytest.fixture(scope="module")
def program() -> Program:
    return dsl.load_text(TEXT)


def _tags(mesh: Mesh, way: Way = Way.SERVICE, family: Family = Family.IPV4) -> list[tuple[str, ...]]:
    replies = [mesh.request("a", "b", way=way, family=family, replica=replica) for replica in (0, 1)]
    return [reply.seen.header("x-out") if reply.seen else (reply.label,) for reply in replies]


def test_none_has_nothing_in_between(program: Program) -> None:
    with Mesh(program, None, Mode.NONE) as mesh:
        for spot in mesh.layout.places:
            assert not any(process.is_proxy for process in mesh.processes(spot.name))
            assert [rule for family in Family for rule in mesh.rules(spot.name, family)] == []
        assert _tags(mesh) == [(), ()]
        assert mesh.request("a", "b", Request(path="/stop")).ok
        assert mesh.request("b", "data").ok


@pytest.mark.long
def test_full_has_a_sidecar_at_both_ends_of_every_call(program: Program) -> None:
    with Mesh(program, place(program), Mode.FULL) as mesh:
        for spot in mesh.layout.places:
            assert sum(process.is_proxy for process in mesh.processes(spot.name)) == 1, spot.name
        for way, family in WAYS:
            for call in program.calls:
                ends = f"{call.source}/0", [f"{call.destination}/{n}" for n in range(2)]
                before = mesh.accepted(ends[0]), sum(mesh.redirected(end) for end in ends[1] if end in mesh.proxies)
                assert mesh.request(call.source, call.destination, way=way, family=family).ok
                after = mesh.accepted(ends[0]), sum(mesh.redirected(end) for end in ends[1] if end in mesh.proxies)
                assert after[0] == before[0] + 1
                # A sidecar keeps its connections to the next one, so there is not one for each request.
                assert after[1] >= before[1]
            assert _tags(mesh, way, family) == [("yes",), ("yes",)]
        assert all(mesh.redirected(spot.name) for spot in mesh.layout.of("data") + mesh.layout.of("c"))
        assert mesh.request("a", "b", Request(path="/stop")).label == "403"


@pytest.mark.long
@pytest.mark.parametrize("mode", AS_COMPILED)
@pytest.mark.parametrize("where", list(Translation))
def test_the_emitted_rules_and_a_clusters_translation_share_the_table(
    program: Program, where: Translation, mode: Mode
) -> None:
    with Mesh(program, place(program), mode, translate=where) as mesh:
        own = mesh.rules("a/0", table="nat")
        jumps = [rule.text.rpartition(" ")[2] for rule in own if rule.chain == "OUTPUT"]
        assert jumps == ["ADMC_OUT", *(["BED_SERVICES"] if where is Translation.POD else [])]
        for way, family in WAYS:
            assert _tags(mesh, way, family) == [("yes",), ("yes",)]
            assert mesh.request("a", "b", Request(path="/stop"), way=way, family=family).label == "403"
            before = mesh.redirected("a/0")
            assert mesh.request("a", "c", way=way, family=family).ok
            assert mesh.request("b", "data", way=way, family=family).ok
            assert mesh.redirected("a/0") == before
        if where is Translation.POD:  # the ADM's own connections are translated where all others are
            used = [rule for rule in mesh.rules("a/0", table="nat") if rule.chain == "BED_SERVICES" and rule.packets]
            assert any(mesh.address("b") in rule.text for rule in used)


@NEEDS_ROOT
def test_an_adm_in_a_pod_has_no_privilege_and_its_process_sees_the_address_of_the_handover() -> None:
    program = dsl.load_text(TEXT.replace("at egress", "at ingress"))
    with Mesh(program, place(program), Mode.POD) as mesh:
        assert mesh.proxies.keys() == {"b/0", "b/1"}
        for proxy in mesh.proxies.values():
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{proxy.pid}/status").read_text().splitlines() if ":" in line
            )
            assert set(status["Uid"].split()) == set(status["Gid"].split()) == {str(ADM_USER)}
            assert status["Groups"].split() == []
            assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"))
            assert status["NoNewPrivs"].strip() == "1"
        for way, family in WAYS:
            seen = mesh.request("a", "b", way=way, family=family).seen
            assert seen is not None
            assert seen.header("x-out") == ("yes",)
            assert plain(seen.peer) == HANDOVER[family]
            assert mesh.request("a", "b", Request(path="/stop"), way=way, family=family).label == "403"


def test_each_replica_gets_its_turn(program: Program) -> None:
    with Mesh(program, None, Mode.NONE) as mesh:
        for _ in range(4):
            assert mesh.request("a", "b").ok
        assert sorted(each.place for each in mesh.arrivals("b")) == ["b/0", "b/0", "b/1", "b/1"]
        times = [each.at for each in mesh.arrivals()]
        assert times == sorted(times)


def test_a_mode_with_proxies_needs_a_placement(program: Program) -> None:
    with pytest.raises(MeshError, match="placement is needed"):
        Mesh(program, None, Mode.COMPILED)
