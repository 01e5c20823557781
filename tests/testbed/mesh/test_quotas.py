"""In a network of one family alone a quota counts every way in together: one bucket, whatever the replicas.

`tests/fidelity/mesh/test_limits.py` does the same for both families at once, each protocol, and both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

import dsl
from solver.place import place
from tests.testbed.mesh import Family, Mesh, Mode, Way
from tests.testbed.mesh.needed import AS_COMPILED, NEEDS_MESH

pytestmark = NEEDS_MESH
TEXT = """\
app shared
external internet
service front { http 80 -> 8080  replicas 2 }
call internet -> front
policy entrance = rate_limit(requests: 10, per: 60s) on internet -> front
"""


@pytest.fixture(scope="module", params=AS_COMPILED)
def mode(request: pytest.FixtureRequest) -> Mode:
    chosen: Mode = request.param
    return chosen


@pytest.fixture(scope="module", params=Family)
def shared(request: pytest.FixtureRequest, mode: Mode) -> Iterator[Mesh]:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program), mode, families=(request.param,)) as mesh:
        yield mesh


def _ways(mesh: Mesh) -> list[tuple[Way, Family]]:
    return [(way, family) for way in Way for family in mesh.layout.families]


def _emptied(
    ask: Callable[[int], str], refused: str, *, amount: int, period: float, least: int
) -> tuple[list[str], float]:
    """What is answered to so many requests and until one is refused, and how many may pass: a bucket fills again while
    one looks, and on a slow machine one looks for long."""
    began = time.monotonic()
    labels: list[str] = []
    while len(labels) < least or refused not in labels:
        labels.append(ask(len(labels)))
        assert len(labels) < 10 * least
    return labels, amount + amount * (time.monotonic() - began) / period


def test_a_quota_is_shared_by_the_replicas_and_all_ways_in(shared: Mesh) -> None:
    """From many addresses of the caller's network, to each replica as often as to the other."""
    ways = _ways(shared)

    def ask(index: int) -> str:
        number, (way, family) = index // len(ways) % 16, ways[index % len(ways)]
        own = ("10.3.1.{}" if family is Family.IPV4 else "fd00:3:1::{}").format(7 + number)
        return shared.request("internet", "front", way=way, family=family, replica=number % 2, source_address=own).label

    labels, most = _emptied(ask, "429", amount=10, period=60.0, least=16 * len(ways))
    assert 10 <= labels.count("200") <= most
    assert set(labels) == {"200", "429"}
