"""How the server takes a change: its steps and waits (docs/rollout.md), worked out only for what changes."""

from __future__ import annotations

from typing import Final

from admc.review.diff.model import Steps
from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import Placed, StepName
from admc.serve.rollout.own_requests import late_destinations
from admc.serve.rollout.refusals import marker_meaning
from emitters.errors import EmitError

WAITS: Final = 1
"""In `prepare`: for older connections, redirection and closed destinations."""


def steps_of(old: Placed, new: Placed) -> Steps:
    """Without a moving port the new plan is published at once, as one step without a wait; without any change, none."""
    diff = Diff(old, new)
    try:
        for port in sorted(diff.moving):
            marker_meaning(diff, port)
        late_destinations(diff)
    except EmitError as error:
        return Steps(0, 0, "; ".join(item.message for item in error.diagnostics))
    if diff.moving:
        return Steps(len(StepName), WAITS, None)
    return Steps(1 if diff.changed else 0, 0, None)
