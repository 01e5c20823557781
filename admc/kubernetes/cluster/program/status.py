"""The status of a `Program`, as a pure function of a report and of the former status.

Report, former status, time -> status

The status has counts and short lists, so that its size does not grow with the number of pods. A condition keeps the
time of its last transition until its status changes, so that an unchanged status stays equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.program.conditions import Condition, Names, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from admc.kubernetes.cluster.program.plan_objects import PlanReference

MAX_NAMESPACES: Final = 1_000
_STATUS: Final = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class Report:
    """What the server knows of a Program."""

    generation: int
    """`metadata.generation` of the spec that the report is about."""
    verdicts: Mapping[Condition, Verdict]
    adms: int | None = None
    """Services that host an ADM; None without a plan."""
    services: int | None = None
    pods: int | None = None
    lacking: Names = field(default_factory=Names)
    """Pods that lack what the plan needs."""
    plan: PlanReference | None = None
    namespaces: Collection[str] = ()
    """The namespaces of the services in the plan in force."""
    guarded: Names | None = None
    """The guarded services; None before they are known."""
    keeps: bool = False
    """The server does not know everything yet, so other fields of the former status stay."""


def status(report: Report, former: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the next status. `now` is the time in RFC 3339, for conditions whose status changes."""
    before = conditions_of(former)
    fields: dict[str, Any] = {
        "observedGeneration": report.generation,
        "conditions": [
            _condition(name, report.verdicts[name], report.generation, before.get(name, {}), now)
            for name in Condition
            if name in report.verdicts
        ],
    }
    numbers = {"adms": report.adms, "services": report.services}
    fields |= {name: value for name, value in numbers.items() if value is not None}
    if report.pods is not None:
        fields["pods"] = {"total": report.pods, "lacking": report.lacking.number, "names": list(report.lacking.first)}
    if report.guarded is not None:
        fields["guarded"] = {"total": report.guarded.number, "names": list(report.guarded.first)}
    if report.plan is not None:
        fields["plan"] = report.plan._asdict()
    if report.namespaces:
        fields["namespaces"] = sorted(report.namespaces)[:MAX_NAMESPACES]
    return {**former, **fields} if report.keeps else fields


def conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the well-formed conditions of a status by their type: another CustomResourceDefinition, or a user, may
    have put anything there."""
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else ()
    return {
        condition["type"]: condition
        for condition in listed
        if isinstance(condition, dict) and isinstance(condition.get("type"), str)
    }


def _condition(
    name: Condition, verdict: Verdict, generation: int, before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    text = _STATUS[verdict.status]
    former, since = before.get("status"), before.get("lastTransitionTime")
    return {
        "type": name.value,
        "status": text,
        "observedGeneration": generation,
        "lastTransitionTime": since if former == text and isinstance(since, str) else now,
        "reason": verdict.reason,
        "message": verdict.message,
    }
