"""What ADMs add to the requests of traces, for programs: whole nanoseconds."""

from __future__ import annotations

from decimal import Decimal

from admc.base.decimals import fixed
from admc.cost.profiles.source import NamedProfile
from admc.cost.profiles.write import json_text
from admc.cost.traces.drops import TEXTS
from admc.cost.traces.report import PERCENTILES, Added, Distribution, Taken, TraceReport


def render(app: str, named: NamedProfile, report: TraceReport) -> str:
    return json_text(
        {
            "app": app,
            "profile": {"named": named.named, "name": named.profile.name, "sha256": named.sha256},
            "units": {
                "latency": "ns",
                "cpu": "ns of a core for a request",
                "cores": "nano-cores",
                "rate": "requests/s",
            },
            "taken": taken(report.taken),
            "plan": _added(report.plan),
            "full_mesh": _added(report.full_mesh),
            "dropped": dropped(report.taken),
        }
    )


def taken(found: Taken) -> dict[str, object]:
    return {
        "requests": found.trees,
        "calls": found.calls,
        "span": found.span,
        "rate": None if found.rate is None else Decimal(fixed(found.rate, 6)),
        "duplicates": found.duplicates,
        "skipped": found.malformed,
        "notes": {note.value: count for note, count in found.notes},
    }


def dropped(found: Taken) -> list[dict[str, object]]:
    return [
        {
            "code": TEXTS[each.reason].code,
            "reason": each.reason.name.lower(),
            "requests": each.trees,
            "calls": each.calls,
            "first": None if each.first is None else each.first._asdict(),
            "names": list(each.names),
        }
        for each in found.dropped
    ]


def _added(found: Added) -> dict[str, object]:
    return {
        "latency": _distribution(found.latency),
        "cpu": _distribution(found.cpu),
        "cores": None if found.cores is None else Decimal(fixed(found.cores, 0)),
        "cores_at_least": found.cpu.at_least,
    }


def _distribution(found: Distribution) -> dict[str, object]:
    named = {f"p{each}": value for each, value in zip(PERCENTILES, found.percentiles, strict=True)}
    return {**named, "max": found.highest, "mean": Decimal(fixed(found.mean, 3)), "at_least": found.at_least}
