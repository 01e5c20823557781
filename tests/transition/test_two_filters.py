"""A policy may need several filters: a route that skips the policy skips all of them."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Any

import pytest
from envoy.config.route.v3 import route_components_pb2

from admc.testbed.envoys import envoy_binary
from admc.transition.model import Phase, Placed
from admc.transition.resources import resources
from admc.transition.steps import steps
from admc.transition.toggles import _routes
from dsl import load
from dsl.program import Stage
from emitters.addresses import loopback
from emitters.envoy import Mode, emit
from emitters.envoy.kinds.registry import filter_names
from emitters.envoy.names import filter_name
from emitters.hops import hops
from solver.place import place
from tests.transition.bed import Bed
from tests.transition.cases import CASES, FILES, program
from tests.transition.move import KEY, PORT, ends

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.long

ENVOY = envoy_binary()
NARROW, WIDE = 10, 1_000
BODY = b"b" * 100
"""Too much for the one limit and not for the other."""


@pytest.mark.parametrize("side", ["ingress", "egress"])
def test_what_a_policy_is_called_is_all_of_its_filters(side: str, tmp_path: Path) -> None:
    """Of every kind that can change sides."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "all.adm"
    path.write_text(program(side, PORT, str(tmp_path)))
    loaded = load(path)
    placed = Placed(loaded, place(loaded))
    found = {each.service: each for each in emit(*placed, loopback(loaded), Mode.EXPLICIT)}
    tried = set()
    for service, own in hops(*placed).items():
        expected: set[str] = set()
        chosen: set[str] = set()
        for hop in filter(lambda hop: hop.carries_requests, own):
            filters = [policy for policy in hop.policies if hop.stage(policy) is Stage.FILTER]
            tried.update(policy.kind.name for policy in filters)
            expected.update(name for policy in filters for name in filter_names(hop.name, policy))
            # What sits in a cluster or a route may have a filter that chooses it.
            chosen.update(filter_name(hop.name, policy) for policy in hop.policies if policy not in filters)
        assert expected == found[service].extensions.keys() - chosen
    assert {case.kind for case in CASES} - {"inner"} <= tried


def limits(first: int, then: int, sides: tuple[str, str]) -> tuple[Placed, Placed]:
    """A limit that changes sides, and how much it lets pass."""
    text = "policy counted = request_count() on shop -> cart\npin counted at egress\n"
    text += "policy small = buffer_limit(max: {}B) on shop -> cart\npin small at SIDE"
    return ends(text.format(first), sides)[0], ends(text.format(then), sides)[1]


def disabled(table: Any) -> list[set[str]]:
    """Of each route, the filters that are skipped."""
    found = []
    for host in table.virtual_hosts:
        for route in _routes(host):
            off = set()
            for name, packed in route.typed_per_filter_config.items():
                config = route_components_pb2.FilterConfig()
                if packed.Unpack(config) and config.disabled:
                    off.add(name)
            found.append(off)
    return found


@pytest.mark.parametrize("sides", [("ingress", "egress"), ("egress", "ingress")])
def test_where_a_policy_is_skipped_all_of_its_filters_are(sides: tuple[str, str]) -> None:
    old, new = limits(NARROW, WIDE, sides)
    skipped = 0
    for step in steps(old, new, KEY):
        for service, found in resources(step, loopback(new.program), Mode.EXPLICIT).items():
            for hop, toggle in step.parts[service].toggles.items():
                filters = {name for name in found.extensions if name.startswith(f"{hop}/small:")}
                if toggle.off and filters:
                    skipped += 1
                    assert len(filters) == 2
                    assert all(off >= filters for off in disabled(found.routes[hop]))
    assert skipped > 2


@pytest.mark.skipif(ENVOY is None, reason="no Envoy for this platform")
@pytest.mark.parametrize(
    ("first", "then", "until"),
    [(WIDE, NARROW, Phase.PREPARE), (NARROW, WIDE, Phase.RELEASE)],
    ids=["comes", "leaves"],
)
def test_a_limit_that_is_skipped_refuses_nothing(first: int, then: int, until: Phase, tmp_path: Path) -> None:
    old, new = limits(first, then, ("ingress", "egress"))
    assert ENVOY is not None
    with Bed(old, tmp_path, ENVOY) as bed:
        for step in steps(old, new, KEY):
            bed.publish(step)
            if step.phase is until:
                break
        connection = http.client.HTTPConnection("cart", timeout=20)
        connection.sock = bed.egress("shop", "cart")()
        connection.request("POST", "/", BODY)
        assert connection.getresponse().status == 200
        connection.close()
