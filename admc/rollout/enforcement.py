"""Two plans in one frame: the hops of both, and one program with the policies of both.

    old, new -> Frame -> merged: a program and a placement of their own

So the code that handles a program (the emitter, redirection) handles what is between two programs, too. Where a policy
is another one in each plan, the older version is called `NAME~old` there: no policy of a user can have that name.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from admc.rollout.model import Placed
from dsl.program import Side
from emitters.envoy.matching.callers import covers_all_callers
from emitters.hops import hops
from solver.placement import Placement, Status
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl.program import Call, Policy, Port, Program
    from emitters.hops import Hop
    from solver.placement import Decision

OLD: Final = "~old"

HopKey = tuple[str, Side, str, int, int]
"""Whose ADM, side, destination, target port, and the number that callers dial: 0 where one number leads to that target,
which may be another one in each plan."""


def original(name: str) -> str:
    """The user's name of a policy."""
    return name.removesuffix(OLD)


def does_the_same(one: Policy, other: Policy) -> bool:
    """Whether two policies, of one name or not, do the same but for their arguments, to requests of the same match."""
    return (
        one.kind.name == other.kind.name
        and one.kind.sides == other.kind.sides
        and one.kind.effects == other.kind.effects
        and (one.kind.template and one.kind.template.text) == (other.kind.template and other.kind.template.text)
        and one.match == other.match
    )


def same(one: Policy, other: Policy, side: Side, *, arguments: bool) -> bool:
    """Whether two policies do the same in one hop, perhaps but for their arguments. At egress the caller is known."""
    if side is Side.INGRESS and (one.sources, one.open_sources) != (other.sources, other.open_sources):
        return False
    return does_the_same(one, other) and (not arguments or dict(one.arguments) == dict(other.arguments))


def alike(one: Policy, other: Policy) -> bool:
    """Whether two policies do the same to the same requests. Both are of one frame."""
    return same(one, other, Side.INGRESS, arguments=True) and one.ports == other.ports


class Frame:
    """The services and calls of two plans, and the hops of each."""

    def __init__(self, old: Placed, new: Placed) -> None:
        self.program = _frame(old.program, new.program)
        self.plans = old, new
        everyone = frozenset((*self.program.services, *self.program.externals))
        self._outside = frozenset(old.program.externals.keys() ^ new.program.externals.keys())
        apart = _parties(old.program) != _parties(new.program)
        homes = [replace(each.program, policies=(), pins=()) if apart else None for each in self.plans]
        index = {_key(call): position for position, call in enumerate(self.program.calls)}
        self.policies = tuple(
            {
                policy.name: _reframed(policy, placed.program, index, everyone, home)
                for policy in placed.program.policies
            }
            for placed, home in zip(self.plans, homes, strict=True)
        )
        """The policies of each plan by name, in this frame."""
        self.decisions = tuple(tuple(_decisions(placed, new.program, index)) for placed in self.plans)
        self.hops = tuple(
            {self._key(hop): hop for hop in _hops(placed, policies)}
            for placed, policies in zip(self.plans, self.policies, strict=True)
        )
        """The hops of each plan, with policies of this frame."""
        names = _order(*([policy.name for policy in placed.program.policies] for placed in self.plans))
        self._order = {name: index for index, name in enumerate(names)}

    @cached_property
    def merged(self) -> Placed:
        """One program with all policies of both plans, and a placement with all their decisions."""
        old, new = self.policies
        names = {name: old_name(policy, new) for name, policy in old.items()}
        policies = {names[name]: replace(policy, name=names[name]) for name, policy in old.items()} | new
        decisions = [*(replace(each, policy=names[each.policy]) for each in self.decisions[0]), *self.decisions[1]]
        program = self._with(policies, {each.destination for each in decisions})
        return Placed(program, Placement(tuple(decisions), (), (), Status.FEASIBLE, ()))

    def union(self, key: HopKey) -> Hop:
        """A hop with the policies of both plans, in declared order."""
        before, after = (hops.get(key) for hops in self.hops)
        either = after or before
        assert either is not None  # noqa: S101
        new = {policy.name: policy for policy in (after.policies if after else ())}
        old = (replace(policy, name=old_name(policy, new)) for policy in (before.policies if before else ()))
        policies = {policy.name: policy for policy in old} | new
        ordered = sorted(policies.values(), key=self._position)
        return either._replace(policies=tuple(ordered))

    def _key(self, hop: Hop) -> HopKey:
        name, target = hop.destination, hop.port.target
        leading = (
            sum(port.target == target for port in _ports(placed.program, name).values()) for placed in self.plans
        )
        number = hop.port.number if max(leading) > 1 else 0
        return hop.service, hop.side, name, target, number

    def _position(self, policy: Policy) -> tuple[int, str]:
        return self._order[original(policy.name)], policy.name

    def _with(self, policies: Mapping[str, Policy], destinations: set[str]) -> Program:
        # The network of a party that no policy names would be cut out of the network that it is inside.
        named = destinations | {name for policy in policies.values() for name in targets(policy)}
        absent = self._outside - named
        ordered = sorted(policies.values(), key=self._position)
        if absent:
            ordered = [
                replace(policy, sources=policy.sources - absent) if policy.home is None else policy
                for policy in ordered
            ]
        externals = {name: party for name, party in self.program.externals.items() if name not in absent}
        return replace(self.program, externals=externals, policies=tuple(ordered))


