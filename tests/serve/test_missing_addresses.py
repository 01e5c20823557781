"""While addresses are missing nothing passes unenforced, and other connections pass as before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import dsl
from emitters.envoy import Mode, emit
from emitters.envoy.bootstrap import static_json
from emitters.envoy.messages.typed import to_yaml
from solver.place import place
from tests.testbed.mesh import Mesh
from tests.testbed.mesh.needed import NEEDS_MESH

if TYPE_CHECKING:
    from emitters.addresses import Addresses, ServiceAddresses

pytestmark = NEEDS_MESH

TEXT = """\
app awaited
service a { http 8080 }
service b { http web 8080  http admin 9000 }
service c { http 8080 }
service d { http 8080 }
service e { http 8080 }
call a, e -> b:admin
call a -> c
call d -> c
call a -> b:web
policy out = set_request_header(name: "x-out", value: "yes") on a -> b:web
policy in  = set_request_header(name: "x-in", value: "yes") on a -> c
pin out at egress
pin in at ingress
"""


class Awaiting(Mesh):
    """ADMs with the configuration of a server that lacks some addresses. The redirection is complete."""

    def __init__(self, text: str, unknown: frozenset[str], nowhere: frozenset[str] = frozenset()) -> None:
        program = dsl.load_text(text)
        super().__init__(program, place(program))
        self._unknown = unknown
        self._nowhere = nowhere

    @property
    def _told(self) -> Addresses:
        known: dict[str, ServiceAddresses] = {
            name: found._replace(addresses=(), pods=()) if name in self._nowhere else found
            for name, found in self.addresses.services.items()
            if name not in self._unknown
        }
        return replace(self.addresses, services=known)

    def _files(self) -> dict[str, bytes]:
        assert self.placement is not None
        told = emit(self.program, self.placement, self._told, Mode.REDIRECT, waiting=True)
        bootstraps = {f"{each.service}/bootstrap.yaml": to_yaml(static_json(each)) for each in told}
        return super()._files() | bootstraps


def outcome(mesh: Mesh, source: str, destination: str, port: int = 8080) -> str:
    """Which policies a request met, and `refused` if it did not arrive."""
    mesh.arrivals(forget=True)
    reply = mesh.request(source, destination, port=port)
    arrived = len(mesh.arrivals(destination))
    if reply.seen is None:
        assert arrived == 0, reply
        return "refused"
    assert arrived == 1
    return " ".join(name for name, _ in reply.seen.headers if name in ("x-out", "x-in")) or "plain"


def test_with_all_addresses_every_request_meets_its_policies() -> None:
    with Awaiting(TEXT, frozenset()) as mesh:
        assert outcome(mesh, "a", "b") == "x-out"
        assert outcome(mesh, "a", "c") == "x-in"
        assert outcome(mesh, "d", "c") == "plain"
        assert outcome(mesh, "a", "b", 9000) == "plain"


def test_calls_to_a_destination_without_addresses_are_refused() -> None:
    with Awaiting(TEXT, frozenset({"b"})) as mesh:
        assert outcome(mesh, "a", "b") == "refused"
        # Other destinations at the same port, and other ports of the same service, are not affected.
        assert outcome(mesh, "a", "c") == "x-in"
        assert outcome(mesh, "a", "b", 9000) == "plain"


def test_callers_without_addresses_are_refused_where_a_policy_applies_to_one_of_them() -> None:
    with Awaiting(TEXT, frozenset({"a"})) as mesh:
        assert outcome(mesh, "a", "c") == "refused"
        assert outcome(mesh, "d", "c") == "plain"
        # At egress the sender is known.
        assert outcome(mesh, "a", "b") == "x-out"


def test_a_service_that_is_listed_without_pods_refuses_no_connections() -> None:
    with Awaiting(TEXT, frozenset(), nowhere=frozenset({"e"})) as mesh:
        assert outcome(mesh, "d", "c") == "plain"
        assert outcome(mesh, "a", "c") == "x-in"
