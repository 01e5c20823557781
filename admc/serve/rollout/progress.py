"""How far a new plan is in force, in one sentence for whoever asks for the status."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from admc.transition.driver import Walk
    from admc.transition.model import Placed
    from solver.placement import Placement

SHOWN: Final = 3
"""How many names, or things that are waited for, a sentence has."""


def said(walk: Walk, old: Placed, new: Placed, waits: Sequence[str], left: float | None = None) -> str:
    """What happens, at which step, and what that waits for: for `left` seconds at least, where that is known."""
    movers = moving(old.placement, new.placement)
    if walk.back:
        what = "a newer plan has come, and the one before it is undone first"
    elif movers:
        what = f"{_policies(movers)} {'changes' if len(movers) == 1 else 'change'} sides"
    else:
        what = "the new plan is not in force everywhere yet"
    step = f"{what}: step `{walk.step.phase}`"
    if not waits:
        return step
    more = f"; and {len(waits) - SHOWN} more" if waits[SHOWN:] else ""
    seconds = "" if left is None else f" (in {math.ceil(left)} s)"
    return f"{step} waits for {'; '.join(waits[:SHOWN])}{seconds}{more}"


def called(names: Mapping[str, str]) -> tuple[str, ...]:
    """What is said of policies that are called otherwise than their user calls them."""
    return tuple(
        f"`{name}` is called `{other}` in proxies and statistics until connections are closed that know another "
        f"policy, or another version, as `{name}`"
        for name, other in sorted(names.items())
    )


def moving(old: Placement, new: Placement) -> tuple[str, ...]:
    """The policies that leave a side of some destination and come to the other one, in order of their names."""
    before = {(one.policy, one.destination): frozenset(one.sides) for one in old.decisions}
    found = {
        one.policy
        for one in new.decisions
        if (sides := before.get((one.policy, one.destination))) is not None
        and sides - set(one.sides)
        and set(one.sides) - sides
    }
    return tuple(sorted(found))


def _policies(names: Sequence[str]) -> str:
    shown, more = [f"`{name}`" for name in names[:SHOWN]], len(names) - SHOWN
    last = f"{more} more policies" if more > 1 else "one more policy" if more == 1 else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last
