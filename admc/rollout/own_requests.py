"""What ADMs send by themselves to a destination that moves, and when that begins and ends.

An ADM asks a service for an `external_authorization`, copies requests to it (`mirror`) or sends it a share (`split`).
None of these pass the filters that the ADM has for calls to that service, and none carry a marker: they meet what the
receiver enforces on unmarked requests. So where that changes for their sender, they stop in `prepare`, while the
receiver still enforces the old plan, or begin with the new plan, after it enforces that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admc.rollout import refusals
from admc.rollout.enforcement import same
from dsl.program import Side
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.rollout.diff import Diff
    from admc.rollout.enforcement import HopKey
    from dsl.program import Policy


def late(diff: Diff) -> frozenset[str]:
    """Destinations that change with the new plan only. Raises `EmitError` where the time would be wrong."""
    before, after = (_sent(diff, plan) for plan in range(2))
    moved = {pair for pair in before.keys() ^ after.keys() if any(_concerns(diff, *pair, port) for port in diff.moving)}
    stops = [each for pair in sorted(moved & before.keys()) for each in before[pair]]
    begins = [each for pair in sorted(moved & after.keys()) for each in after[pair]]
    found = frozenset(key[2] for key, _, _ in begins)
    for key, policy, helper in (*stops, *begins):
        if key[2:4] in diff.moving:
            raise refusals.sends_from_moving(policy, key[0], helper, key[2])
    for key, policy, helper in stops:
        if key[2] in found:
            raise refusals.stops_and_begins(policy, key[0], helper, key[2])
    return found


def _sent(diff: Diff, plan: int) -> dict[tuple[str, str], list[tuple[HopKey, Policy, str]]]:
    """(whose ADM sends, to what service) -> the hops and policies for which it does so."""
    found: dict[tuple[str, str], list[tuple[HopKey, Policy, str]]] = {}
    for key, policy in _all(diff, plan):
        for helper in sorted(set(targets(policy))):
            found.setdefault((key[0], helper), []).append((key, policy, helper))
    return found


def _all(diff: Diff, plan: int) -> Iterator[tuple[HopKey, Policy]]:
    for key in diff.keys:
        for policy in diff.policies(plan, key):
            yield key, policy


def _concerns(diff: Diff, sender: str, helper: str, port: tuple[str, int]) -> bool:
    """Whether what a port's receiver enforces on a sender changes, at a port that moves."""
    if port[0] != helper:
        return False
    old, new = (
        [policy for policy in diff.received(plan, port) if sender in policy.sources or policy.open_sources]
        for plan in range(2)
    )
    return len(old) != len(new) or not all(
        one.name == two.name and same(one, two, Side.INGRESS, arguments=False)
        for one, two in zip(old, new, strict=True)
    )
