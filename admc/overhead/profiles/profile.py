"""A profile: measured costs of a proxy and its components, on one platform.

    JSON, CSV or pickle -> [Profile] -> laws -> the cost of each ADM

All figures are exact decimals as they were written. Latency is in microseconds for one request and its answer; CPU is
in cores at a rate; memory is in bytes; rates are requests (tcp: connections) per second; sizes are bytes of each
message.
`docs/profiles.md` describes the JSON form, `admc/profile.schema.json` is its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from dsl.documents import document
from dsl.program import Protocol, Side

SCHEMA_VERSION: Final = 1
LATENCY: Final = "latency"
CPU: Final = "cpu"
QUANTITIES: Final = (LATENCY, CPU)
UNITS: Final[Mapping[str, str]] = {
    "latency": "us",
    "cpu": "cores",
    "memory": "bytes",
    "rate": "requests/s",
    "size": "bytes",
}
"""The only units of a profile. A file states them, so that figures in other units are refused and not misread."""


STATISTICS: Final = ("median", "mean", "unstated")
WHOLE: Final = "whole"
"""The part that stands for all parts of a hop together."""


class Figure(NamedTuple):
    """A measured value and its interval; `low` and `high` are None where the source gives no error."""

    value: Decimal
    low: Decimal | None = None
    high: Decimal | None = None


class Knot(NamedTuple):
    """A figure at the rate of the whole sidecar at which it was measured; None where the source states no rate."""

    rate: Decimal | None
    figure: Figure


Curve = tuple[Knot, ...]
"""Knots by ascending rate; a knot without a rate is the only one."""


class Law(NamedTuple):
    """One quantity as a function of rate and size: `base` at the reference size, `per_byte` for each byte beyond it.

    `per_byte` is None where no slope is known.
    """

    base: Curve
    per_byte: Curve | None = None


class Part(NamedTuple):
    """One part of the base of a hop. A quantity that was not measured is None."""

    name: str
    latency: Law | None
    cpu: Law | None


class Sizes(NamedTuple):
    """The smallest and largest measured size, and the size at which each `base` holds."""

    low: Decimal
    high: Decimal
    reference: Decimal


class HopCost(NamedTuple):
    """The base of a hop of one protocol: what every request pays that passes the hop, whatever policies sit there."""

    protocol: Protocol
    sizes: Sizes | None
    """None where the source states no size."""
    runs: int | None
    parts: tuple[Part, ...]

    @property
    def title(self) -> str:
        """`an http hop`."""
        return f"{'an' if self.protocol is Protocol.HTTP else 'a'} {self.protocol} hop"

    @property
    def whole(self) -> Part | None:
        """The part `whole`, where the hop has others beside it."""
        return next((part for part in self.parts if part.name == WHOLE and len(self.parts) > 1), None)

    def shares(self, quantity: str) -> tuple[Part, ...]:
        """The parts that add up to the base: `whole` alone, or all others where they have figures of the quantity."""
        whole = self.whole
        if whole is None:
            return self.parts
        others = tuple(part for part in self.parts if part is not whole)
        return others if any(law(part, quantity) is not None for part in others) else (whole,)

    def bases(self, quantity: str) -> tuple[Part, ...]:
        """The parts whose figures are those of the base: `whole` where it was measured, since its interval is that of
        the sum, and shares have errors of their own."""
        whole = self.whole
        return self.shares(quantity) if whole is None or law(whole, quantity) is None else (whole,)


class ComponentCost(NamedTuple):
    """What one policy of a component adds to each request in its scope.

    `side`, `kind` and `arguments` say which policies the figures are for; None and () stand for all of them.
    """

    component: str
    protocol: Protocol
    side: Side | None
    kind: str | None
    arguments: tuple[tuple[str, str], ...]
    """Parameters and their values as `vocabulary.written` has them; a file stands as `sha256:DIGEST`. By parameter."""
    floor: bool
    """The component costs at least this: a script or a module that does nothing was measured."""
    sizes: Sizes | None
    runs: int | None
    latency: Law | None
    cpu: Law | None
    memory: Figure | None
    """Bytes for each policy; None where the figure of `Sidecar.memory_policy` stands for it."""

    @property
    def title(self) -> str:
        """`compressor (http, algorithm=gzip)`."""
        words = [self.protocol.value]
        words += [] if self.side is None else [self.side.value]
        words += [] if self.kind is None else [self.kind]
        words += [f"{name}={value}" for name, value in self.arguments]
        return f"{self.component} ({', '.join(words)})"


class SidecarCost(NamedTuple):
    """What one sidecar takes without any request: CPU in cores, memory in bytes."""

    idle_cpu: Figure | None
    memory: Figure | None
    memory_hop: Figure | None
    memory_policy: Figure | None
    memory_connection: Figure | None


@document
class Platform:
    machine: str
    system: str


class Proxy(NamedTuple):
    name: str
    version: str


class Method(NamedTuple):
    statistic: str
    """What a latency is, over requests: one of `STATISTICS`."""
    text: str


@dataclass(frozen=True)
class Profile:
    name: str
    source: str
    """The publication or the run that the figures come from."""
    platform: Platform
    proxy: Proxy
    method: Method
    saturation: Decimal | None
    """Most cores of one sidecar up to which the figures hold; None where the source states none."""
    parts: Mapping[str, str]
    """Name of each part, and what it is."""
    own_components: tuple[str, ...]
    """Components that no built-in kind has."""
    sidecar: SidecarCost
    hops: tuple[HopCost, ...]
    """In the order of `Protocol`, each at most once."""
    components: tuple[ComponentCost, ...]
    """By component, protocol, side, kind and arguments."""

    def measures(self, quantity: str) -> bool:
        """Whether there is any figure of a quantity."""
        costs: list[Part | ComponentCost] = [*(part for hop in self.hops for part in hop.parts), *self.components]
        return (quantity == CPU and self.sidecar.idle_cpu is not None) or any(
            law(each, quantity) is not None for each in costs
        )

    def hop(self, protocol: Protocol) -> HopCost | None:
        return next((hop for hop in self.hops if hop.protocol is protocol), None)


def law(cost: Part | ComponentCost, quantity: str) -> Law | None:
    return cost.latency if quantity == LATENCY else cost.cpu


def component_order(cost: ComponentCost) -> tuple[object, ...]:
    """The canonical order of components; equal for two entries that are for the same policies."""
    protocol = list(Protocol).index(cost.protocol)
    return cost.component, protocol, cost.side or "", cost.kind or "", cost.arguments
