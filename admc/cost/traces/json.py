"""Writes a `TraceReport` as JSON. Times are in nanoseconds."""

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


def taken(summary: Taken) -> dict[str, object]:
    return {
        "requests": summary.trees,
        "calls": summary.calls,
        "span": summary.span,
        "rate": None if summary.rate is None else Decimal(fixed(summary.rate, 6)),
        "duplicates": summary.duplicates,
        "skipped": summary.malformed,
        "notes": {note.value: count for note, count in summary.notes},
    }


def dropped(summary: Taken) -> list[dict[str, object]]:
    return [
        {
            "code": TEXTS[drop.reason].code,
            "reason": drop.reason.name.lower(),
            "requests": drop.trees,
            "calls": drop.calls,
            "first": None if drop.first is None else drop.first._asdict(),
            "names": list(drop.names),
        }
        for drop in summary.dropped
    ]


def _added(added: Added) -> dict[str, object]:
    return {
        "latency": _distribution(added.latency),
        "cpu": _distribution(added.cpu),
        "cores": None if added.cores is None else Decimal(fixed(added.cores, 0)),
        "cores_at_least": added.cpu.at_least,
    }


def _distribution(distribution: Distribution) -> dict[str, object]:
    named = {f"p{percent}": value for percent, value in zip(PERCENTILES, distribution.percentiles, strict=True)}
    return {
        **named,
        "max": distribution.highest,
        "mean": Decimal(fixed(distribution.mean, 3)),
        "at_least": distribution.at_least,
    }