def old_name(policy: Policy, new: Mapping[str, Policy]) -> str:
    """What a policy of the old plan is called beside those of the new one."""
    other = new.get(policy.name)
    return policy.name if other is None or alike(policy, other) else policy.name + OLD


def _hops(placed: Placed, policies: Mapping[str, Policy]) -> Iterator[Hop]:
    for held in hops(*placed).values():
        for hop in held:
            yield hop._replace(policies=tuple(policies[policy.name] for policy in hop.policies))


def _key(call: Call) -> tuple[str, str, int]:
    return call.source, call.destination, call.port.number


def _frame(old: Program, new: Program) -> Program:
    """The services, externals and calls of both; where they differ, as the new program says."""
    calls = {_key(call): call for call in (*old.calls, *new.calls)}
    services = {**old.services, **new.services}
    return replace(
        new,
        services={name: services[name] for name in sorted(services)},
        externals={
            name: party for name, party in sorted({**old.externals, **new.externals}.items()) if name not in services
        },
        calls=tuple(sorted(calls.values(), key=lambda call: (call.destination, call.source, call.port.number))),
        policies=(),
        pins=(),
    )


def _parties(program: Program) -> tuple[Mapping[str, object], ...]:
    """What tells whose an address is."""
    return dict.fromkeys(program.services), {name: party.cidrs for name, party in program.externals.items()}


def _reframed(
    policy: Policy,
    program: Program,
    index: Mapping[tuple[str, str, int], int],
    everyone: frozenset[str],
    home: Program | None,
) -> Policy:
    """The policy in the common frame. One for undeclared callers is also for those that only the other program
    declares. Whose an address is, its own program says (`home`)."""
    calls = tuple(sorted(index[_key(program.calls[call])] for call in policy.calls))
    if covers_all_callers(program, policy):
        return replace(policy, sources=everyone, calls=calls)
    others = everyone - program.services.keys() - program.externals.keys()
    sources = policy.sources | others if policy.open_sources and others else policy.sources
    return replace(policy, sources=sources, calls=calls, home=home)


def _decisions(placed: Placed, new: Program, index: Mapping[tuple[str, str, int], int]) -> Iterator[Decision]:
    """The decisions of a placement in the common frame. A port that has another number in the new program is enforced
    at the one that leads to the same target: at ingress a connection is known by that."""
    program = placed.program
    for decision in placed.placement.decisions:
        calls = tuple(sorted(index[_key(program.calls[call])] for call in decision.calls))
        before, after = _ports(program, decision.destination), _ports(new, decision.destination)
        numbers = {program.calls[call].port.number for call in decision.calls}.union(decision.ports)
        leading = {port.target: number for number, port in after.items()}
        gone = {before[number].target for number in numbers if number in before and number not in after}
        moved = {leading[target] for target in gone if target in leading}
        yield replace(decision, calls=calls, ports=tuple(sorted(moved.union(decision.ports))))


def _ports(program: Program, name: str) -> dict[int, Port]:
    service = program.services.get(name)
    return {} if service is None else {port.number: port for port in service.ports}


def _order(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Names in new order, and each old one before the one that followed it."""
    known = set(new)
    found = list(new)
    following: str | None = None
    for name in reversed(old):
        if name not in known:
            found.insert(len(found) if following is None else found.index(following), name)
        following = name
    return tuple(found)
