"""Requests that ADMs send by themselves to a destination that moves, and when they begin and end.

An ADM asks a service for an `external_authorization`, copies requests to it (`mirror`) or sends it a share (`split`).
None of these pass the filters that the ADM has for calls to that service, and none carry a marker: they meet what the
receiver enforces on unmarked requests. So where that changes for their sender, they stop in `prepare`, while the
receiver still enforces the old plan, or begin with the new plan, after it enforces that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.rollout.enforcement import HopKey, same
from admc.rollout.refusals import refused
from dsl.program import Side
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.rollout.diff import Diff
    from admc.rollout.model import Port
    from dsl.program import Policy
    from emitters.errors import EmitError


class _Sending(NamedTuple):
    """The requests that an ADM sends by itself for one policy of a hop."""

    to: str
    """The service that gets them."""
    key: HopKey
    policy: Policy

    @property
    def way(self) -> tuple[str, str]:
        return self.key.service, self.to


def late_destinations(diff: Diff) -> frozenset[str]:
    """Destinations whose ports, those that do not move, change with the new plan only: requests of ADMs begin there.

    Raises `EmitError` where these would begin or end at the wrong time.
    """
    before, after = (list(_sent(diff, plan)) for plan in range(2))
    kept = {each.way for each in before} & {each.way for each in after}
    stops, begins = (
        [each for each in found if each.way not in kept and _concerns(diff, *each.way)] for found in (before, after)
    )
    late = frozenset(each.key.destination for each in begins)
    for each in (*stops, *begins):
        if each.key.port in diff.moving:
            raise _sent_from_moving(each)
    for each in stops:
        if each.key.destination in late:
            raise _stops_and_begins(each)
    return late


def _sent(diff: Diff, plan: int) -> Iterator[_Sending]:
    for key in diff.frame.keys:
        for policy in diff.frame.policies(plan, key):
            for to in sorted(set(targets(policy))):
                yield _Sending(to, key, policy)


def _concerns(diff: Diff, sender: str, to: str) -> bool:
    """Whether what the receiver enforces on a sender changes, at some port that moves."""
    return any(_changes_for(diff, sender, port) for port in diff.moving if port[0] == to)


def _changes_for(diff: Diff, sender: str, port: Port) -> bool:
    old, new = (
        [policy for policy in _received(diff, plan, port) if sender in policy.sources or policy.open_sources]
        for plan in range(2)
    )
    return len(old) != len(new) or not all(
        one.name == two.name and same(one, two, Side.INGRESS, arguments=False)
        for one, two in zip(old, new, strict=True)
    )


def _received(diff: Diff, plan: int, port: Port) -> tuple[Policy, ...]:
    """What the receiver enforces at a port: the same, whichever number leads to it."""
    held = (diff.frame.policies(plan, key) for key in diff.ends(port) if key.side is Side.INGRESS)
    return next(filter(None, held), ())


def _sent_from_moving(found: _Sending) -> EmitError:
    name, destination = found.policy.name, found.key.destination
    return refused(
        f"the ADM of `{found.key.service}` begins or ceases to send requests of its own to `{found.to}` for `{name}`, "
        f"while policies change sides at `{found.to}` and at `{destination}`",
        found.policy,
        "what an ADM sends by itself meets only what the receiver enforces, so it has to end before policies change "
        "sides there, or begin afterwards",
        f"one in which `{name}` comes or goes, and one with the other changes",
    )


def _stops_and_begins(found: _Sending) -> EmitError:
    name, destination = found.policy.name, found.key.destination
    return refused(
        f"the ADM of `{found.key.service}` ceases to send requests of its own to `{found.to}` for `{name}`, and at "
        f"`{destination}` others begin, while policies change sides at the services that they go to",
        found.policy,
        "the one has to be first, the other last, and a destination changes at one moment",
        f"first the one without `{name}`, then the one with the rest",
    )
