"""The estimate as rows of JSON: the form in which plans and `admc overhead --format json` have it.

CPU is in whole nano-cores, latency in nanoseconds, memory in bytes. `docs/profiles.md` explains the fields.
"""

from __future__ import annotations

from typing import Annotated, Final

from admc.cost.profiles.profile import Platform
from dsl.documents import Count, Digest, Name, OneOf, Signed, document

REASONS: Final = ("component", "hop", "bytes", "rate", "size", "idle", "memory", "floor", "saturated")
"""Why a sum is `at least`: the words of `Lack`."""


@document
class AmountRow:
    value: Count
    interval: tuple[Signed, Signed] | None
    """Null where a figure in it has none. The low end may be negative: a cost that is not told from zero."""
    at_least: bool
    """Something that belongs to it is not known, and is not in it."""


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
    """One part of all hops of an ADM; null where the profile has no figure."""

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
    """What ADMs add to one request."""

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
    """Those of the program, by name. A plan of a program without requests has no such field."""


@document
class ProfileRow:
    named: Name
    """As the program names it: a path, or a built-in profile."""
    name: Name
    sha256: Digest
    platform: Platform
