"""The types of a rollout. All of them are immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.hops import Hop
    from solver.placement import Placement


Captures = Mapping[str, frozenset[str]]
"""Service -> names of the connections that are redirected to its ADM (`captures`)."""


class Placed(NamedTuple):
    """A program and its placement: one end of a rollout."""

    program: Program
    placement: Placement


class StepName(StrEnum):
    """The steps of a rollout in which some destination moves. After the last one, the new plan is published."""

    PREPARE = "prepare"
    """Filter chains of moving destinations have the filters of both plans, and enforce the old plan."""
    SENDERS = "senders"
    """Senders mark their requests. Those to which policies go enforce the new plan."""
    RECEIVERS = "receivers"
    """Receivers enforce the new plan on requests without the marker."""
    RELEASE = "release"
    """Senders enforce the new plan, and mark no more requests."""


class Plan(StrEnum):
    OLD = "old"
    NEW = "new"


class Enforced(NamedTuple):
    """What one end of a call enforces: one plan, perhaps with policies that another end has taken over."""

    plan: Plan
    skipped: frozenset[str] = frozenset()
    """Policies of that plan that no request meets here."""
    added: frozenset[str] = frozenset()
    """Policies of the other plan that requests meet here, too."""


class RouteOverlay(NamedTuple):
    """What a step changes in the route table of one hop of a destination that moves."""

    unmarked: Enforced
    """On requests without the marker; at egress, on all requests."""
    marked: Enforced | None
    """At ingress: on requests with the marker. None at egress."""
    marks: bool
    """At egress: requests leave with the marker."""
    secret: str
    """The marker's value."""


class Part(NamedTuple):
    """The configuration of one service's ADM in a step."""

    placed: Placed
    """All policies of both plans: what `redirected` has, too."""
    hops: tuple[Hop, ...]
    """The hops that the ADM has filter chains for. To a port that moves, a hop has policies of both plans."""
    overlays: Mapping[str, RouteOverlay]
    """By the name of the hop: those that carry requests, to a port that moves."""
    plans: Mapping[str, Plan | None]
    """By the name of the hop: the plan whose filter chain it is; None: the chain has the filters of both."""
    steady: Mapping[str, frozenset[str]]
    """By the name of the hop: `POLICY:KIND` of guards that are there in both plans, and change in arguments alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a rollout."""

    name: StepName
    old: Placed
    new: Placed
    parts: Mapping[str, Part]
    """Sorted by service. A service that is not named hosts no ADM: its connections pass through."""
    services: frozenset[str]
    """Services whose ADM differs between the two plans, or from one of them in some step."""
    redirected: Mapping[str, Placed]
    """For each service, what both plans together need redirected; the same in all steps."""
    needs_redirection: Captures
    """What has to be redirected before `senders`: empty in all other steps than `prepare`."""
    closes: tuple[str, ...] = ()
    """In `prepare`: destinations that a NetworkPolicy has to close before `senders`."""
    opens: tuple[str, ...] = ()
    """In `release`: destinations that need no NetworkPolicy once the new plan is published."""
    reasons: tuple[str, ...] = ()
    """For people: what moves, and what cannot be kept single."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values of markers, which are never shown."""
