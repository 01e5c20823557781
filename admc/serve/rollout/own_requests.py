"""Decides when the requests that ADMs send by themselves to a destination that moves begin and end.

An ADM asks a service for an `external_authorization`, copies requests to it (`mirror`) or sends it a share (`split`).
These requests do not pass the filters that the ADM has for calls to that service, and do not carry a marker. So they
meet the policies that the receiver enforces on unmarked requests. Where these policies change for their sender, such
requests either stop in `prepare`, while the receiver still enforces the old plan, or begin with the new plan, once the
receiver enforces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.enforcement import HopKey, same
from admc.serve.rollout.refusals import refused
from dsl.program import Side
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.serve.rollout.diff import Diff
    from admc.serve.rollout.model import Port
    from dsl.program import Policy
    from emitters.errors import EmitError


class _Sending(NamedTuple):
    """The requests that an ADM sends by itself for one policy of a hop."""

    to: str
    """The service that receives the requests."""
    key: HopKey
    policy: Policy

    @property
    def way(self) -> tuple[str, str]:
        return self.key.service, self.to


def late_destinations(diff: Diff) -> frozenset[str]:
    """Return the destinations of the calls for whose policies ADMs begin to send requests of their own to a port that
    moves. The ports of such a destination that do not move change only when the new plan is published.

    Raises `EmitError` where such requests would begin or end at the wrong time.
    """
    before, after = (list(_sent(diff, plan)) for plan in range(2))
    kept = {sending.way for sending in before} & {sending.way for sending in after}
    stops, begins = (
        [sending for sending in sendings if sending.way not in kept and _concerns(diff, sending)]
        for sendings in (before, after)
    )
    late = frozenset(sending.key.destination for sending in begins)
    for sending in (*stops, *begins):
        if sending.key.port in diff.moving or (sending in stops and sending.key.destination in late):
            raise _wrong_time(sending)
    return late


def _sent(diff: Diff, plan: int) -> Iterator[_Sending]:
    for key in diff.frame.keys:
        for policy in diff.frame.policies(plan, key):
            for to in sorted(set(targets(policy))):
                yield _Sending(to, key, policy)


def _concerns(diff: Diff, sending: _Sending) -> bool:
    """Whether the receiver's policies for the sender change at some port that moves."""
    for port in diff.moving:
        if port[0] == sending.to:
            old, new = (_received(diff, plan, port, sending.key.service) for plan in range(2))
            if len(old) != len(new) or not all(map(_alike, old, new)):
                return True
    return False


def _alike(one: Policy, other: Policy) -> bool:
    return one.name == other.name and same(one, other, Side.INGRESS, arguments=False)


def _received(diff: Diff, plan: int, port: Port, sender: str) -> list[Policy]:
    """Return the policies that the receiver enforces on a sender at a port. They do not depend on the port number that
    the sender dials."""
    held = (diff.frame.policies(plan, key) for key in diff.ends(port) if key.side is Side.INGRESS)
    policies = next(filter(None, held), ())
    return [policy for policy in policies if sender in policy.sources]


def _wrong_time(sending: _Sending) -> EmitError:
    name, destination = sending.policy.name, sending.key.destination
    return refused(
        f"the ADM of `{sending.key.service}` begins or ceases to send requests of its own to `{sending.to}` for "
        f"`{name}`, while policies change sides at `{sending.to}` and other policies of calls to `{destination}` "
        "change",
        sending.policy,
        "what an ADM sends by itself meets only what the receiver enforces, so it ends before policies change sides "
        f"there, or begins afterwards: all of `{destination}` would have to change at that moment",
        f"one in which `{name}` comes or goes, and one with the other changes",
    )
