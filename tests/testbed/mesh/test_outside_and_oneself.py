"""Outside parties, neighbours, and oneself: which policies a connection meets.

Ways round a policy by address, port, family, name and header are in `tests/fidelity/mesh/ways.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dsl
from admc.testbed.client import Reply
from solver.place import place
from solver.placement import PlacementError
from tests.testbed.mesh import Family, Mesh, Way
from tests.testbed.mesh.needed import AS_COMPILED, NEEDS_MESH

pytestmark = NEEDS_MESH

TEXT = """\
app ways
external internet
external bank { http 8000  host "bank.example" }
service front { http api 80 -> 8080  http admin 81 -> 8081  replicas 2 }
service back  { http api 80 -> 8080  http admin 9000  tcp raw 7000  replicas 2 }
service rogue { http 80 }

call internet -> front:api
call front -> front:admin, back:api, bank
call rogue -> front:admin

policy members  = allow(callers: [front]) on * -> back
policy tag_back = set_request_header(name: "x-out", value: "yes") on front -> back:api
policy tag_bank = set_request_header(name: "x-out", value: "yes") on front -> bank
policy tag_self = set_request_header(name: "x-self", value: "yes") on front -> front:admin
policy tag_in   = set_request_header(name: "x-in", value: "yes") on * -> front:admin
pin members at ingress
pin tag_back at egress
pin tag_self at egress
pin tag_in at ingress
"""


@pytest.fixture(scope="module", params=AS_COMPILED)
def mesh(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program), request.param) as mesh:
        yield mesh


def _tagged(reply: Reply) -> tuple[str, ...]:
    assert reply.seen is not None, reply
    return tuple(name for name, _ in reply.seen.headers if name in ("x-out", "x-self", "x-in"))


@pytest.mark.parametrize("family", list(Family))
def test_an_outside_name_is_met_by_its_port(mesh: Mesh, family: Family) -> None:
    assert _tagged(mesh.request("front", "bank", family=family, authority="anything")) == ("x-out",)
    before = mesh.redirected("front/0")
    with mesh.listen("internet", 8001, family=family):
        mesh.connect("front", mesh.address("internet", family=family), 8001).close()
    assert mesh.redirected("front/0") == before


@pytest.mark.parametrize("family", list(Family))
def test_another_connection_on_a_captured_port_passes_untouched(mesh: Mesh, family: Family) -> None:
    """`bank` is captured by its port alone; what answers at another address there is not `bank`."""
    with mesh.listen("internet", 8000, family=family) as door:
        door.settimeout(60)
        with mesh.connect("front", mesh.address("internet", family=family), 8000) as client:
            client.sendall(b"\0not http\r\n")
            server, (peer, *_) = door.accept()
            with server:
                assert server.recv(64) == b"\0not http\r\n"
                server.sendall(b"indeed")
                assert client.recv(64) == b"indeed"
                assert peer == mesh.place("front").address(family)


@pytest.mark.parametrize("family", list(Family))
def test_a_call_to_oneself_meets_the_policies_of_both_ends(mesh: Mesh, family: Family) -> None:
    for replica in (0, 1):
        reply = mesh.request("front", "front", port=81, way=Way.POD, family=family, replica=replica)
        assert sorted(_tagged(reply)) == ["x-in", "x-self"]
        assert reply.seen is not None
        assert reply.seen.service == "front"


@pytest.mark.parametrize("family", list(Family))
def test_a_call_to_ones_own_service_address_meets_the_policies_of_both_ends(mesh: Mesh, family: Family) -> None:
    """A cluster hides the address of a caller whose own service address leads back to it: no ADM can identify it."""
    for own in (0, 1):
        for _ in range(3):
            tags = _tagged(mesh.request("front", "front", port=81, family=family, source_replica=own))
            assert sorted(tags) == ["x-in", "x-self"]


def test_what_tells_a_service_from_itself_is_no_policy_for_its_ingress() -> None:
    program = dsl.load_text(TEXT.replace("on * -> front:admin", "on front -> front:admin"))
    with pytest.raises(PlacementError):
        place(program)


@pytest.mark.parametrize("family", list(Family))
def test_a_declared_neighbour_meets_none_of_anothers_policies(mesh: Mesh, family: Family) -> None:
    for way in Way:
        assert _tagged(mesh.request("rogue", "front", port=81, way=way, family=family)) == ("x-in",)
