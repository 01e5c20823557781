"""The fields of a plan that come from the profile of its program. Without a profile they are empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from dsl.program import Metric

if TYPE_CHECKING:
    from admc.cost.report import Report
    from admc.cost.rows import AdmRow, OverheadRow, ProfileRow

MEASURED: Final = frozenset({Metric.CPU, Metric.LATENCY, Metric.OVERHEAD})
"""Metrics of the objective that need a profile."""


class Estimated(NamedTuple):
    profile: ProfileRow | None = None
    overhead: OverheadRow | None = None
    adms: Mapping[str, AdmRow] = {}
    metrics: frozenset[Metric] = frozenset()
    """The metrics of `MEASURED` for which the profile has figures."""


def estimated(report: Report | None) -> Estimated:
    if report is None:
        return Estimated()
    from admc.cost.document import adm_row, overhead_row, profile_row
    from admc.cost.profiles.profile import CPU, LATENCY

    profile = report.profile.profile
    metrics = {Metric.CPU, Metric.OVERHEAD} if profile.measures(CPU) else set[Metric]()
    if profile.measures(LATENCY):
        metrics.add(Metric.LATENCY)
    return Estimated(
        profile_row(report.profile),
        overhead_row(report),
        {adm.service: adm_row(adm) for adm in report.overhead.adms},
        frozenset(metrics),
    )
