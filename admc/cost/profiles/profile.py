"""A profile: measured costs of a proxy and its components, on one platform.

    JSON, CSV or pickle -> [Profile] -> laws -> the cost of each ADM

All figures are exact decimals as they were written. Latency is in microseconds for one request and its answer; CPU is
in cores at a rate; memory is in bytes; rates are requests (tcp: connections) per second; sizes are bytes of each
message.
`docs/profiles.md` describes the JSON form, `admc/profile.schema.json` is its schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Final, Literal

from annotated_types import Ge, Gt, Len, Lt

from dsl.documents import Exact, Form, Published, document
from dsl.program import Protocol, Side

SCHEMA_VERSION: Final = 1
MAX_TEXT: Final = 2000
MAX_RATES: Final = 100
"""The most rates of one law, and of all parts of a hop together, since their sum has a figure at each rate."""
LATENCY: Final = "latency"
CPU: Final = "cpu"
QUANTITIES: Final = (LATENCY, CPU)
WHOLE: Final = "whole"
"""The part that stands for all parts of a hop together."""


_PROFILE_NAME: Final = "[A-Za-z0-9_][A-Za-z0-9_. -]{0,99}"
NAME_OF_PROFILE: Final = "at most 100 letters, digits, blanks, `_`, `.` and `-`, first a letter, a digit or `_`"
_NAME: Final = "[A-Za-z_][A-Za-z0-9_]{0,99}"
_LETTERS: Final = "at most 100 letters, digits and `_`, first no digit"
Name = Annotated[str, Form(_NAME, f"is no name: it has {_LETTERS}")]
Reference = Annotated[str, Published({"pattern": f"^{_NAME}$"})]
"""A name that the profile or a built-in kind has to declare: `contents_check.py` looks for the declaration."""
Text = Annotated[str, Len(1, MAX_TEXT), Form(r"[\s\S]*\S[\s\S]*", "has nothing but blanks")]
Number = Annotated[Exact, Ge(0)]
Positive = Annotated[Exact, Gt(0)]
Interval = tuple[Exact, Exact] | None
"""The lowest and the highest value; None where the source gives no error. The low end may be negative."""


def is_profile_name(name: str) -> bool:
    return re.fullmatch(_PROFILE_NAME, name) is not None


@document
class Figure:
    """A measured value and its interval."""

    value: Number
    interval: Interval

    @classmethod
    def of(cls, value: Decimal, low: Decimal | None = None, high: Decimal | None = None) -> Figure:
        return cls(value, None if low is None or high is None else (low, high))

    @property
    def low(self) -> Decimal | None:
        return None if self.interval is None else self.interval[0]

    @property
    def high(self) -> Decimal | None:
        return None if self.interval is None else self.interval[1]


@document
class Knot:
    """A figure at the rate of the whole sidecar at which it was measured."""

    rate: Positive | None
    """Null for a single figure whose source states no rate."""
    value: Number
    interval: Interval

    @classmethod
    def of(cls, rate: Decimal | None, figure: Figure) -> Knot:
        return cls(rate, figure.value, figure.interval)

    @property
    def figure(self) -> Figure:
        return Figure(self.value, self.interval)


Curve = Annotated[tuple[Knot, ...], Len(1, MAX_RATES)]
"""Knots by ascending rate; a knot without a rate is the only one."""


@document
class Law:
    """One quantity as a function of rate and size: `base` at the reference size, `per_byte` for each byte beyond it.

    `per_byte` is null where the cost of a byte is not known.
    """

    base: Curve
    per_byte: Curve | None


@document
class Part:
    """One part of the base of a hop. A quantity that was not measured is null."""

    name: Reference
    latency: Law | None
    cpu: Law | None


@document
class Sizes:
    """The smallest and largest measured size, and the size at which each `base` holds."""

    low: Number
    high: Number
    reference: Number


MAX_PARTS: Final = 64
MAX_COMPONENTS: Final = 2000
Runs = Annotated[int, Ge(1), Lt(10**19)]


@document
class HopCost:
    """The base of a hop of one protocol: the cost of every request that passes the hop, without that of policies."""

    protocol: Protocol
    sizes: Sizes | None
    """Null where the source states no size."""
    runs: Runs | None
    parts: Annotated[tuple[Part, ...], Len(1, MAX_PARTS)]

    @property
    def title(self) -> str:
        """`an http hop`."""
        return f"{'an' if self.protocol is Protocol.HTTP else 'a'} {self.protocol} hop"

    @property
    def whole(self) -> Part | None:
        """The part `whole`, where the hop has others beside it."""
        return next((part for part in self.parts if part.name == WHOLE and len(self.parts) > 1), None)

    def shares(self, quantity: str) -> tuple[Part, ...]:
        """The parts that add up to the base: all others if one of them has the quantity, and `whole` alone if not."""
        whole = self.whole
        if whole is None:
            return self.parts
        others = tuple(part for part in self.parts if part is not whole)
        return others if any(law(part, quantity) is not None for part in others) else (whole,)

    def bases(self, quantity: str) -> tuple[Part, ...]:
        """The parts whose sum is the base: `whole` alone where it was measured, since its interval is that of the sum,
        while each share has an error of its own."""
        whole = self.whole
        return self.shares(quantity) if whole is None or law(whole, quantity) is None else (whole,)


@document
class ComponentCost:
    """The cost that one policy of a component adds to each request in its scope.

    `side`, `kind` and `arguments` restrict the policies that the figures are for. Where they are null or empty, the
    figures are for all policies of the component.
    """

    component: Reference
    protocol: Protocol
    side: Side | None
    kind: str | None
    arguments: Mapping[str, Text]
    """The values of parameters, by parameter, in the form of `vocabulary.written`; a file is `sha256:DIGEST`."""
    floor: bool
    """The component costs at least this: a script or a module that does nothing was measured."""
    sizes: Sizes | None
    runs: Runs | None
    latency: Law | None
    cpu: Law | None
    memory: Figure | None
    """Bytes for each policy; where it is null, `memory_policy` of the sidecar holds."""

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The arguments by name."""
        return tuple(sorted(self.arguments.items()))

    @property
    def title(self) -> str:
        """`compressor (http, algorithm=gzip)`."""
        words = [self.protocol.value]
        words += [] if self.side is None else [self.side.value]
        words += [] if self.kind is None else [self.kind]
        words += [f"{name}={value}" for name, value in self.choices]
        return f"{self.component} ({', '.join(words)})"


