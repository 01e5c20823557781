"""The findings of `admc try` as JSON, for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from admc.testbed.findings import ProbeFinding
    from admc.testbed.session import Trial


def facts(trial: Trial) -> dict[str, object]:
    """Return plain JSON values. The outcome of a call that had the declared result is `enforced`, as of a policy."""
    return {
        "app": trial.program.app,
        "envoy": trial.envoy,
        "services": len(trial.program.services),
        "adms": [adm.service for adm in trial.placement.adms],
        "status": trial.placement.status.value,
        "seconds": round(trial.seconds, 1),
        "moved_ports": {str(number): tried for number, tried in sorted(trial.moved_ports.items())},
        "calls": [
            {
                "source": row.call.source,
                "destination": row.call.destination,
                "port": row.call.port.number,
                "protocol": row.call.port.protocol.value,
                "adms": list(row.adms),
                **_finding(row.finding),
            }
            for row in trial.calls
        ],
        "policies": [
            {
                "policy": row.policy,
                "kind": row.kind,
                "sources": list(row.sources),
                "destination": row.destination,
                "port": row.port,
                "side": None if row.side is None else row.side.value,
                "adm": row.adm,
                **_finding(row.finding),
            }
            for row in trial.policies
        ],
    }


def _finding(finding: ProbeFinding) -> dict[str, object]:
    return {
        "outcome": finding.outcome.name.lower(),
        "request": finding.request or None,
        "expected": finding.expected or None,
        "observed": finding.observed,
    }
