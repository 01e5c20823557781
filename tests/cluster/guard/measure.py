"""How long the API server takes to create a pod, with the guard and without it.

The pods are created by dry run, by turns in a namespace that is guarded and in one that is not, so that both have the
same load of the machine.
"""

from __future__ import annotations

import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.inject.model import PodNeeds
from admc.kubernetes.inject.spec import Captures, Required, ServiceInjection
from emitters.interception.pod import PodCaptures
from tests.cluster.guard import pods
from tests.cluster.guard.policy import guard, guarded, install, said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.cluster.api_server import ApiServer
    from tests.cluster.guard.policy import Guarded

SERVICES: Final = (0, 200, 2_000)
PODS: Final = 500
SECONDS: Final = 60.0
NEEDS: Final = Required(waits=True, captures=Captures((9000,), (27017,)))


class Measured(NamedTuple):
    services: int
    """In the `Injection`, each of them guarded."""
    guarded: float
    """Median of the milliseconds for a pod of a guarded service; of any pod, without services."""
    other: float
    """For another pod of that namespace."""
    without: float
    """For the same pod in a namespace without a guard."""


def measured(api: ApiServer, services: Sequence[int] = SERVICES, number: int = PODS) -> list[Measured]:
    install(api)
    install(api, guard())
    with ExitStack() as stack:
        free = stack.enter_context(guarded(api, "measured-free", "none"))
        return [
            _measured(stack.enter_context(guarded(api, f"measured-{count}")), free, count, number) for count in services
        ]


def _measured(place: Guarded, free: Guarded, services: int, number: int) -> Measured:
    rows = {
        f"service-{index}": ServiceInjection(
            {"app": f"service-{index}", "tier": "back"}, NEEDS.waits, captures=NEEDS.captures, required=NEEDS
        )
        for index in range(services)
    }
    place.inject(rows)
    labels = {"app": "service-0", "tier": "back"}
    if services:
        _until_judged(place, labels)
    captures = PodCaptures(frozenset({9000}), frozenset({27017}))
    pod = pods.pod(PodNeeds("shop/service-0", captures, waits=True), labels)
    other = {**pod, "metadata": {"name": "tried", "labels": {"app": "other"}}}
    times: list[list[float]] = [[], [], []]
    for _ in range(number):
        for column, (where, created) in zip(times, ((place, pod), (place, other), (free, pod)), strict=True):
            begun = time.perf_counter()
            status, answer = where.create(created)
            column.append(1_000 * (time.perf_counter() - begun))
            assert status == 201, answer
    return Measured(services, *(round(statistics.median(column), 2) for column in times))


def _until_judged(place: Guarded, labels: dict[str, str]) -> None:
    bare: dict[str, Any] = pods.pod(PodNeeds("", None, waits=False), labels)
    deadline = time.monotonic() + SECONDS
    while not said(place.create(bare)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
