"""Quotas count every way in together, at the place that the plan says: one bucket, whatever the replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dsl
from solver.place import place
from tests.testbed.client import Request
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


def test_a_quota_bites_at_its_place_and_counts_every_way_in(hotel: Mesh) -> None:
    """`booking_quota`: 90 in a minute at the reservation's own ADM; the declared caller and others share it."""
    before = {name: proxy.accepted() for name, proxy in hotel.proxies.items()}
    callers = [(source, way, family) for source in ("frontend", "search") for way, family in _ways(hotel)]
    labels = []
    for index in range(96):
        source, way, family = callers[index % len(callers)]
        labels.append(hotel.request(source, "reservation", BOOKING, way=way, family=family).label)
    assert labels[:90] == ["OK"] * 90
    assert "RESOURCE_EXHAUSTED" in labels[90:]
    assert set(labels[90:]) <= {"OK", "RESOURCE_EXHAUSTED"}  # a bucket fills again while one looks
    assert len(hotel.arrivals("reservation")) == labels.count("OK")
    assert hotel.proxies["reservation/0"].accepted() > before["reservation/0"]
    assert hotel.proxies["user/0"].accepted() == before["user/0"]
    other = Request(path="/reservation.Reservation/CheckAvailability")
    assert hotel.request("frontend", "reservation", other, family=hotel.layout.families[0]).ok


def test_a_limit_on_connections_bites_at_the_sender(hotel: Mesh) -> None:
    """`booking_db`: 10 in ten seconds, kept by the only one who opens them; the database has no ADM."""
    ways = _ways(hotel)
    labels = []
    for index in range(12):
        way, family = ways[index % len(ways)]
        labels.append(hotel.request("reservation", "mongodb-reservation", way=way, family=family).label)
    assert labels == ["200"] * 10 + ["connection closed"] * 2
    refused = hotel.request("user", "mongodb-reservation", family=hotel.layout.families[0])
    assert refused.label == "connection refused"


def test_a_quota_is_shared_by_the_replicas_and_all_ways_in(shared: Mesh) -> None:
    """From many addresses of the caller's network, to each replica as often as to the other."""
    labels = []
    for index in range(16):
        for way, family in _ways(shared):
            own = ("10.3.1.{}" if family is Family.IPV4 else "fd00:3:1::{}").format(7 + index)
            reply = shared.request("internet", "front", way=way, family=family, replica=index % 2, source_address=own)
            labels.append(reply.label)
    assert labels.count("200") == 10
    assert labels.count("429") == len(labels) - 10
