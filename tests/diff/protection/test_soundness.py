"""Where nothing is called weaker, HEAD lets nothing through that BASE refuses or counts."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from admc.diff.identity import renames
from admc.diff.protection import findings
from dsl.diagnostics.diagnostic import ProgramError
from solver.placement import PlacementError
from tests.diff.protection.judged import breaches
from tests.diff.protection.plans import Compiled, compiled
from tests.diff.protection.random_pairs import Spec, edited, program

SUITE: Final = 150
LONG: Final = 2000


def compiled_or_none(spec: Spec) -> Compiled | None:
    try:
        return compiled(spec.text())
    except (ProgramError, PlacementError):
        return None


def _hold(seeds: range) -> None:
    judged = 0
    for seed in seeds:
        random = Random(seed)  # noqa: S311
        pair = None
        while pair is None:
            spec = program(random)
            base = compiled_or_none(spec)
            other = edited(random, spec)
            head = None if base is None else compiled_or_none(other)
            pair = None if base is None or head is None else (base, head, spec, other)
        base, head, spec, other = pair
        renamed = renames(base.plan, head.plan)
        found = findings(base.plan, head.plan, renamed)
        if not found.weaker:
            judged += 1
            broken = list(breaches(base, head, dict(renamed)))
            assert not broken, f"seed {seed}: {broken[0]}\n{spec.text()}\n{other.text()}\n{found}"
    assert judged * 4 > len(seeds), f"only {judged} of {len(seeds)} pairs say anything"


def test_what_is_not_weaker_lets_nothing_through() -> None:
    _hold(range(SUITE))


@pytest.mark.long
def test_what_is_not_weaker_lets_nothing_through_on_many_pairs() -> None:
    _hold(range(SUITE, SUITE + LONG))
