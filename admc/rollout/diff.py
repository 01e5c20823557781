"""Two plans: what moves between them, and the steps from one to the other.

    (old, new, key) --steps--> {StepName: Step}

A *port* moves if policies change at both of its ends, at senders and at the receiver, and not in arguments alone. It
moves as a whole: each request meets all that the old plan enforces on it, or all that the new one does. A port at which
one end changes is swapped with the filter chains of that end: in `prepare`, or, where that must not be before other
ports have moved (`own_requests`), with the new plan at the end.
"""

from __future__ import annotations

import hashlib
import hmac
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from admc.rollout import own_requests, refusals
from admc.rollout.captures import captures_of
from admc.rollout.enforcement import Frame, HopKey, alike, same
from admc.rollout.model import Part, Placed, Plan, Step, StepName
from admc.rollout.reasons import reasons
from admc.rollout.schedule import TO_RECEIVER, TO_SENDERS, Move, both_ways, overlay
from dsl.program import Side, Verb
from emitters.envoy.names import filter_name
from solver.rules.effects import commute

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from dsl.program import Policy
    from emitters.hops import Hop

Port = tuple[str, int]
"""A destination, and the target of one of its ports."""

_DECIDES = frozenset((Verb.REJECTS, Verb.WRITES, Verb.ROUTES))


class Pair(NamedTuple):
    """A policy that leaves one end of a port, and one that comes to the other and may take its place."""

    old: Policy
    new: Policy


