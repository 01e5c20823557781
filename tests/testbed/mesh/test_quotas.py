"""Quotas count every way in together, at the place that the plan says: one bucket, whatever the replicas."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import dsl
from admc.testbed.client import Request
from solver.place import place
from tests.testbed.mesh import Family, Mesh, Way
from tests.testbed.mesh.needed import NEEDS_MESH

pytestmark = NEEDS_MESH
HOTEL = Path("examples/hotel_reservation/policies.adm")
BOOKING = Request(path="/reservation.Reservation/MakeReservation")
TEXT = """\
app shared
external internet
service front { http 80 -> 8080  replicas 2 }
call internet -> front
policy entrance = rate_limit(requests: 10, per: 60s) on internet -> front
"""
FAMILIES = [
    pytest.param((Family.IPV4,), id="ipv4"),
    pytest.param((Family.IPV6,), id="ipv6"),
    pytest.param(tuple(Family), id="both"),
]


@pytest.fixture(scope="module", params=FAMILIES)
def hotel(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    program = dsl.load(HOTEL)
    with Mesh(program, place(program), families=request.param) as mesh:
        yield mesh


@pytest.fixture(scope="module", params=FAMILIES)
def shared(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    program = dsl.load_text(TEXT)
    with Mesh(program, place(program), families=request.param) as mesh:
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


def test_a_quota_bites_at_its_place_and_counts_every_way_in(hotel: Mesh) -> None:
    """`booking_quota`: 90 in a minute at the reservation's own ADM; the declared caller and others share it."""
    before = {name: proxy.accepted() for name, proxy in hotel.proxies.items()}
    callers = [(source, way, family) for source in ("frontend", "search") for way, family in _ways(hotel)]

    def ask(index: int) -> str:
        source, way, family = callers[index % len(callers)]
        return hotel.request(source, "reservation", BOOKING, way=way, family=family).label

    labels, most = _emptied(ask, "RESOURCE_EXHAUSTED", amount=90, period=60.0, least=96)
    assert labels[:90] == ["OK"] * 90
    assert labels.count("OK") <= most
    assert set(labels) == {"OK", "RESOURCE_EXHAUSTED"}
    assert len(hotel.arrivals("reservation")) == labels.count("OK")
    assert hotel.proxies["reservation/0"].accepted() > before["reservation/0"]
    assert hotel.proxies["user/0"].accepted() == before["user/0"]
    other = Request(path="/reservation.Reservation/CheckAvailability")
    assert hotel.request("frontend", "reservation", other, family=hotel.layout.families[0]).ok


def test_a_limit_on_connections_bites_at_the_sender(hotel: Mesh) -> None:
    """`booking_db`: 10 in ten seconds, kept by the only one who opens them; the database has no ADM."""
    ways = _ways(hotel)

    def ask(index: int) -> str:
        way, family = ways[index % len(ways)]
        return hotel.request("reservation", "mongodb-reservation", way=way, family=family).label

    labels, most = _emptied(ask, "connection closed", amount=10, period=10.0, least=12)
    assert labels[:10] == ["200"] * 10
    assert labels.count("200") <= most
    assert set(labels) == {"200", "connection closed"}
    refused = hotel.request("user", "mongodb-reservation", family=hotel.layout.families[0])
    assert refused.label == "connection refused"


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
