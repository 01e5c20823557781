"""Rollouts from plan to plan, forwards and backwards, and what each request has to meet meanwhile."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from admc.serve.rollout.diff import Diff
from admc.serve.rollout.model import StepName
from admc.serve.rollout.network import relied_on
from admc.serve.rollout.steps import steps
from dsl.program import Protocol, Side
from solver.rules.effects import commute
from solver.rules.facts import targets
from tests.serve.rollout.world import Plans, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from admc.serve.rollout.model import Placed
    from dsl.program import Call, Policy
    from tests.serve.rollout.world import Met

STEPS = tuple(StepName)


class Leg(NamedTuple):
    """The way to a plan."""

    plan: int
    turn: StepName | None = None
    """The step from which it is taken back."""
    again: StepName | None = None
    """The step, on the way back, from which it goes forward again."""
    aborted: bool = False
    """At its end it is taken back from the plan itself."""


def walk(plans: Sequence[Placed], legs: Sequence[Leg]) -> World:
    """Raises `EmitError` where there is no way. A leg that is taken back leaves the plan before in place. The
    NetworkPolicies of the first plan are in force from the beginning."""
    world = World(Plans(plans))
    world.close(0)
    world.settle(plans[0].program.services)
    world.publish("0", world.plans.rest(0), [0])
    at = 0
    for leg in legs:
        at = _go(world, at, leg)
    return world


def _go(world: World, at: int, leg: Leg) -> int:
    plans = world.plans.plans
    # Connections of an earlier plan, between which and the new one something moves, are waited for.
    older = {plan for label in world.labels[world.labels[-1].floor :] for plan in label.plans} - {at}
    waits = any(Diff(plans[plan], plans[leg.plan]).moved for plan in older)
    floor = len(world.labels) - 1 if waits else None
    world.close(at, leg.plan)
    if not Diff(plans[at], plans[leg.plan]).moved:
        world.publish(str(leg.plan), world.plans.rest(leg.plan), [leg.plan], floor)
        _rest(world, leg.plan)
        return leg.plan
    if names := relied_on(plans[at], plans[leg.plan], Diff(plans[at], plans[leg.plan]).moving):
        world.publish(f"{at}, and {leg.plan} waits", world.plans.rest(at), [at])
        world.settle(names)
    states = {
        name: world.plans.step(at, leg.plan, step) for name, step in steps(plans[at], plans[leg.plan], b"key").items()
    }
    order = _order(leg)
    for position, name in enumerate(order):
        if name is StepName.PREPARE:
            floor = floor if position == 0 else None
        elif position and order[position - 1] is StepName.PREPARE:
            floor = len(world.labels) - 1
        else:
            floor = None
        world.publish(f"{leg.plan}/{name}", states[name], [at, leg.plan], floor)
    if leg.turn is not None and leg.again is None:
        world.publish(str(at), world.plans.rest(at), [at])
        _rest(world, at)
        return at
    world.publish(str(leg.plan), world.plans.rest(leg.plan), [leg.plan])
    if not leg.aborted:
        _rest(world, leg.plan)
        return leg.plan
    for position, name in enumerate(reversed(STEPS)):
        # The one wait on the way back is at its first step.
        waited = len(world.labels) - 1 if position == 1 else None
        world.publish(f"{leg.plan}/{name} back", states[name], [at, leg.plan], waited)
    world.publish(str(at), world.plans.rest(at), [at])
    _rest(world, at)
    return at


def _rest(world: World, plan: int) -> None:
    """Every proxy has a plan, so that the NetworkPolicies are those of this plan alone."""
    if world.close(plan):
        world.publish(f"{plan} at rest", world.plans.rest(plan), [plan])


def _order(leg: Leg) -> list[StepName]:
    if leg.turn is None:
        return list(STEPS)
    there = list(STEPS[: STEPS.index(leg.turn) + 1])
    if leg.again is None:
        return there + there[-2::-1]
    low = min(STEPS.index(leg.again), len(there) - 1)
    return there + there[-2:low:-1] + list(STEPS[low:]) if low < len(there) - 1 else list(STEPS)


class Judge:
    """What each request has to meet."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.plans = world.plans
        self._homes = {id(policy): placed.program for placed in self.plans.plans for policy in placed.program.policies}

    def calls(self) -> list[Call]:
        found = {
            (call.source, call.destination, call.port.target): call
            for placed in self.plans.plans
            for call in placed.program.calls
        }
        return list(found.values())

    def judge(self) -> None:
        for call in self.calls():
            self._call(call)
        self._sent_by_adms()

    def applies(self, policy: Policy, source: str) -> bool:
        program = self._homes[id(policy)]
        known = source in program.services or source in program.externals
        return source in policy.sources or (policy.open_sources and not known)

    def expected(self, plan: int, call: Call) -> list[Policy]:
        hops = self.plans.hops[plan]
        port = call.port.target
        out = hops.get((call.source, Side.EGRESS, call.destination, port))
        into = hops.get((call.destination, Side.INGRESS, call.destination, port))
        met = list(out.policies) if out is not None else []
        return met + [each for each in (into.policies if into is not None else ()) if self.applies(each, call.source)]

    def window(self, moment: int, since: int | None = None) -> list[int]:
        """The plans of which a request at a moment may meet one. `since`: of this label, whose connections may be as
        old as it lets them be; None: of that at the moment."""
        labels = self.world.labels[self.world.labels[moment if since is None else since].floor : moment + 1]
        return sorted({plan for label in labels for plan in label.plans})

    def _call(self, call: Call) -> None:
        where = call.source, call.destination, call.port.target
        in_place = self.in_place(*where)
        requests = all(
            hop.carries_requests
            for hops in self.plans.hops
            for key, hop in hops.items()
            if key[2:] == (call.destination, call.port.target)
        )
        if call.port.protocol is not Protocol.TCP and requests:
            for met in self.world.ways(*where):
                self._exactly_one(call, met, in_place)
        for met in self.world.ways(*where, lost=True):
            self._never_neither(call, met, in_place)

    def _exactly_one(self, call: Call, met: Met, in_place: frozenset[str]) -> None:
        got = self._met(met, call.source)
        wanted = [self.expected(plan, call) for plan in self.window(met.moment)]
        assert any(equal(got, each, in_place) for each in wanted), self._said(call, met, got, wanted)
        assert not met.leaks, "the marker arrives: " + self._said(call, met, got, wanted)

    def _never_neither(self, call: Call, met: Met, in_place: frozenset[str]) -> None:
        got = Counter(content(policy, in_place) for policy in self._met(met, call.source))
        wanted = [self.expected(plan, call) for plan in self.window(met.moment)]
        common = set.intersection(*({content(policy, in_place) for policy in each} for each in wanted))
        assert common <= set(got), "a gap: " + self._said(call, met, self._met(met, call.source), wanted)

    def _met(self, met: Met, source: str) -> list[Policy]:
        return [policy for side, policy in met.policies if side is Side.EGRESS or self.applies(policy, source)]

    def in_place(self, source: str, destination: str, port: int) -> frozenset[str]:
        """Policies that change in arguments alone in some hop of a call: these change where they are."""
        keys = (source, Side.EGRESS, destination, port), (destination, Side.INGRESS, destination, port)
        found = set()
        for key in keys:
            held = [hops[key].policies if key in hops else () for hops in self.plans.hops]
            for one, other in combinations(held, 2):
                named = {policy.name: policy for policy in other}
                found.update(
                    policy.name
                    for policy in one
                    if policy.name in named and only_arguments_differ(policy, named[policy.name])
                )
        return frozenset(found)

    def _sent_by_adms(self) -> None:
        for sender, name, there, met in self.world.sent_by_adms():
            got = [policy for _, policy in met.policies if self.applies(policy, sender)]
            wanted = []
            for plan in self.window(met.moment):
                # A plan in which the ADM sends nothing may have some of what it enforces at the sender.
                sends = any(
                    key[0] == sender and there[0] in targets(policy)
                    for key, hop in self.plans.hops[plan].items()
                    for policy in hop.policies
                )
                into = self.plans.hops[plan].get(there)
                held = into.policies if into is not None else ()
                here = [policy for policy in held if self.applies(policy, sender)]
                out = self.plans.hops[plan].get((sender, Side.EGRESS, *there[2:]))
                if sends or out is None:
                    wanted.append(here)
            in_place = frozenset(policy.name for each in wanted for policy in each) if len(wanted) > 1 else frozenset()
            assert any(equal(got, each, in_place) for each in wanted), (
                f"`{sender}` for `{name}` to {there}: {[each.name for each in got]} at {met.how}, "
                f"not {[[policy.name for policy in each] for each in wanted]}"
            )

    def _said(self, call: Call, met: Met, got: Iterable[Policy], wanted: Iterable[Iterable[Policy]]) -> str:
        return (
            f"{call.source} -> {call.destination}:{call.port.number}: {[each.name for each in got]} at {met.how}, not "
            f"{[[policy.name for policy in each] for each in wanted]}"
        )


def only_arguments_differ(one: Policy, other: Policy) -> bool:
    kinds = [(each.kind.name, each.kind.sides, each.kind.effects, each.kind.template) for each in (one, other)]
    return kinds[0] == kinds[1] and one.match == other.match


def content(policy: Policy, in_place: frozenset[str]) -> object:
    """What tells one policy from another. Names do not."""
    arguments = "" if policy.name in in_place else repr(sorted(policy.arguments.items()))
    return policy.kind.name, policy.kind.template, repr(policy.match), arguments


def equal(got: Sequence[Policy], wanted: Sequence[Policy], in_place: frozenset[str]) -> bool:
    """Whether the same policies were met the same number of times, in an order that is as good."""
    one, two = (_numbered([content(policy, in_place) for policy in each]) for each in (got, wanted))
    if set(one) != set(two):
        return False
    return all(
        commute(got[first].effects, got[second].effects) or two.index(one[first]) < two.index(one[second])
        for first, second in combinations(range(len(got)), 2)
    )


def _numbered(contents: Sequence[object]) -> list[tuple[object, int]]:
    """Each with how many of the same come before it."""
    return [(each, contents[:index].count(each)) for index, each in enumerate(contents)]
