"""Defines the state of a rollout: one immutable value, which the server stores before it publishes anything.

A label names a published configuration: a plan at rest, or one step of a move from one plan to another. The state
contains the published label, and the labels that the proxies of each service may still have. So a restarted server
needs no answer from a proxy to know which plans may be in force.

    Label("old")                    the plan `old`, at rest
    Label("old", "new", SENDERS, 7) step `senders` of the seventh move, from `old` to `new`
"""

from __future__ import annotations

import hashlib
from dataclasses import field, replace
from typing import Final

from admc.serve.rollout.model import StepName
from dsl.documents import Bytes, Count, record

STEPS: Final = tuple(StepName)
"""The steps of a move, in order; the goal, at rest, follows the last one."""
NO_SERVICES: Final[frozenset[str]] = frozenset()


@record
class Label:
    """The configuration that is published to every proxy. Plans are named by digest."""

    base: str
    goal: str | None = None
    """The plan that the move leads to; None at rest."""
    step: StepName | None = None
    move: Count = 0
    """The number of the move. The key of its marker is derived from it."""

    @property
    def plans(self) -> frozenset[str]:
        """The plans of which a proxy with this label may enforce something."""
        return frozenset((self.base,) if self.goal is None else (self.base, self.goal))

    def neighbour(self, *, back: bool) -> Label:
        """The label before or after this one in its move."""
        if self.goal is None or self.step is None:
            raise ValueError("a plan at rest has no neighbours by itself")
        index = STEPS.index(self.step) + (-1 if back else 1)
        if 0 <= index < len(STEPS):
            return replace(self, step=STEPS[index])
        return Label(self.base if back else self.goal)

    def follows(self, other: Label) -> bool:
        """Whether a rollout that rests at this label may go back to `other`: an earlier plan, or the last step of the
        move that led to this label."""
        return self.goal is None and (other.goal is None or (other.step is STEPS[-1] and other.goal == self.base))


@record
class Holding:
    """A label, and the services of which some proxy, or a connection through a proxy, may still use the label."""

    label: Label
    services: frozenset[str]
    proven: bool = False
    """Whether the label is the last one that every proxy had."""


@record
class Chain:
    """The name of a filter chain at the proxies of one service. Its route table and filters have the name, too."""

    service: str
    name: str


@record
class RolloutState:
    """The state of a rollout, as the stored manifest has it."""

    now: Label
    """The published label, or the label to be published once this state is stored."""
    may_have: tuple[Holding, ...]
    """All labels that proxies may have, with `now`. The labels that `now` replaced stand in front of it, in their
    order."""
    back: bool = False
    """Whether the move goes back to its base."""
    moves: Count = 0
    """The number of the last move that began."""
    secret: Bytes = field(default=b"", repr=False)
    """The secret from which the keys of all markers are derived."""
    queued: str | None = None
    """The newest plan, if `now` does not lead to it."""
    aborted: str | None = None
    """The plan that the operator aborted: it does not begin before a newer plan comes or the operator continues it."""
    kept: frozenset[Chain] = frozenset()
    """The chains that are absent from `now`, and stay for the connections that may use them."""

    @property
    def newest(self) -> str:
        """The newest plan that was accepted."""
        return self.queued or self.now.goal or self.now.base

    @property
    def key(self) -> bytes:
        """The key of the marker of the move under way. Another move has another key, so a value that leaked in one
        is of no use in the next."""
        return hashlib.blake2b(str(self.now.move).encode(), key=self.secret, digest_size=32).digest()

    @property
    def before(self) -> tuple[Label, ...]:
        """The labels to which the rollout may go back: the last label that every proxy had, and the later labels before
        `now`, in their order. Empty once every proxy had `now`."""
        labels = [holding.label for holding in self.may_have]
        first = 0 if self.proven is None else labels.index(self.proven)
        return tuple(label for label in labels[first : labels.index(self.now)] if self.now.follows(label))

    @property
    def proven(self) -> Label | None:
        """The last label that every proxy had at one moment; the first label counts as one. None if `may_have` has no
        such label."""
        return next((holding.label for holding in self.may_have if holding.proven), None)


def begun(plan: str, secret: bytes) -> RolloutState:
    """The state of a server that serves its first plan."""
    now = Label(plan)
    return RolloutState(now, (Holding(now, NO_SERVICES, proven=True),), secret=secret)
