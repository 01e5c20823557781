"""Placements to draw, with everything that a picture has a sign for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.program import Protocol
from tests.emitters.interception.build import external, placement, port, program, service

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement


def hotel() -> tuple[Program, Placement]:
    """Part of hotel reservation: ingress, egress, a closed database, services that cannot host, outside parties."""
    grpc, tcp = port(8083, protocol=Protocol.GRPC), port(27017, protocol=Protocol.TCP)
    made = program(
        [
            external("internet"),
            external("maps", port(443), hosts=["maps.example"]),
            service("frontend", port(5000), replicas=2),
            *(service(name, grpc) for name in ("search", "geo", "rate", "user", "profile")),
            service("mongo_rate", tcp, hosts_adm=False),
            service("mongo_user", tcp),
        ],
        [
            ("internet", "frontend"),
            *(("frontend", name) for name in ("search", "user", "profile")),
            ("search", "geo"),
            ("search", "rate"),
            ("geo", "maps"),
            ("rate", "mongo_rate"),
            ("user", "mongo_user"),
            ("profile", "frontend"),
            ("search", "search"),
        ],
        ["search_quota", "who_reads", "flaky_geo", "limit_db", "audit"],
        app="hotel_reservation",
    )
    return made, placement(
        made,
        {
            ("search_quota", "search"): "ingress",
            ("who_reads", "rate"): "egress",
            ("flaky_geo", "geo"): "egress",
            ("limit_db", "mongo_rate"): "egress",
            ("audit", "user"): "ingress egress",
        },
        open_=[("limit_db", "mongo_rate")],
    )
