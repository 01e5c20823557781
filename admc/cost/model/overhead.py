"""The result of the model: what each ADM, hop, part and component costs, and what is missing in that.

CPU is in whole nano-cores, latency in whole nanoseconds for one request and its answer, memory in bytes. All figures
are of all replicas together where nothing else is said.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from admc.cost.profiles.amounts import Whole
from dsl.program import Protocol, Side


class Lack(StrEnum):
    """Why a sum is `at least`."""

    COMPONENT = "component"
    """The profile has no figure for the component of a policy."""
    HOP = "hop"
    """The profile has no hop of the protocol, or not all of its parts."""
    BYTES = "bytes"
    """The profile has no cost of bytes."""
    RATE = "rate"
    """A call has no rate, so no CPU."""
    SIZE = "size"
    """A call has no size, so no bytes."""
    IDLE = "idle"
    """The profile has no CPU of an idle sidecar."""
    MEMORY = "memory"
    FLOOR = "floor"
    """The profile has a lowest cost only: a script that does nothing."""
    SATURATED = "saturated"
    """A saturated sidecar has no latency."""


class Missing(NamedTuple):
    lack: Lack
    subject: str
    """A component, a protocol, a part or a call."""
    services: tuple[str, ...]
    """The ADMs that it is about."""


class Extrapolated(NamedTuple):
    """Figures outside of the measured rates or sizes."""

    what: str
    """`rate` or `size`."""
    subject: str
    services: tuple[str, ...]


class PartShare(NamedTuple):
    """One part of the base of a hop; None where the profile has none. CPU of all parts adds up to `base`, exactly."""

    name: str
    cpu: int | None
    latency: int | None


class ComponentShare(NamedTuple):
    """One policy at a hop. A figure is None where the profile has none."""

    policy: str
    component: str | None
    cpu: Whole | None
    latency: Whole | None
    """For each request in the scope of the policy; also None in a saturated sidecar."""
    memory: Whole | None


class CallLatency(NamedTuple):
    """What a hop adds to a call; None in a saturated sidecar."""

    call: int
    """Index into `Program.calls`."""
    latency: Whole | None


@dataclass(frozen=True, slots=True)
class HopOverhead:
    service: str
    side: Side
    destination: str
    port: int
    protocol: Protocol
    rate: float
    base: Whole | None
    """CPU of the hop, whatever policies sit there; None if the profile has no hop of the protocol."""
    cpu: Whole
    """The same with its policies."""
    latency: Whole | None
    """Added to a request on average over its calls, weighted by their rates (1/s where a call has none)."""
    parts: tuple[PartShare, ...]
    """Shares of `base`, and of the latency of the base on average."""
    components: tuple[ComponentShare, ...]
    calls: tuple[CallLatency, ...]


@dataclass(frozen=True, slots=True)
class AdmOverhead:
    service: str
    replicas: int
    rate: float
    """Requests per second that one replica works on: each counts at every hop that it passes."""
    idle: Whole | None
    """CPU without any request; None if the profile has no such figure."""
    cpu: Whole
    """With `idle`, of all replicas."""
    memory: Whole
    saturated: bool
    hops: tuple[HopOverhead, ...]


class Totals(NamedTuple):
    sidecars: int
    """ADMs, each times its replicas."""
    hops: int
    cpu: Whole
    memory: Whole
    latency: Whole
    """Nanoseconds that are added in each second to all requests together: the sum over calls of rate and latency."""
    saturated: int = 0
    """Saturated sidecars: their latency is not in the sum."""


@dataclass(frozen=True, slots=True)
class Overhead:
    adms: tuple[AdmOverhead, ...]
    totals: Totals
    missing: tuple[Missing, ...]
    extrapolated: tuple[Extrapolated, ...]
    saturated: tuple[str, ...]
    """Services whose sidecars would work beyond the range in which the profile holds."""


class Notes:
    """Collects what an estimate lacks, each thing once with the ADMs that it is about."""

    def __init__(self) -> None:
        self._missing: defaultdict[tuple[Lack, str], set[str]] = defaultdict(set)
        self._extrapolated: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def lacks(self, lack: Lack, subject: str, service: str) -> None:
        self._missing[lack, subject].add(service)

    def extrapolates(self, what: str, subject: str, service: str) -> None:
        self._extrapolated[what, subject].add(service)

    def missing(self) -> tuple[Missing, ...]:
        """In the order of `Lack`, then by subject."""
        order = list(Lack)
        rows = sorted(self._missing.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return tuple(Missing(lack, subject, tuple(sorted(services))) for (lack, subject), services in rows)

    def extrapolated(self) -> tuple[Extrapolated, ...]:
        rows = sorted(self._extrapolated.items())
        return tuple(Extrapolated(what, subject, tuple(sorted(services))) for (what, subject), services in rows)
