"""The calls that one request to hotel reservation leads to, in the order of DeathStarBench's own services.

The program declares the calls that may be made; only the application determines which of them one request leads to.
Services that load their database once at their start (`geo`, `recommendation`, `user`) call none while they answer. How
often a cache is missed is made up; the sizes of messages, both ways, are the program's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from dsl.program import Call, Program

ENTRY = ("internet", "frontend")
MISSED = 10
"""One question of so many is not in the cache."""
PLAIN_BYTES = 100
"""Of a message whose size the program does not say."""


class Visit(NamedTuple):
    """A call on the way to an answer; `path` is empty on tcp. It is made on every N-th request."""

    service: str
    path: str = ""
    steps: tuple[Visit, ...] = ()
    every: int = 1


class Page(NamedTuple):
    """What users ask the frontend for. Shares are parts of the sum of all shares."""

    path: str
    share: int
    steps: tuple[Visit, ...]


PROFILES = Visit(
    "profile",
    "/profile.Profile/GetProfiles",
    (Visit("memcached-profile"), Visit("mongodb-profile", every=MISSED)),
)
CHECK_USER = Visit("user", "/user.User/CheckUser")
PAGES = (
    Page(
        "/hotels",
        120,
        (
            Visit(
                "search",
                "/search.Search/Nearby",
                (
                    Visit("geo", "/geo.Geo/Nearby"),
                    Visit(
                        "rate",
                        "/rate.Rate/GetRates",
                        (Visit("memcached-rate"), Visit("mongodb-rate", every=MISSED)),
                    ),
                ),
            ),
            PROFILES,
        ),
    ),
    Page(
        "/recommendations", 78, (Visit("recommendation", "/recommendation.Recommendation/GetRecommendations"), PROFILES)
    ),
    Page("/user", 1, (CHECK_USER,)),
    Page(
        "/reservation",
        1,
        (
            CHECK_USER,
            Visit(
                "reservation",
                "/reservation.Reservation/MakeReservation",
                (Visit("memcached-reservation"), Visit("mongodb-reservation")),
            ),
        ),
    ),
)
"""The benchmark's own mixture: 60% searches, 39% recommendations, the rest half logins and half bookings."""


def reached(paths: Collection[str], pages: tuple[Page, ...] = PAGES) -> frozenset[str]:
    """Services that are called whenever one of these pages is asked for: not those behind a cache."""
    asked = tuple(page for page in pages if page.path in paths)
    return frozenset([ENTRY[1], *(visit.service for _, visit in _visits(asked) if visit.every == 1)])


class UndeclaredError(Exception):
    """The program does not declare a call that the application makes."""


def calls_made(pages: tuple[Page, ...] = PAGES) -> frozenset[tuple[str, str]]:
    """Every (source, destination) that some request leads to."""
    return frozenset([ENTRY, *((source, visit.service) for source, visit in _visits(pages))])


def configurations(
    program: Program, address: Mapping[str, str], pages: tuple[Page, ...] = PAGES
) -> dict[str, dict[str, Any]]:
    """The configuration of each service's process, by service. `address` is the one that callers dial.

    Raises `UndeclaredError`.
    """
    calls = {(call.source, call.destination): call for call in program.calls}
    missing = sorted(calls_made(pages) - calls.keys())
    if missing:
        listed = ", ".join(f"`{source} -> {destination}`" for source, destination in missing)
        raise UndeclaredError(f"the application calls along {listed}, which `{program.app}` does not declare")
    routes: dict[str, dict[str, Any]] = {name: {} for name in program.services}
    for page in pages:
        reply = _size(calls[ENTRY])
        routes[ENTRY[1]][page.path] = {"reply": reply, "steps": _steps(ENTRY[1], page.steps, calls, address)}
    for source, visit in _visits(pages):
        if visit.path:
            steps = _steps(visit.service, visit.steps, calls, address)
            routes[visit.service][visit.path] = {"reply": _size(calls[source, visit.service]), "steps": steps}
    return {
        name: {
            "listen": [{"port": port.target, "protocol": port.protocol.value} for port in service.ports],
            "routes": routes[name],
        }
        for name, service in program.services.items()
    }


def _steps(
    source: str, visits: tuple[Visit, ...], calls: Mapping[tuple[str, str], Call], address: Mapping[str, str]
) -> list[dict[str, Any]]:
    found = []
    for visit in visits:
        call = calls[source, visit.service]
        found.append(
            {
                "protocol": call.port.protocol.value,
                "address": f"{address[visit.service]}:{call.port.number}",
                "authority": f"{visit.service}:{call.port.number}",
                "path": visit.path,
                "size": _size(call),
                "every": visit.every,
            }
        )
    return found


def _size(call: Call) -> int:
    return call.size or PLAIN_BYTES


def _visits(pages: tuple[Page, ...]) -> Iterator[tuple[str, Visit]]:
    """Every call behind the entry, with who makes it."""
    for page in pages:
        yield from _below(ENTRY[1], page.steps)


def _below(source: str, visits: tuple[Visit, ...]) -> Iterator[tuple[str, Visit]]:
    for visit in visits:
        yield source, visit
        yield from _below(visit.service, visit.steps)
