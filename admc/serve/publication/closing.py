"""Decides which destinations are closed while proxies may have several plans, and which senders are admitted to them.

plans, the newest last --> {destination: program}

A destination stays closed for as long as any of these plans closes it. Such a plan relies on an ADM at each admitted
sender. So only senders that all plans that close the destination declare are admitted meanwhile: a sender that only the
old plan declares has no ADM for the new plan, and a sender that only the new plan declares has no ADM yet.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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


def destinations(plans: Sequence[Placed]) -> dict[str, Program]:
    """Return the destinations that some plan closes, each with the program whose senders are admitted."""
    closers: dict[str, tuple[int, ...]] = {}
    for index, placed in enumerate(plans):
        for name in placed.placement.closed:
            closers[name] = (*closers.get(name, ()), index)
    programs = {which: _narrowed([plans[index].program for index in which]) for which in set(closers.values())}
    return {name: programs[closers[name]] for name in sorted(closers)}


def _narrowed(programs: Sequence[Program]) -> Program:
    """Return the newest program without the calls that one of the other programs does not declare."""
    newest = programs[-1]
    if len(programs) == 1:
        return newest
    common = frozenset.intersection(*(frozenset(map(_key, program.calls)) for program in programs))
    return replace(newest, calls=tuple(call for call in newest.calls if _key(call) in common))


def _key(call: Call) -> tuple[str, str, int]:
    return call.source, call.destination, call.port.target
