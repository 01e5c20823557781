"""Computes the differences between two plans.

    old, new -> Diff

A *port* moves if policies change at two of its ends, and not in arguments alone: at its senders, in the network, or at
its receiver. It moves as a whole: each request meets either all policies of the old plan for it, or all those of the
new plan. The network changes if a guard in it does, or if the new NetworkPolicy refuses more while a hop loses
something. Then arguments count as well: the new NetworkPolicy counts at another moment than the new arguments of an
ADM. They also count where guards at one end may refuse less, and those at the other end more.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.enforcement import Frame, HopKey, same
from dsl.program import Place, Side

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from admc.serve.rollout.model import Placed, Port
    from dsl.program import Policy


class Pair(NamedTuple):
    """A policy that leaves one end of a port, and one that comes to the other and may take its place."""

    old: Policy
    new: Policy


class Diff:
    """The differences between two plans."""

    def __init__(self, old: Placed, new: Placed) -> None:
        self.frame = Frame(old, new)
        self._ends: dict[Port, list[HopKey]] = {}
        for key in self.frame.keys:
            self._ends.setdefault(key.port, []).append(key)

    def ends(self, port: Port) -> list[HopKey]:
        """The hops to a port, of either plan."""
        return self._ends[port]

    def carries_requests(self, port: Port) -> bool:
        ends = (hops.get(key) for hops in self.frame.hops for key in self._ends[port])
        return all(hop.carries_requests for hop in ends if hop is not None)

    @cached_property
    def changed(self) -> tuple[HopKey, ...]:
        """The hops whose policies change in any way."""
        return tuple(key for key in self.frame.keys if not self.same(key, arguments=True))

    @cached_property
    def moving(self) -> frozenset[Port]:
        """The ports at two ends of which policies change, and which have a hop. A port number may have another target
        in each plan. Then there are two ports, and a request may reach either of them, so a change at one of them
        counts as a change at both."""
        ends: dict[Port, set[Place]] = {port: {Place.NETWORK} for port in self.frame.network_changes}
        for key in self.changed:
            if self.differs(key):
                ends.setdefault(key.port, set()).add(Place(key.side))
        beside = self._retargeted
        return frozenset(
            port
            for port in ends
            if port in self._ends
            and len(ends[port].union(*(ends.get(other, ()) for other in beside.get(port, ())))) > 1
        )

    def differs(self, key: HopKey) -> bool:
        """Whether the policies of a hop change in a way that takes the steps of a port that moves."""
        return not self.same(key, arguments=key.port in self.frame.arguments_count)

    @cached_property
    def _retargeted(self) -> Mapping[Port, Collection[Port]]:
        """Each port whose number has another target in the other plan, with the ports that the number leads to
        there."""
        targets: dict[Port, set[Port]] = {}
        old, new = (placed.program.services for placed in self.frame.plans)
        for name in old.keys() & new.keys():
            after = {port.number: port.target for port in new[name].ports}
            for port in old[name].ports:
                target = after.get(port.number, port.target)
                if target != port.target:
                    targets.setdefault((name, port.target), set()).add((name, target))
                    targets.setdefault((name, target), set()).add((name, port.target))
        return targets

    @property
    def moved(self) -> frozenset[str]:
        """Services at either end of ports that move. If there are any, the way to the new plan needs steps."""
        return frozenset(key.service for port in self.moving for key in self.ends(port))

    @property
    def concerned(self) -> frozenset[str]:
        """The services whose ADM differs between the two plans, or differs from one of the plans in some step."""
        return frozenset(key.service for key in self.changed) | self.moved

    def pairs(self, port: Port, left: Side) -> Iterator[Pair]:
        """Yield each policy that leaves one end of a port, with each policy that comes to the other end and may replace
        it."""
        coming = self._apart(port, left.other, 1)
        leaving = self._apart(port, left, 0)
        return (Pair(old, new) for old in leaving for new in coming if _may_replace(old, new))

    def crosses(self, port: Port, left: Side) -> bool:
        """Whether a policy leaves one end of a port, and a policy comes to the other end."""
        return bool(self._apart(port, left, 0) and self._apart(port, left.other, 1))

    def same(self, key: HopKey, *, arguments: bool) -> bool:
        """Whether a hop has the same policies in the same order in both plans."""
        before, after = (self.frame.policies(plan, key) for plan in range(2))
        return [policy.name for policy in before] == [policy.name for policy in after] and all(
            same(one, other, key.side, arguments=arguments) for one, other in zip(before, after, strict=True)
        )

    def _apart(self, port: Port, side: Side, plan: int) -> tuple[Policy, ...]:
        """Return the policies that some hop at this end of a port has in one plan, and that the hop does not have in
        the other plan. A policy that differs in arguments alone counts as the same policy."""
        policies: dict[str, Policy] = {}
        for key in (key for key in self.ends(port) if key.side is side):
            others = {policy.name: policy for policy in self.frame.policies(1 - plan, key)}
            for policy in self.frame.policies(plan, key):
                if policy.name not in others or not same(policy, others[policy.name], side, arguments=False):
                    policies[policy.name] = policy
        return tuple(policies.values())


def _may_replace(one: Policy, other: Policy) -> bool:
    """Whether one policy may take the place of the other: they have one name, or do the same under two names."""
    return one.name == other.name or same(one, other, Side.EGRESS, arguments=False)


def version(placed: Placed) -> str:
    """Return a digest of the files and decisions of a plan."""
    parts = [f"{item.path}\0{item.sha256}" for item in placed.program.inputs]
    parts += [f"{one.policy}\0{one.destination}\0{one.place}" for one in placed.placement.decisions]
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
