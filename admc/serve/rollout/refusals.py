"""Errors for plans to which no safe steps lead (ADM855). Each names a way round: two plans, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.serve.rollout.model import Plan
from dsl.diagnostics.diagnostic import Diagnostic, Severity
from dsl.program import Side
from emitters.errors import EmitError

if TYPE_CHECKING:
    from admc.serve.rollout.diff import Diff
    from admc.serve.rollout.model import Port
    from dsl.program import Policy


def refused(message: str, policy: Policy, cause: str, parts: str) -> EmitError:
    """Return the error. `parts` describes the two plans that lead there one after the other."""
    hint = f"make two plans of it: {parts}"
    return EmitError((Diagnostic("ADM855", Severity.ERROR, message, policy.span, cause=cause, hint=hint),))


def marker_meaning(diff: Diff, port: Port) -> Plan:
    """Return the plan that requests with the marker meet at a port that moves. Raises `EmitError` if neither plan is
    safe."""
    if _port_changes(diff, port):
        policies = (policy for plan in (1, 0) for key in diff.ends(port) for policy in diff.frame.policies(plan, key))
        raise refused(
            f"a port of `{port[0]}` changes while policies change sides at it",
            next(policies),
            f"its number, protocol or target {port[1]} is another one in the new plan, so requests could reach pods of "
            "either plan at a port at which only one of the two plans is enforced",
            "first the one in which policies change sides, then the one with the other port",
        )
    up, down = (next(diff.pairs(port, side), None) for side in (Side.INGRESS, Side.EGRESS))
    if up is not None and down is not None:
        one, other = up.old.name, down.old.name
        raise refused(
            f"`{one}` goes to the senders of `{port[0]}` while `{other}` comes to its ingress",
            up.old,
            "between the two plans a request could meet one of them at both ends, and the other at neither",
            f"first the one in which `{one}` moves, then the one with all the rest",
        )
    # Even if no policy replaces another one, a request that lost its marker meets policies of both plans.
    return Plan.NEW if down is None and diff.crosses(port, Side.INGRESS) else Plan.OLD


def _port_changes(diff: Diff, port: Port) -> bool:
    """Whether a port that moves has another number, target or protocol in each plan."""
    old, new = (placed.program.services.get(port[0]) for placed in diff.frame.plans)
    if old is None or new is None:
        return False
    before, after = ({(port.number, port.target, port.protocol) for port in service.ports} for service in (old, new))
    return any(target == port[1] for _, target, _ in before ^ after)
