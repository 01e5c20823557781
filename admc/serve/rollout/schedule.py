"""Which plan holds at which end of a call in each step: the table of a rollout.

At a port that moves, requests are enforced by the sender (`S`) and by the receiver (`R`); each has the filters of both
plans from `prepare` on. A request meets `S old, R old` or `S new, R new`, and the marker says which:

    policies go to      step        the sender enforces     the receiver, unmarked    the receiver, marked
    senders             prepare     S old                   R old                     R new
                        senders     S new, marks            R old                     R new
                        receivers   S new, marks            R new                     R new
                        release     S new                   R new                     R new
    the receiver        prepare     S old                   R old                     R old
                        senders     S old, marks            R old                     R old
                        receivers   S old, marks            R new                     R old
                        release     S new                   R new                     R old

Each step changes one end only, so the order in which proxies take it does not matter, and each step is as safe
backwards. A marker that is lost means `S new, R old`, or `S old, R new`: what moves is then met at both ends, and never
at neither. Where policies moved both ways, one of them would be met at neither end: such a plan is refused.
"""

from __future__ import annotations

from admc.serve.rollout.model import Plan, RouteOverlay, StepName
from dsl.program import Side


def overlay(marked: Plan, side: Side, step: StepName, secret: str) -> RouteOverlay:
    """What a step changes in the route table of a hop. `marked`: the plan that requests with the marker meet: the new
    one where policies go to senders, the old one where they go to the receiver."""
    if side is Side.INGRESS:
        switched = step in (StepName.RECEIVERS, StepName.RELEASE)
        return RouteOverlay(Plan.NEW if switched else Plan.OLD, marked, marks=False, secret=secret)
    enforced = {StepName.PREPARE: Plan.OLD, StepName.RELEASE: Plan.NEW}.get(step, marked)
    return RouteOverlay(enforced, None, marks=step in (StepName.SENDERS, StepName.RECEIVERS), secret=secret)
