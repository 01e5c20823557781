"""The rows of JSON that an estimate has in plans and in the output of `admc overhead --format json`.

CPU is in whole nano-cores, latency in nanoseconds, memory in bytes. `docs/profiles.md` explains the fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from admc.cost.profiles.profile import Platform
from dsl.documents import Count, Digest, Name, OneOf, Signed, document

REASONS: Final = ("component", "hop", "bytes", "rate", "size", "idle", "memory", "floor", "saturated")
"""The reasons for which a sum is a lower bound: the values of `Lack`."""


@document
class AmountRow:
    value: Count
    interval: tuple[Signed, Signed] | None
    """Null for a lower bound, and if a figure in the amount has no interval. The low end may be negative: such a cost
    may be zero."""
    at_least: bool
    """The amount is a lower bound: it lacks a figure that is not known."""


@document
class ComponentRow:
    """One policy at a hop."""

    policy: Name
    component: str | None
    cpu: AmountRow | None
    latency: AmountRow | None
    memory: AmountRow | None


@document
class HopRow:
    hop: Name
    cpu: AmountRow
    latency: AmountRow | None
    components: tuple[ComponentRow, ...]


@document
class PartRow:
    """One part, summed over the hops of an ADM. `cpu` is null where the profile has no figure."""

    name: Name
    cpu: Count | None


@document
class AdmRow:
    cpu: AmountRow
    cpu_of_replica: AmountRow
    idle_cpu: AmountRow | None
    memory: AmountRow
    saturated: bool
    parts: tuple[PartRow, ...]
    hops: tuple[HopRow, ...]


@document
class TotalsRow:
    sidecars: Count
    hops: Count
    cpu: AmountRow
    memory: AmountRow
    latency_per_second: AmountRow


@document
class AllTotals:
    plan: TotalsRow
    full_mesh: TotalsRow
    full_mesh_everywhere: TotalsRow
    none: TotalsRow


@document
class MissingRow:
    reason: Annotated[str, OneOf(REASONS)]
    subject: str
    services: tuple[Name, ...]


@document
class ExtrapolatedRow:
    what: Annotated[str, OneOf(("rate", "size"))]
    subject: Name
    services: tuple[Name, ...]


@document
class RequestCostRow:
    """The costs that ADMs add to one request."""

    latency_mean: AmountRow
    latency_worst: AmountRow
    cpu_of_request: AmountRow
    """Nanoseconds of one core."""


@document
class RequestRow:
    request: Name
    plan: RequestCostRow
    full_mesh: RequestCostRow
    full_mesh_everywhere: RequestCostRow


@document
class OverheadRow:
    totals: AllTotals
    missing: tuple[MissingRow, ...]
    extrapolated: tuple[ExtrapolatedRow, ...]
    saturated: tuple[Name, ...]
    requests: tuple[RequestRow, ...] = ()
    """The requests of the program, ordered by name. The plan of a program without requests lacks this field."""


@document
class ProfileRow:
    named: Name
    """The path of the profile in the program, or the name of a built-in profile."""
    name: Name
    sha256: Digest
    platform: Platform
