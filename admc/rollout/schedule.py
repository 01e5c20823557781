"""Which plan holds at which end of a call in each step: the table of a rollout.

At a port that moves, requests are enforced by the sender (`S`) and by the receiver (`R`); each has the filters of both
plans from `prepare` on. A request meets `S old, R old` or `S new, R new`, and the marker says which:

    policies go to      step        the sender enforces     the receiver, unmarked    the receiver, marked
    senders             prepare     S old                   R old                     R new
                        senders     S new, marks            R old                     R new
                        receivers   S new, marks            R new                     R new
                        release     S new                   R new                     R new
    the receiver        prepare     S old                   R old                     R old
                        senders     S old, marks            R old                     R old
                        receivers   S old, marks            R new                     R old
                        release     S new                   R new                     R old

Each step changes one end only, so the order in which proxies take it does not matter, and each step is as safe
backwards. A marker that is lost means `S new, R old`, or `S old, R new`: what moves is then met at both ends, and never
at neither.

Where some policies go to senders and others come to the receiver, neither of these two would be met at both ends. There
the marker means that the sender enforces all that moves, as the old plan would: from `senders` to `receivers` it
enforces what leaves it and what comes to it, and the receiver skips both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.rollout.model import Enforced, Plan, RouteOverlay, StepName
from dsl.program import Side

if TYPE_CHECKING:
    from collections.abc import Mapping


_OLD, _NEW = Enforced(Plan.OLD), Enforced(Plan.NEW)
_MARKING = (StepName.SENDERS, StepName.RECEIVERS)


class Move(NamedTuple):
    """What a marked request meets at a port that moves."""

    sender: Enforced
    receiver: Enforced


TO_SENDERS = Move(_NEW, _NEW)
TO_RECEIVER = Move(_OLD, _OLD)


def both_ways(ups: Mapping[str, str]) -> Move:
    """`ups`: what policies that go to senders are called, old name -> new name."""
    return Move(Enforced(Plan.OLD, added=frozenset(ups.values())), Enforced(Plan.OLD, skipped=frozenset(ups)))


def overlay(move: Move, side: Side, step: StepName, secret: str) -> RouteOverlay:
    """What a step changes in the route table of a hop."""
    if side is Side.INGRESS:
        switched = step in (StepName.RECEIVERS, StepName.RELEASE)
        return RouteOverlay(_NEW if switched else _OLD, move.receiver, marks=False, secret=secret)
    enforced = {StepName.PREPARE: _OLD, StepName.RELEASE: _NEW}.get(step, move.sender)
    return RouteOverlay(enforced, None, marks=step in _MARKING, secret=secret)
