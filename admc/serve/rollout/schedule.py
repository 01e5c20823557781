"""Decides which plan each end of a call enforces in each step of a rollout.

At a port that moves, both the sender (`S`) and the receiver (`R`) enforce policies on a request, and both have the
filters of both plans from `prepare` on. A request meets `S old, R old` or `S new, R new`; the marker decides which:

    policies go to      step        the sender enforces     the receiver, unmarked    the receiver, marked
    senders             prepare     S old                   R old                     R new
                        senders     S new, marks            R old                     R new
                        receivers   S new, marks            R new                     R new
                        release     S new                   R new                     R new
    the receiver        prepare     S old                   R old                     R old
                        senders     S old, marks            R old                     R old
                        receivers   S old, marks            R new                     R old
                        release     S new                   R new                     R old

Each step changes one end only. So the order in which proxies take the step does not matter, and the step is as safe
backwards. A request that lost its marker meets `S new, R old`, or `S old, R new`: it meets the moving policies at both
ends, and never at neither end. If policies moved in both directions, such a request would meet one of them at neither
end, so such a plan is refused.

A guard in the network is enforced by NetworkPolicies from before `prepare` until after `release`, whichever plan has
it. Where policies move between the network and the senders, and the receiver has no hop in either plan, requests get no
marker: no ADM would remove it.
"""

from __future__ import annotations

from admc.serve.rollout.model import Plan, RouteOverlay, StepName
from dsl.program import Side


def overlay(marked: Plan, side: Side, step: StepName, secret: str, *, received: bool) -> RouteOverlay:
    """Return the change of a step in the route table of a hop. `marked` is the plan that requests with the marker meet:
    the new plan if policies move to senders, and the old plan if they move to the receiver. `received` says whether
    the receiver has a hop."""
    if side is Side.INGRESS:
        switched = step in (StepName.RECEIVERS, StepName.RELEASE)
        return RouteOverlay(Plan.NEW if switched else Plan.OLD, marked, marks=False, secret=secret)
    enforced = {StepName.PREPARE: Plan.OLD, StepName.RELEASE: Plan.NEW}.get(step, marked)
    marks = received and step in (StepName.SENDERS, StepName.RECEIVERS)
    return RouteOverlay(enforced, None, marks=marks, secret=secret)
