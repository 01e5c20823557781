"""The status of a `Program`, as a pure function of what is known and of the status before.

Report, former status, time -> status

It has counts and short lists, so that its size does not follow the number of pods. A condition keeps the time of its
last transition until its status changes, so that a status that says the same is the same.
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
    """What is known of a Program."""

    generation: int
    """`metadata.generation` of the spec that this is about."""
    verdicts: Mapping[Condition, Verdict]
    adms: int | None = None
    """Services that host an ADM; None: there is no plan."""
    services: int | None = None
    pods: int | None = None
    lacking: Names = field(default_factory=Names)
    """Pods that lack what the plan needs."""
    plan: PlanReference | None = None
    namespaces: Collection[str] = ()
    """Those of the services of the plan in force."""
    keeps: bool = False
    """Not all is known yet: what the status says beyond this stays."""


def status(report: Report, former: Mapping[str, Any], now: str) -> dict[str, Any]:
    """`now` is the time in RFC 3339, which conditions get whose status changes."""
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
    if report.plan is not None:
        fields["plan"] = report.plan._asdict()
    if report.namespaces:
        fields["namespaces"] = sorted(report.namespaces)[:MAX_NAMESPACES]
    return {**former, **fields} if report.keeps else fields


def conditions_of(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The conditions of a status by their type, whatever another CustomResourceDefinition or a hand has put there."""
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
