"""The estimate as rows of JSON: the form in which plans and `admc overhead --format json` have it.

CPU is in whole nano-cores, latency in nanoseconds, memory in bytes. `docs/profiles.md` explains the fields.
"""

from __future__ import annotations

from typing import NamedTuple

from admc.overhead.profiles.profile import Platform
from admc.typed_json import Signed


class AmountRow(NamedTuple):
    value: int
    interval: tuple[Signed, Signed] | None
    """Null where a figure in it has none. The low end may be negative: a cost that is not told from zero."""
    at_least: bool
    """Something that belongs to it is not known, and is not in it."""


class ComponentRow(NamedTuple):
    """One policy at a hop."""

    policy: str
    component: str | None
    cpu: AmountRow | None
    latency: AmountRow | None
    memory: AmountRow | None


class HopRow(NamedTuple):
    hop: str
    cpu: AmountRow
    latency: AmountRow | None
    components: tuple[ComponentRow, ...]


class PartRow(NamedTuple):
    """One part of all hops of an ADM; null where the profile has no figure."""

    name: str
    cpu: int | None


class AdmRow(NamedTuple):
    cpu: AmountRow
    cpu_of_replica: AmountRow
    idle_cpu: AmountRow | None
    memory: AmountRow
    saturated: bool
    parts: tuple[PartRow, ...]
    hops: tuple[HopRow, ...]


class TotalsRow(NamedTuple):
    sidecars: int
    hops: int
    cpu: AmountRow
    memory: AmountRow
    latency_per_second: AmountRow


class AllTotals(NamedTuple):
    plan: TotalsRow
    full_mesh: TotalsRow
    full_mesh_everywhere: TotalsRow
    none: TotalsRow


class MissingRow(NamedTuple):
    reason: str
    subject: str
    services: tuple[str, ...]


class ExtrapolatedRow(NamedTuple):
    what: str
    subject: str
    services: tuple[str, ...]


class RequestCostRow(NamedTuple):
    """What ADMs add to one request."""

    latency_mean: AmountRow
    latency_worst: AmountRow
    cpu_of_request: AmountRow
    """Nanoseconds of one core."""


class RequestRow(NamedTuple):
    request: str
    plan: RequestCostRow
    full_mesh: RequestCostRow
    full_mesh_everywhere: RequestCostRow


class OverheadRow(NamedTuple):
    totals: AllTotals
    requests: tuple[RequestRow, ...]
    """Those of the program, by name."""
    missing: tuple[MissingRow, ...]
    extrapolated: tuple[ExtrapolatedRow, ...]
    saturated: tuple[str, ...]


class ProfileRow(NamedTuple):
    named: str
    """As the program names it: a path, or a built-in profile."""
    name: str
    sha256: str
    platform: Platform