class Diff:
    """What differs between two plans."""

    def __init__(self, old: Placed, new: Placed) -> None:
        self.frame = Frame(old, new)
        self.keys = tuple(sorted({key for hops in self.frame.hops for key in hops}))
        self._ends: dict[Port, list[HopKey]] = {}
        for key in self.keys:
            self._ends.setdefault(key[2:4], []).append(key)

    def ends(self, port: Port) -> list[HopKey]:
        """The hops to a port, of either plan."""
        return self._ends[port]

    def carries_requests(self, port: Port) -> bool:
        return all(hops[key].carries_requests for hops in self.frame.hops for key in self._ends[port] if key in hops)

    def policies(self, plan: int, key: HopKey) -> tuple[Policy, ...]:
        hop = self.frame.hops[plan].get(key)
        return hop.policies if hop is not None else ()

    def received(self, plan: int, port: Port) -> tuple[Policy, ...]:
        """What the receiver enforces at a port: the same, whichever number leads to it."""
        held = (self.policies(plan, key) for key in self.ends(port) if key[1] is Side.INGRESS)
        return next(filter(None, held), ())

    @cached_property
    def changed(self) -> tuple[HopKey, ...]:
        """Hops whose policies change in any way."""
        return tuple(key for key in self.keys if not self._same(key, arguments=True))

    @cached_property
    def moving(self) -> frozenset[Port]:
        """Ports at both ends of which policies change, and not in arguments alone."""
        ends: dict[Port, set[Side]] = {}
        for key in self.changed:
            if not self._same(key, arguments=False):
                ends.setdefault(key[2:4], set()).add(key[1])
        return frozenset(port for port, sides in ends.items() if len(sides) == len(Side))

    @cached_property
    def moves(self) -> Mapping[Port, Move]:
        """What a marked request meets at each port that moves. Raises `EmitError` where nothing is safe."""
        return {port: self._move(port) for port in sorted(self.moving)}

    @property
    def concerned(self) -> frozenset[str]:
        """Services whose ADM differs between the two plans, or from one of them in some step."""
        return frozenset(key[0] for key in self.changed) | self.moved

    @property
    def moved(self) -> frozenset[str]:
        """Services at either end of ports that move."""
        return frozenset(key[0] for port in self.moving for key in self.ends(port))

    def is_late(self, key: HopKey) -> bool:
        return key[2] in self.late and key[2:4] not in self.moving

    @cached_property
    def late(self) -> frozenset[str]:
        """Destinations whose ports, those that do not move, change with the new plan only. Raises `EmitError`."""
        return own_requests.late(self)

    def pairs(self, port: Port, left: Side) -> tuple[Pair, ...]:
        """What leaves one end of a port, each with all that comes to the other end and may take its place."""
        leaving = self._apart(port, left, 0)
        coming = self._apart(port, left.other, 1)
        outside = self.frame.program.externals.keys()
        return tuple(Pair(one, two) for one in leaving for two in coming if _may_replace(one, two, outside))

    def _same(self, key: HopKey, *, arguments: bool) -> bool:
        """Whether a hop has the same policies in the same order in both plans."""
        before, after = self.policies(0, key), self.policies(1, key)
        return [policy.name for policy in before] == [policy.name for policy in after] and all(
            same(one, other, key[1], arguments=arguments) for one, other in zip(before, after, strict=True)
        )

    def _apart(self, port: Port, side: Side, plan: int) -> tuple[Policy, ...]:
        """Policies of one plan that some hop at this end of a port has, and not, but for arguments, in the other."""
        found: dict[str, Policy] = {}
        for key in (key for key in self.ends(port) if key[1] is side):
            others = {policy.name: policy for policy in self.policies(1 - plan, key)}
            for policy in self.policies(plan, key):
                if policy.name not in others or not same(policy, others[policy.name], side, arguments=False):
                    found[policy.name] = policy
        return tuple(found.values())

    def _move(self, port: Port) -> Move:
        refusals.check_port(self, port)
        up, down = self.pairs(port, Side.INGRESS), self.pairs(port, Side.EGRESS)
        if not (up and down):
            return TO_RECEIVER if down else TO_SENDERS
        ups = self._taken_over(port, up)
        if ups is None:
            raise refusals.both_ways(port[0], up[0].old, down[0].old)
        return both_ways(ups)

    def _taken_over(self, port: Port, up: Sequence[Pair]) -> Mapping[str, str] | None:
        """Old name -> new name of what goes to senders; None where these would enforce something else than the old
        plan, or in another order."""
        found = {}
        for old in {pair.old.name: pair.old for pair in up}.values():
            new = [pair.new for pair in up if pair.old is old and alike(pair.new, old)]
            if len(new) != 1:
                return None
            found[old.name] = new[0].name
        if {pair.new.name for pair in up} != set(found.values()) or len(set(found.values())) < len(found):
            return None
        there = self.received(0, port)
        for index, policy in enumerate(there):
            before = (other for other in there[:index] if other.name not in found)
            if policy.name in found and not all(commute(policy.effects, other.effects) for other in before):
                return None
        names = [found[policy.name] for policy in there if policy.name in found]
        order = [policy.name for policy in self.frame.plans[1].program.policies]
        return found if names == sorted(names, key=order.index) else None


def moves(old: Placed, new: Placed) -> frozenset[str]:
    """The services at both ends of what moves: if there are any, the way from one plan to the other needs steps."""
    return Diff(old, new).moved


def changes(old: Placed, new: Placed) -> frozenset[str]:
    """The services whose ADM differs between two plans, or in a step between them."""
    return Diff(old, new).concerned


def steps(old: Placed, new: Placed, key: bytes) -> Mapping[StepName, Step]:
    """The steps from one plan to another. `key` is secret: the markers are derived from it.

    Raises `EmitError` (ADM855) where no step is safe.
    """
    diff = Diff(old, new)
    found = _Steps(diff, {port[0]: _secret(key, port[0], old, new) for port in diff.moves})
    return {name: found.step(name) for name in StepName}