@document
class SidecarCost:
    """The costs of one sidecar without any request: CPU in cores, memory in bytes. Each hop, policy and connection adds
    the memory of its own field."""

    idle_cpu: Figure | None
    memory: Figure | None
    memory_hop: Figure | None
    memory_policy: Figure | None
    memory_connection: Figure | None


@document
class Platform:
    machine: Text
    system: Text


@document
class Proxy:
    name: Text
    version: Text

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


@document
class Method:
    statistic: Literal["median", "mean", "unstated"]
    """The statistic of latencies: how the latencies of many requests became one figure."""
    text: Text


@document
class Units:
    """The only units of a profile. A file states them, so that figures in other units are refused and not misread."""

    latency: Literal["us"]
    cpu: Literal["cores"]
    memory: Literal["bytes"]
    rate: Literal["requests/s"]
    size: Literal["bytes"]


UNITS: Final = Units("us", "cores", "bytes", "requests/s", "bytes")


@document
class Profile:
    schema_version: Literal[1]
    name: Annotated[str, Form(_PROFILE_NAME, f"has {NAME_OF_PROFILE}")]
    source: Text
    """The publication or the run that the figures come from."""
    platform: Platform
    proxy: Proxy
    method: Method
    units: Units
    saturation: Positive | None
    """The figures hold for sidecars that take at most so many cores; null where the source states no limit."""
    parts: Annotated[Mapping[Name, Text], Len(1, MAX_PARTS)]
    """The parts by name, each explained. `whole` stands for all parts together; others in a hop add up to it."""
    own_components: Annotated[tuple[Name, ...], Len(0, MAX_COMPONENTS)]
    """Components that no built-in kind has."""
    sidecar: SidecarCost
    hops: Annotated[tuple[HopCost, ...], Len(0, len(Protocol))]
    """In the order of `Protocol`; each protocol at most once."""
    components: Annotated[tuple[ComponentCost, ...], Len(0, MAX_COMPONENTS)]
    """Ordered by component, protocol, side, kind and arguments."""

    def measures(self, quantity: str) -> bool:
        """Whether there is any figure of a quantity."""
        costs: list[Part | ComponentCost] = [*(part for hop in self.hops for part in hop.parts), *self.components]
        return (quantity == CPU and self.sidecar.idle_cpu is not None) or any(
            law(cost, quantity) is not None for cost in costs
        )

    def hop(self, protocol: Protocol) -> HopCost | None:
        return next((hop for hop in self.hops if hop.protocol is protocol), None)


def law(cost: Part | ComponentCost, quantity: str) -> Law | None:
    return cost.latency if quantity == LATENCY else cost.cpu


def protocol_order(cost: HopCost | ComponentCost) -> int:
    return list(Protocol).index(cost.protocol)


def component_order(cost: ComponentCost) -> tuple[object, ...]:
    """The canonical order of components; equal for two entries that are for the same policies."""
    return cost.component, protocol_order(cost), cost.side or "", cost.kind or "", cost.choices
