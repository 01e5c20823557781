"""The result of the model: the costs of each ADM, hop, part and component, and the missing figures.

CPU is in whole nano-cores, latency in whole nanoseconds for one request and its answer, memory in bytes. CPU and
memory are sums over all replicas, and so are rates, unless a field names one replica.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from admc.cost.profiles.amounts import Whole
from dsl.program import Protocol, Side


class Lack(StrEnum):
    """The reason for which a sum is a lower bound (`at_least`)."""

    COMPONENT = "component"
    """The profile has no figure for the component of a policy."""
    HOP = "hop"
    """The profile has no hop of the protocol, or not all of its parts."""
    BYTES = "bytes"
    """The profile has no cost of bytes."""
    RATE = "rate"
    """A call has no rate, so its CPU is unknown."""
    SIZE = "size"
    """A call has no size, so the cost of its bytes is unknown."""
    IDLE = "idle"
    """The profile has no CPU of an idle sidecar."""
    MEMORY = "memory"
    FLOOR = "floor"
    """The profile has a lowest cost only: that of a script or a module that does nothing."""
    SATURATED = "saturated"
    """The latency of a saturated sidecar is unknown."""


class Missing(NamedTuple):
    lack: Lack
    subject: str
    """A component, the hop of a protocol, parts of it, or a call; for a sidecar `idle`, `memory` or `latency`."""
    services: tuple[str, ...]
    """The services whose ADMs need the figure."""


class Extrapolated(NamedTuple):
    """Figures outside of the measured rates or sizes."""

    what: str
    """`rate` or `size`."""
    subject: str
    services: tuple[str, ...]


class PartShare(NamedTuple):
    """One part of the base of a hop. A figure is None where it is not known. CPU adds up to `HopOverhead.base`."""

    name: str
    cpu: int | None
    latency: int | None


class ComponentShare(NamedTuple):
    """One policy at a hop. A figure is None where the profile has none."""

    policy: str
    component: str | None
    cpu: Whole | None
    latency: Whole | None
    """The latency added to a request in the scope of the policy. It is also None in a saturated sidecar, and if it
    depends on a rate that is not known."""
    memory: Whole | None


class CallLatency(NamedTuple):
    """The latency that a hop adds to a request of a call: `at_least` if a figure is not known, and None in a saturated
    sidecar."""

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
    """CPU of the hop without its policies; None if the profile has no hop of the protocol."""
    cpu: Whole
    """CPU of the hop with its policies."""
    latency: Whole | None
    """The mean added latency over the calls, weighted by their rates (1/s for a call without a rate); None in a
    saturated sidecar."""
    parts: tuple[PartShare, ...]
    """Shares of `base`, and of its mean latency."""
    components: tuple[ComponentShare, ...]
    calls: tuple[CallLatency, ...]


@dataclass(frozen=True, slots=True)
class AdmOverhead:
    service: str
    replicas: int
    rate: float
    """Requests per second in one replica, as far as rates are known. A request counts at every hop that it passes."""
    idle: Whole | None
    """CPU without any request; None if the profile has no such figure."""
    cpu: Whole
    """CPU of all replicas, with `idle`."""
    memory: Whole
    saturated: bool
    hops: tuple[HopOverhead, ...]


class Totals(NamedTuple):
    sidecars: int
    """The replicas of all ADMs."""
    hops: int
    cpu: Whole
    memory: Whole
    latency: Whole
    """Nanoseconds, added up over all requests of one second: the sum over calls of rate times latency."""
    saturated: int = 0
    """The number of saturated sidecars, whose latency is not in the sum."""


@dataclass(frozen=True, slots=True)
class Overhead:
    adms: tuple[AdmOverhead, ...]
    totals: Totals
    missing: tuple[Missing, ...]
    extrapolated: tuple[Extrapolated, ...]
    saturated: tuple[str, ...]
    """Services whose sidecars would work beyond the range in which the profile holds."""


class Notes:
    """Collects the figures that an estimate lacks or extrapolates: each once, with the services whose ADMs need it."""

    def __init__(self) -> None:
        self._missing: defaultdict[tuple[Lack, str], set[str]] = defaultdict(set)
        self._extrapolated: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def lacks(self, lack: Lack, subject: str, service: str) -> None:
        self._missing[lack, subject].add(service)

    def extrapolates(self, what: str, subject: str, service: str) -> None:
        self._extrapolated[what, subject].add(service)

    def missing(self) -> tuple[Missing, ...]:
        """The missing figures, in the order of `Lack` and then by subject."""
        order = list(Lack)
        rows = sorted(self._missing.items(), key=lambda entry: (order.index(entry[0][0]), entry[0][1]))
        return tuple(Missing(lack, subject, tuple(sorted(services))) for (lack, subject), services in rows)

    def extrapolated(self) -> tuple[Extrapolated, ...]:
        rows = sorted(self._extrapolated.items())
        return tuple(Extrapolated(what, subject, tuple(sorted(services))) for (what, subject), services in rows)
