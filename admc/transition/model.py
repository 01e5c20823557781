"""What a transition is made of. All of it is immutable and none of it knows of a clock or a server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement


Captures = Mapping[str, frozenset[str]]
"""Service -> names of what is redirected there (`captures`)."""


class Placed(NamedTuple):
    """A program and its placement: one end of a transition."""

    program: Program
    placement: Placement


class Phase(StrEnum):
    """Which step it is. A transition in which nothing changes sides has the last two only."""

    ANNOUNCE = "announce"
    """Route tables learn which filters will be skipped, before there are such filters."""
    PREPARE = "prepare"
    """What comes is put in its place and skipped; receivers know the marker."""
    SENDERS = "senders"
    """Senders enforce what comes to them, and mark what they enforced."""
    RECEIVERS = "receivers"
    """Receivers let go of what leaves them, and enforce what comes to them unless a sender has."""
    RELEASE = "release"
    """Senders let go of what leaves them, and mark nothing any more."""
    FINAL = "final"
    """Each ADM has the policies of the new plan; what older connections need is still there."""
    CLEAN = "clean"
    """Nothing of the transition is left."""


@dataclass(frozen=True, slots=True)
class Toggle:
    """What a step changes in one hop's route table."""

    off: frozenset[str] = frozenset()
    """Policies that no request meets."""
    met: frozenset[str] = frozenset()
    """Policies that a request with the marker has met already."""
    secret: str = field(default="", repr=False)
    """The marker's value; empty where the hop has none."""
    filters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Policy -> what its filters are called."""
    marks: bool = False
    """At egress: requests that passed the hop's filters leave with the marker."""


class Part(NamedTuple):
    """What the ADM of one service gets in a step: `between`, with the route tables of some hops changed."""

    placed: Placed
    toggles: Mapping[str, Toggle]
    """By the hop's name."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a transition."""

    phase: Phase
    parts: Mapping[str, Part]
    """What each service's ADM gets, sorted by service. A service that is not named hosts none: its connections pass."""
    awaits: tuple[str, ...]
    """Services all of whose replicas have to acknowledge this step before the next one."""
    leaves: tuple[str, ...] = ()
    """Services of the transition that have nothing in this step, or are in the new program no more. Whoever of their
    proxies is there has to acknowledge it; nobody misses those that have gone."""
    drain: bool = False
    """Wait until every connection that is older than the listeners of this step is closed."""
    intercept: tuple[str, ...] = ()
    """Services from or to which more has to be redirected than before."""
    redirected: Mapping[str, Placed] = field(default_factory=dict)
    """In the step from which on more is redirected: for each service what either plan needs there."""
    rests: Captures = field(default_factory=dict)
    """What has to be redirected before the next step: where the old side will be let go of."""
    closes: tuple[str, ...] = ()
    """Destinations that a NetworkPolicy has to close before the next step."""
    release: tuple[str, ...] = ()
    """Services from or to which less has to be redirected from now on."""
    opens: tuple[str, ...] = ()
    """Destinations that need no NetworkPolicy any more."""
    reasons: tuple[str, ...] = ()
    """For people: why, and what cannot be kept single."""
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    """Values that are never shown."""
