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
    """The filter chains of moving ports get the filters of both plans, and enforce the old plan."""
    SENDERS = "senders"
    """Senders mark their requests. A sender to which policies move enforces the new plan."""
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
    """The plan that is enforced on requests without the marker; at egress, on all requests."""
    marked: Plan | None
    """At ingress, the plan that is enforced on requests with the marker. None at egress."""
    marks: bool
    """At egress, whether requests leave with the marker."""
    secret: str
    """The marker's value."""


class HopPart(NamedTuple):
    """A hop of an ADM, which is the same in all steps."""

    hop: Hop
    """A hop to a port that moves has the policies of both plans."""
    plan: Plan | None
    """The plan whose filter chain the hop has; None if the chain has the filters of both plans."""
    steady: frozenset[str] = frozenset()
    """The names of the filters (`/POLICY:KIND`) of guards that both plans have, and that change in arguments alone."""
    differs: bool = False
    """Whether the two plans differ at this hop, and not in arguments alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a rollout. The steps differ in `overlays`, and in the fields that only `prepare` or `release`
    fill."""

    name: StepName
    old: Placed
    new: Placed
    merged: Placed
    """All policies of both plans. Its redirection is that of both plans together."""
    parts: Mapping[str, tuple[HopPart, ...]]
    """The hops of each ADM, sorted by service. A service that is absent here hosts no ADM, and its connections pass
    through."""
    overlays: Mapping[tuple[str, str], RouteOverlay]
    """(service, name of a hop) -> the overlay of the hop, for each hop that carries requests to a port that moves."""
    services: frozenset[str]
    """The services whose ADM differs between the two plans, or differs from one of the plans in some step."""
    needs_redirection: Captures
    """In `prepare`, the connections that have to be redirected before `senders`; empty in all other steps."""
    closes: tuple[str, ...] = ()
    """In `prepare`, the destinations where the NetworkPolicy of the new plan refuses more (`network.closings`)."""
    opens: tuple[str, ...] = ()
    """In `release`, the destinations where a NetworkPolicy admits more once the new plan is in force."""
    relies_on: tuple[str, ...] = ()
    """The destinations whose NetworkPolicy has to be in force before ADMs enforce less (`network.relied_on`): in
    `prepare` and `senders` for the new plan; in `receivers` and `release`, for the way back, for the old plan."""
    reasons: tuple[str, ...] = ()
    """Sentences for people: which policies move, and which may be met twice meanwhile."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values of markers, which are never shown."""
