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
Port = tuple[str, int]
"""A destination, and the target of one of its ports."""


class Placed(NamedTuple):
    """A program and its placement: one end of a rollout."""

    program: Program
    placement: Placement


class StepName(StrEnum):
    """The steps of a rollout in which some port moves. After the last one, the new plan is published."""

    PREPARE = "prepare"
    """Filter chains of moving ports have the filters of both plans, and enforce the old plan."""
    SENDERS = "senders"
    """Senders mark their requests. Those to which policies go enforce the new plan."""
    RECEIVERS = "receivers"
    """Receivers enforce the new plan on requests without the marker."""
    RELEASE = "release"
    """Senders enforce the new plan, and mark no more requests."""


class Plan(StrEnum):
    OLD = "old"
    NEW = "new"

    @property
    def other(self) -> Plan:
        return Plan.NEW if self is Plan.OLD else Plan.OLD


class RouteOverlay(NamedTuple):
    """What a step changes in the route table of one hop to a port that moves."""

    unmarked: Plan
    """Enforced on requests without the marker; at egress, on all requests."""
    marked: Plan | None
    """At ingress: enforced on requests with the marker. None at egress."""
    marks: bool
    """At egress: requests leave with the marker."""
    secret: str
    """The marker's value."""


class HopPart(NamedTuple):
    """A hop of an ADM: the same in all steps."""

    hop: Hop
    """To a port that moves, it has policies of both plans."""
    plan: Plan | None
    """The plan whose filter chain it has; None: the chain has the filters of both."""
    steady: frozenset[str] = frozenset()
    """Names of filters, `/POLICY:KIND`, of guards that are there in both plans, and change in arguments alone."""
    differs: bool = False
    """The two plans differ there, and not in arguments alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a rollout. The steps differ in `overlays`, and in what `prepare` and `release` have of their own."""

    name: StepName
    old: Placed
    new: Placed
    merged: Placed
    """All policies of both plans, and so all that they need redirected."""
    parts: Mapping[str, tuple[HopPart, ...]]
    """The hops of each ADM, sorted by service. A service that is not named hosts no ADM: its connections pass
    through."""
    overlays: Mapping[tuple[str, str], RouteOverlay]
    """By service and name of the hop: those that carry requests, to a port that moves."""
    services: frozenset[str]
    """Services whose ADM differs between the two plans, or from one of them in some step."""
    needs_redirection: Captures
    """What has to be redirected before `senders`: empty in all other steps than `prepare`."""
    closes: tuple[str, ...] = ()
    """In `prepare`: destinations that a NetworkPolicy has to close before `senders`."""
    opens: tuple[str, ...] = ()
    """In `release`: destinations that need no NetworkPolicy once the new plan is published."""
    relies_on: tuple[str, ...] = ()
    """Destinations that have to be closed before receivers enforce less: in `prepare` and `senders` those that the new
    plan closes, in `receivers` and `release`, for the way back, those that the old one closes."""
    reasons: tuple[str, ...] = ()
    """For people: what moves, and what cannot be kept single."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values of markers, which are never shown."""
