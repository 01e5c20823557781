"""The core of a cluster through random sequences of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.core.invariants import Judge, restarted
from tests.cluster.core.world import Walk

if TYPE_CHECKING:
    pass

EVENTS = 30


def simulate(seed: int) -> None:
    walk = Walk(seed)
    judge = Judge(walk)
    try:
        for _ in range(EVENTS):
            for _ in range(walk.random.choice((1, 1, 1, 2, 5))):
                walk.has_stepped = False
                walk.event()
                if walk.has_stepped:
                    judge.look()
            if walk.random.random() < 0.4:
                walk.pass_time()
            walk.advance()
            judge.look()
            if walk.random.random() < 0.2:
                restarted(walk)
    except AssertionError as error:
        error.add_note(f"seed {seed}\n" + "\n".join(walk.events))
        raise


@pytest.mark.parametrize("block", range(4))
def test_walks(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        simulate(seed)


@pytest.mark.long
@pytest.mark.parametrize("block", range(10))
def test_five_thousand_walks(block: int) -> None:
    for seed in range(1000 + block * 500, 1500 + block * 500):
        simulate(seed)
