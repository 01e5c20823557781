"""A sequence of programs: the next one comes when the last is in force everywhere, or before."""

from __future__ import annotations

import logging
import random
import shutil
import signal
import time
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.serve.rollout.model import StepName
from tests.serve.server_process import served
from tests.serve.traffic.bed import CLOSED_SECONDS
from tests.serve.traffic.programs import EGRESS, FILES, INGRESS, Variant, changes

if TYPE_CHECKING:
    from tests.serve.traffic.bed import Bed

LOG = logging.getLogger("tests.serve.traffic")
MOVING_EACH = 5
"""One change in so many moves policies to another side."""
HURRY_SECONDS = 0.2
"""The longest pause before a change that does not wait for the last one."""


class WalkOptions(NamedTuple):
    """How many changes, and what interrupts them."""

    changes: int
    seed: int = 1
    single: int = 5
    """So many changes in a row are in force before the next one; then a burst follows."""
    burst: int = 5
    interrupted: int = 0
    """Once in so many rounds the server is killed in the middle, and once in so many a proxy restarts; 0: never."""
    seconds: float = inf
    """No round begins later."""


def walk(bed: Bed, route: WalkOptions) -> int:
    """Make all changes, or those for which there is time, and wait until the last one alone is in force; how many."""
    deadline = time.monotonic() + route.seconds
    choose = random.Random(route.seed)  # noqa: S311 - a test
    variants = changes(route.seed, lambda index: index % MOVING_EACH == MOVING_EACH - 1)
    done = rounds = 0
    while done < route.changes and time.monotonic() < deadline:
        rounds += 1
        for index in range(min(route.single + route.burst, route.changes - done)):
            bed.write(next(variants))
            done += 1
            if index < route.single:
                bed.wait_until_in_force()
            else:
                time.sleep(choose.uniform(0.0, HURRY_SECONDS))
        if route.interrupted and rounds % route.interrupted == 0:
            bed.end(signal.SIGKILL)
            bed.serve()
        bed.wait_until_in_force()
        if route.interrupted and rounds % route.interrupted == route.interrupted // 2:
            bed.restart_proxy(choose.choice(sorted(bed.envoys.running)))
            bed.wait_until_in_force()
        LOG.info("%d changes, %d servers", done, bed.servers)
    bed.wait_until_at_rest()
    return done


def killed_in_every_step(bed: Bed) -> None:
    """Move everything there and back, and kill the server in each step as soon as it has published the step."""
    for side in (EGRESS, INGRESS):
        bed.write(Variant(once=f"at {side}").at(side))
        for step in (*StepName, "plan"):
            bed.server.until(lambda it=step: it in {event["step"] for event in bed.server.events("rollout_step")})  # type: ignore[misc]
            bed.end(signal.SIGKILL)
            bed.serve()
        bed.wait_until_at_rest()


def differs_from_a_fresh_start(bed: Bed) -> list[str]:
    """How the published resources differ from those of a server that starts without a state directory, once older
    connections are closed."""
    folder = bed.folder / "fresh"
    folder.mkdir()
    for name in ("policies.adm", *FILES):
        shutil.copy(bed.folder / name, folder / name)
    with served(folder, "policies.adm", "--mode", "explicit") as fresh:
        fresh.until_event("compiled")
        new = fresh.status()
    deadline = time.monotonic() + CLOSED_SECONDS
    while (found := _differences(bed.status(), new)) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def _differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    here, there = [{row["service"]: row["wanted"] for row in status["adms"]} for status in (old, new)]
    names = sorted({*here, *there})
    found = [f"{it}: {here.get(it)}, and fresh {there.get(it)}" for it in names if here.get(it) != there.get(it)]
    if new["server"]["state"] != old["server"]["state"]:
        found.append(f"state {old['server']['state']}, and fresh {new['server']['state']}")
    return found
