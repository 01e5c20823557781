"""A transition as a document, for whoever prints it. Secrets are not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from admc.transition.between import original
from admc.transition.model import Toggle
from emitters.hops import hops

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admc.transition.model import Step
    from dsl.program import Policy


def to_json(steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps in order; everything in them in canonical order."""
    return [_step(step) for step in steps]


def _step(step: Step) -> dict[str, Any]:
    return {
        "phase": step.phase.value,
        "adms": [{"service": name, "hops": _hops(step, name)} for name in sorted(step.parts)],
        "awaits": list(step.awaits),
        "leaves": list(step.leaves),
        "drain": step.drain,
        "intercept": list(step.intercept),
        "release": list(step.release),
        "closes": list(step.closes),
        "opens": list(step.opens),
        "reasons": list(step.reasons),
    }


def _hops(step: Step, service: str) -> list[dict[str, Any]]:
    part = step.parts[service]
    found = []
    for hop in hops(*part.placed).get(service, ()):
        toggle = part.toggles.get(hop.name, Toggle())
        policies = [_policy(policy, toggle) for policy in hop.policies]
        found.append({"hop": hop.name, "policies": policies, "marks": toggle.marks})
    return found


def _policy(policy: Policy, toggle: Toggle) -> dict[str, Any]:
    holds = "never" if policy.name in toggle.off else "unless_marked" if policy.name in toggle.met else "always"
    return {"policy": original(policy.name), "old": original(policy.name) != policy.name, "holds": holds}
