"""The work of a rollout as phrases, in the order in which an operator does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from admc.base.terminal import counted
from admc.review.diff.model import Diff, NetworkPolicyChange, PolicyAction, PortChange, Restart, Rollout
from admc.review.diff.render.words import Style, listed
from dsl.program import Side
from dsl.words import few

SERVICES: Final = 6
"""One phrase names this many services, and counts the others."""


def order_of_rollout(rollout: Rollout, style: Style) -> list[str]:
    """The phrases in order: close destinations, add ADMs, take the steps, remove ADMs, open destinations."""
    came = [restart for restart in rollout.restarts if restart.comes]
    went = [restart for restart in rollout.restarts if not restart.comes]
    by_action = {
        action: [change for change in rollout.network_policies if change.action is action] for action in PolicyAction
    }
    return [
        *_network_policies(by_action[PolicyAction.CLOSE], "close", style),
        *_network_policies(by_action[PolicyAction.CHANGE], "change", style),
        *_restarts(came, style),
        *steps_phrase(rollout, style),
        *_restarts(went, style),
        *_network_policies(by_action[PolicyAction.OPEN], "open", style),
    ]


def steps_phrase(rollout: Rollout, style: Style) -> list[str]:
    if rollout.steps is None:
        return []
    if rollout.steps.refused is not None:
        return [f"no steps lead to HEAD safely: {style.sentence(rollout.steps.refused)}"]
    if not rollout.steps.steps:
        return []
    waits = f", {counted(rollout.steps.waits, 'wait')}" if rollout.steps.waits else ""
    return [f"{counted(rollout.steps.steps, 'step')}{waits}"]


def _restarts(restarts: Sequence[Restart], style: Style) -> list[str]:
    if not restarts:
        return []
    shown = ", ".join(
        f"{style.name(restart.service)} ({counted(restart.pods, 'pod')})" for restart in restarts[:SERVICES]
    )
    rest = restarts[SERVICES:]
    more = (
        f" and {counted(len(rest), 'service')} more ({counted(sum(restart.pods for restart in rest), 'pod')})"
        if rest
        else ""
    )
    return [f"restart {shown}{more}"]


def _network_policies(changes: Sequence[NetworkPolicyChange], verb: str, style: Style) -> list[str]:
    if not changes:
        return []
    return [f"{verb} {listed([change.destination for change in changes], style, SERVICES)} (NetworkPolicy)"]


def redirection(diff: Diff, style: Style) -> list[str]:
    """The changed ports of ADMs that stay. Ports of an ADM that comes or goes change when its pods restart."""
    restarted = {restart.service for restart in diff.rollout.restarts}
    changes = [change for change in diff.rollout.redirection if change.service not in restarted]
    lines = []
    for comes, word in ((True, "redirect"), (False, "redirect no longer")):
        ports = [_port(change, style) for change in changes if change.comes is comes]
        if ports:
            lines.append(f"{word}: {few(ports, SERVICES)}")
    return lines


def _port(change: PortChange, style: Style) -> str:
    towards = f" to {style.name(change.destination)}" if change.direction is Side.EGRESS else ""
    return f"{change.direction.value} of {style.name(change.service)}{towards} at {change.port}"


def configuration_only(rollout: Rollout, name: Callable[[str], str]) -> list[str]:
    services = rollout.configuration_only
    if not services:
        return []
    return [f"configuration only: {few([name(service) for service in services], SERVICES)}"]
