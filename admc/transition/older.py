"""What older connections still have of policies that plans have dropped, and so which plan may not come at once.

    ({}, old plan, new plan) -> Dropped     (Dropped, new plan, the next one) -> may that begin now?

A connection that is older than a listener has its filters, each by its name and with the newest configuration of that
name. If `a` becomes `b` the older ones go on with `a`. A next plan that has an `a` again reaches those: another policy
would be in its place, and one that waits to be put in force would be skipped, so that they met neither `a` nor `b`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from admc.transition.change import Change, alike
from dsl.program import Side
from emitters.scope import filter_name

if TYPE_CHECKING:
    from admc.transition.model import Placed
    from dsl.program import Policy

Dropped = Mapping[tuple[str, Side, str], "Policy"]
"""(destination, side, what the filter is called in any hop) -> the policy."""


def dropped(earlier: Dropped, old: Placed, new: Placed) -> Dropped:
    """What connections may have that are older than the new plan, and it has not."""
    here = _filters(new)
    return {key: policy for key, policy in {**earlier, **_filters(old)}.items() if key not in here}


def may_follow(older: Dropped, now: Placed, following: Placed) -> bool:
    """Whether a plan leaves those connections what they have: what comes back is what it was, and at once in force."""
    back = [(key, policy) for key, policy in _filters(following).items() if key in older]
    if not back:
        return True
    crossing = Change(now, following).crossing
    return all(key[0] not in crossing and alike(policy, older[key]) for key, policy in back)


def _filters(placed: Placed) -> dict[tuple[str, Side, str], Policy]:
    policies = placed.program.policy_by_name
    return {
        (decision.destination, side, filter_name("", policies[decision.policy])): policies[decision.policy]
        for decision in placed.placement.decisions
        for side in decision.sides
    }
