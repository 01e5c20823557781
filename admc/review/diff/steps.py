"""The steps and waits in which the server takes a change (docs/rollout.md).

Placed, Placed -> Steps
"""

from __future__ import annotations

from typing import Final

from admc.review.diff.model import Steps
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.network import closings
from admc.serve.rollout.own_requests import late_destinations
from admc.serve.rollout.refusals import marker_meaning
from emitters.errors import EmitError

WAITS: Final = 1
"""`prepare` waits once: for older connections and redirection together."""


def steps_of(old: Placed, new: Placed) -> Steps:
    """The steps from one placement to another.

    | change                   | steps                         |
    | ------------------------ | ----------------------------- |
    | none                     | none                          |
    | no port moves            | one, which publishes the plan |
    | ports move               | all of `StepName`, one wait   |
    | no safe order of steps   | none, with the reason         |

    If ports move and a NetworkPolicy of the new placement refuses more, there is another wait before the steps.
    """
    diff = Diff(old, new)
    try:
        for port in sorted(diff.moving):
            marker_meaning(diff, port)
        late_destinations(diff)
    except EmitError as error:
        return Steps(0, 0, "; ".join(diagnostic.message for diagnostic in error.diagnostics))
    if diff.moving:
        return Steps(len(StepName), WAITS + bool(closings(old, new)), None)
    return Steps(1 if diff.changed else 0, 0, None)
