"""Decides which targets of destinations are closed while proxies may have several plans, and which senders are admitted
to them.

plans, the newest last --> {destination: {target: program}}

A target stays closed for as long as any of these plans closes it. Such a plan relies on an ADM at each sender that is
admitted to the target. So only senders that all plans that close the target declare are admitted meanwhile. A sender
that only the old plan declares has no ADM for the new plan; one that only the new plan declares has no ADM yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from emitters.kubernetes import ClosedTargets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admc.serve.environment import Closing
    from admc.serve.publication.plans import Plans
    from admc.serve.rollout.model import Placed, Step
    from admc.serve.rollout.rollout_state import RolloutState
    from dsl.program import Call, Program


class ClosedDestinations:
    """Tells `Closing` which destinations to close during a rollout. Without a `Closing`, all destinations count as
    closed."""

    def __init__(self, closing: Closing | None) -> None:
        self._closing = closing
        self._asked: tuple[str, ...] = ()
        """The plans for which it was asked last."""

    def ask(self, state: RolloutState, plans: Plans) -> None:
        """Close the destinations of all plans that proxies may have, and no others."""
        if self._closing is None:
            return
        labels = [*(holding.label for holding in state.may_have if holding.label != state.now), state.now]
        names = [name for label in labels for name in (label.base, label.goal) if name is not None]
        newest_last = tuple(reversed(dict.fromkeys(reversed(names))))
        if newest_last != self._asked:
            self._closing.ask(destinations([plans[name].placed for name in newest_last]))
            self._asked = newest_last

    def missing(self, step: Step) -> tuple[str, ...]:
        """Return the destinations that a step relies on and that are not known to be closed."""
        return () if self._closing is None else self._closing.missing(step.relies_on)


def destinations(plans: Sequence[Placed]) -> dict[str, ClosedTargets]:
    """Return the destinations that some plan closes, each with its closed targets."""
    closers: dict[str, dict[int, tuple[int, ...]]] = {}
    for index, placed in enumerate(plans):
        for name, targets in placed.placement.closed_targets(placed.program).items():
            by_target = closers.setdefault(name, {})
            for target in targets:
                by_target[target] = (*by_target.get(target, ()), index)
    together = {which for by_target in closers.values() for which in by_target.values()}
    programs = {which: _narrowed([plans[index].program for index in which]) for which in together}
    newest = {name: placed.program for placed in plans for name in placed.placement.closed}
    return {
        name: ClosedTargets(newest[name], {target: programs[which] for target, which in sorted(by_target.items())})
        for name, by_target in sorted(closers.items())
    }


def _narrowed(programs: Sequence[Program]) -> Program:
    """Return the newest program without the calls that one of the other programs does not declare."""
    newest = programs[-1]
    if len(programs) == 1:
        return newest
    common = frozenset.intersection(*(frozenset(map(_key, program.calls)) for program in programs))
    return replace(newest, calls=tuple(call for call in newest.calls if _key(call) in common))


def _key(call: Call) -> tuple[str, str, int]:
    return call.source, call.destination, call.port.target