class _Steps:
    def __init__(self, diff: Diff, secrets: Mapping[str, str]) -> None:
        self._diff = diff
        self._secrets = secrets
        self._merged = diff.frame.merged
        self._hops: dict[str, list[tuple[HopKey, Hop]]] = {}
        for key in diff.keys:
            hop = self._hop(key)
            if hop is not None:
                self._hops.setdefault(key[0], []).append((key, hop))

    def step(self, name: StepName) -> Step:
        diff = self._diff
        old, new = diff.frame.plans
        closed = [set(each.placement.closed) for each in (old, new)]
        prepares, releases = name is StepName.PREPARE, name is StepName.RELEASE
        after = diff.frame.hops[1]
        coming = (after[key] for key in diff.changed if key[2:4] in diff.moving and key in after)
        return Step(
            name,
            old,
            new,
            {service: self._part(service, name) for service in sorted(self._hops)},
            services=diff.concerned,
            redirected=dict.fromkeys(sorted({key[0] for key in diff.keys}), self._merged),
            needs_redirection=captures_of(coming) if prepares else {},
            closes=tuple(sorted(closed[1] - closed[0])) if prepares else (),
            opens=tuple(sorted(closed[0] - closed[1])) if releases else (),
            reasons=reasons(diff) if prepares else (),
            secrets=frozenset(self._secrets.values()),
        )

    def _hop(self, key: HopKey) -> Hop | None:
        diff = self._diff
        before, after = (hops.get(key) for hops in diff.frame.hops)
        if key[2:4] not in diff.moving:
            return before if diff.is_late(key) else after
        if key[1] is Side.EGRESS and diff.carries_requests(key[2:4]):
            return after or before  # its filters are put together from both plans (`chains`)
        # At ingress it also tells which addresses the listener has to wait for.
        return diff.frame.union(key)

    def _part(self, service: str, name: StepName) -> Part:
        held = self._hops[service]
        overlays = {
            hop.name: overlay(self._diff.moves[key[2:4]], key[1], name, self._secrets[key[2]])
            for key, hop in held
            if key[2:4] in self._diff.moves and hop.carries_requests
        }
        plans = {hop.name: self._plan(key) for key, hop in held}
        steady = {hop.name: self._steady(key) for key, hop in held if hop.name in overlays}
        return Part(self._merged, tuple(hop for _, hop in held), overlays, plans, steady)

    def _steady(self, key: HopKey) -> frozenset[str]:
        before = {policy.name: policy for policy in self._diff.policies(0, key)}
        return frozenset(
            filter_name("", policy).lstrip("/")
            for policy in self._diff.policies(1, key)
            if policy.kind.guard
            and policy.name in before
            and same(policy, before[policy.name], key[1], arguments=False)
        )

    def _plan(self, key: HopKey) -> Plan | None:
        if key[2:4] in self._diff.moving:
            return None
        return Plan.OLD if self._diff.is_late(key) else Plan.NEW


def _may_replace(one: Policy, other: Policy, outside: Set[str]) -> bool:
    """Whether one policy may take the place of the other: they have one name, or do something of the same sort to some
    of the same requests. A kind that declares no effects may do anything, and an outside party may be any caller."""
    if one.name == other.name:
        return True
    verbs = [{effect.verb for effect in policy.effects or ()} - {Verb.READS} for policy in (one, other)]
    does = not all(verbs) or not verbs[0].isdisjoint(verbs[1]) or not any(_DECIDES.isdisjoint(each) for each in verbs)
    anyone = one.open_sources or other.open_sources or not outside.isdisjoint(one.sources | other.sources)
    return does and (anyone or not one.sources.isdisjoint(other.sources))


def version(placed: Placed) -> str:
    """The same for the same files and decisions."""
    parts = [f"{item.path}\0{item.sha256}" for item in placed.program.inputs]
    parts += [f"{one.policy}\0{one.destination}\0{'+'.join(one.sides)}" for one in placed.placement.decisions]
    return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _secret(key: bytes, destination: str, old: Placed, new: Placed) -> str:
    """A value that only ADMs get. Another rollout, or another destination, has another."""
    parts = (version(old), version(new), destination)
    return hmac.new(key, "\0".join(parts).encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
