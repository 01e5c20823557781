"""When each request is to be sent, fixed before the first one is: nothing that happens later can thin the load out.

Requests come at even distances. Which page each one asks for is drawn once, from a seed, so that every mode and every
round gets the same requests at the same times.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.bench.cost.walk import Page

SEED = 1
PREMIUM = 10
"""One user of so many is a premium guest: the program has a policy for these."""


class Planned(NamedTuple):
    """`after` is in microseconds from the start."""

    after: int
    path: str
    membership: str

    def __str__(self) -> str:
        return f"{self.after} {self.path} {self.membership}"


def schedule(pages: Sequence[Page], rate: float, seconds: float, seed: int = SEED) -> tuple[Planned, ...]:
    """`rate` requests a second for so many seconds."""
    paths = [page.path for page in pages]
    shares = [page.share for page in pages]
    chance = random.Random(seed)  # noqa: S311 (it is meant to be foreseeable)
    found = []
    for index in range(round(rate * seconds)):
        path = chance.choices(paths, shares)[0]
        membership = "premium" if chance.randrange(PREMIUM) == 0 else "-"
        found.append(Planned(round(index * 1_000_000 / rate), path, membership))
    return tuple(found)
