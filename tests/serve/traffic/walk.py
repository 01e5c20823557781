"""Many programs in a row: each in force everywhere before the next one, or faster than they can be taken."""

from __future__ import annotations

import random
import shutil
import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from admc.rollout.model import StepName
from tests.serve.server_process import served
from tests.serve.traffic.programs import EGRESS, FILES, INGRESS, Variant, changes

if TYPE_CHECKING:
    from tests.serve.traffic.bed import Bed

MOVING = 5
"""One change in so many changes sides, too."""
CLOSED_SECONDS = 20.0
"""In which older connections are closed, and what they used is dropped."""
HURRY_SECONDS = 0.2
"""Between two changes that do not wait for each other, at most."""


class Route(NamedTuple):
    """How often, and how."""

    changes: int
    seed: int = 1
    single: int = 5
    """Changes that are in force before the next one, in a row; then a burst."""
    burst: int = 5
    interrupted: int = 0
    """Once in so many rounds the server is killed in the middle, and in as many a proxy starts anew; 0: never."""


def walk(bed: Bed, route: Route) -> None:
    """All changes, and at the end nothing is left of any but the last."""
    choose = random.Random(route.seed)  # noqa: S311 - a test
    variants = changes(route.seed, lambda index: index % MOVING == MOVING - 1)
    done = rounds = 0
    while done < route.changes:
        rounds += 1
        for index in range(min(route.single + route.burst, route.changes - done)):
            bed.write(next(variants))
            done += 1
            if index < route.single:
                bed.settle()
            else:
                time.sleep(choose.uniform(0.0, HURRY_SECONDS))
        if route.interrupted and rounds % route.interrupted == 0:
            bed.end(signal.SIGKILL)
            bed.serve()
        bed.settle()
        if route.interrupted and rounds % route.interrupted == route.interrupted // 2:
            bed.restart_proxy(choose.choice(sorted(bed.envoys.running)))
            bed.settle()
    bed.over()


def killed_in_every_step(bed: Bed) -> None:
    """Everything moves there and back, and in each step the server is killed as soon as the step has been told."""
    for side in (EGRESS, INGRESS):
        bed.write(Variant(cart=side, stock=side, ledger=side, once=f"at {side}"))
        for phase in (*StepName, "plan"):
            bed.server.until(lambda it=phase: it in {said["step"] for said in bed.server.events("rollout_step")})  # type: ignore[misc]
            bed.end(signal.SIGKILL)
            bed.serve()
        bed.over()


def differs_from_a_fresh_start(bed: Bed) -> list[str]:
    """What a server that starts with no kept state would publish otherwise, once older connections are closed."""
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
