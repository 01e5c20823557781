"""Two plans in one frame: the hops of both, and one program with the policies of both.

    old, new -> Frame -> merged: a program and a placement of their own

So the code that handles a program (the emitter, redirection) also handles the time between two programs. Where the two
plans have different policies of one name, the frame calls the older one `NAME~old`, which no user's policy can be
called.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.rollout import network
from admc.serve.rollout.model import Placed, Port
from dsl.program import Place, Side
from emitters.hops import hops
from solver.placement import Decision, Placement, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dsl.program import Call, Kind, Policy, Program
    from emitters.hops import Hop

OLD: Final = "~old"


class HopKey(NamedTuple):
    """What identifies a hop in both plans."""

    service: str
    """The service that hosts the ADM."""
    side: Side
    destination: str
    target: int
    number: int
    """The port number that callers dial, if several numbers lead to the target; 0 if one number leads to it, which may
    differ between the plans."""

    @property
    def port(self) -> Port:
        return self.destination, self.target


def same(one: Policy, other: Policy, side: Side, *, arguments: bool) -> bool:
    """Whether two policies have the same effect in one hop, whatever their names are. Without `arguments`, their
    arguments may differ. At egress the only caller is the sender, so the sources of a scope do not matter."""
    if side is Side.INGRESS and (one.sources, one.open_sources) != (other.sources, other.open_sources):
        return False
    return (
        _meaning(one.kind) == _meaning(other.kind)
        and one.match == other.match
        and (not arguments or dict(one.arguments) == dict(other.arguments))
    )


def _refuses_all(guard: Policy | None, other: Policy, side: Side) -> bool:
    """Whether a guard refuses everything that the other one refuses. False if that is not known."""
    if guard is None or not same(guard, other, side, arguments=False):
        return False
    if same(guard, other, side, arguments=True):
        return True
    return guard.kind.traits.judges_caller_alone and set(guard.named("caller")) <= set(other.named("caller"))


def _meaning(kind: Kind) -> tuple[object, ...]:
    """Return all that decides what a kind does, without the place where it is declared. The types of its parameters
    distinguish values that are equal in Python, such as 1 and `true`."""
    text = kind.template and kind.template.text
    return kind.name, kind.parameters, dict(kind.sides), kind.both, kind.guard, kind.effects, text


class Frame:
    """The services and calls of two plans, and the hops of each."""

    def __init__(self, old: Placed, new: Placed) -> None:
        self.program = _frame(old.program, new.program)
        self.plans = old, new
        apart = _parties(old.program) != _parties(new.program)
        names = _order(*([policy.name for policy in placed.program.policies] for placed in self.plans))
        self._order = {name: index for index, name in enumerate(names)}
        self._calls = {_key(call): index for index, call in enumerate(self.program.calls)}
        self._policies = tuple(
            {policy.name: policy for policy in self._reframed(placed, apart)} for placed in self.plans
        )
        self.hops = tuple(
            {self._key(hop): hop for hop in _hops(placed, policies)}
            for placed, policies in zip(self.plans, self._policies, strict=True)
        )
        """The hops of each plan, with policies of this frame."""
        self.keys = tuple(sorted({key for hops in self.hops for key in hops}))
        """The hops of either plan."""
        self.in_network = tuple(network.guards(placed) for placed in self.plans)
        """The guards of each plan that NetworkPolicies alone enforce."""
        before, after = self.in_network
        guards = {port for port in {*before, *after} if network.changed(before.get(port, {}), after.get(port, {}))}
        narrower = network.narrower(*self.plans)
        self.network_changes = frozenset(guards).union(
            key.port for key in self.keys if key.port in narrower and not self._keeps_all(key)
        )
        """The ports at which these guards change, arguments included; and those at which the new NetworkPolicy refuses
        more, while a hop loses a policy or an argument of the old plan. A caller that it refuses would do without
        that for as long as it is not in force."""
        self.arguments_count = self.network_changes | self._exchanges()
        """The ports at which policies with other arguments are other policies: ADMs do not get the arguments at a
        moment of their own, but with the steps of the port."""

    def policies(self, plan: int, key: HopKey) -> tuple[Policy, ...]:
        """Return the policies of a hop in the old plan (0) or in the new plan (1)."""
        hop = self.hops[plan].get(key)
        return hop.policies if hop is not None else ()

    def _exchanges(self) -> frozenset[Port]:
        """Return the ports at one end of which guards may refuse less, and at the other end more. While one end has the
        old plan and the other the new one, a request would pass that both plans refuse."""
        less: set[tuple[Port, Side]] = set()
        more: set[tuple[Port, Side]] = set()
        for key in self.keys:
            before, after = (
                {policy.name: policy for policy in self.policies(plan, key) if policy.kind.guard} for plan in range(2)
            )
            end = key.port, key.side
            if any(not _refuses_all(after.get(name), policy, key.side) for name, policy in before.items()):
                less.add(end)
            if any(not _refuses_all(before.get(name), policy, key.side) for name, policy in after.items()):
                more.add(end)
        return frozenset(port for port, side in less if (port, side.other) in more)

    def _keeps_all(self, key: HopKey) -> bool:
        """Whether a hop has all policies of the old plan in the new one, with their arguments."""
        after = {policy.name: policy for policy in self.policies(1, key)}
        return all(
            policy.name in after and same(policy, after[policy.name], key.side, arguments=True)
            for policy in self.policies(0, key)
        )

    def steady_guards(self, key: HopKey) -> Iterator[Policy]:
        """Yield the guards that stay in a hop, and change in arguments alone or not at all. Where guards in the network
        change, too, new arguments make another guard: an older connection may be one that only the new NetworkPolicy
        refuses. So they do where guards at the other end refuse what these let pass."""
        before = {policy.name: policy for policy in self.policies(0, key) if policy.kind.guard}
        arguments = key.port in self.arguments_count
        for policy in self.policies(1, key):
            if policy.name in before and same(policy, before[policy.name], key.side, arguments=arguments):
                yield policy

    @cached_property
    def merged(self) -> Placed:
        """A program with all policies of both plans, and a placement with the hops of both plans."""
        old, new = self._policies
        before = (self._beside(policy, new) for policy in old.values())
        policies = {policy.name: policy for policy in before} | new
        decisions = tuple(decision for key in self.keys for decision in self._decisions(self.union(key)))
        program = replace(self.program, policies=tuple(sorted(policies.values(), key=self._position)))
        return Placed(program, Placement(decisions, (), (), Status.FEASIBLE, ()))

    def union(self, key: HopKey) -> Hop:
        """Return a hop with the policies of both plans, in declared order."""
        new = {policy.name: policy for policy in self.policies(1, key)}
        old = (self._beside(policy, new) for policy in self.policies(0, key))
        policies = {policy.name: policy for policy in old} | new
        hop = self.hops[1].get(key) or self.hops[0][key]
        return hop._replace(policies=tuple(sorted(policies.values(), key=self._position)))

    def _beside(self, policy: Policy, new: Mapping[str, Policy]) -> Policy:
        """Return a policy of the old plan under its name in the frame, beside the policies of the new plan."""
        other = new.get(policy.name)
        if other is None or same(policy, other, Side.INGRESS, arguments=True):
            return policy
        return replace(policy, name=policy.name + OLD)

    def _key(self, hop: Hop) -> HopKey:
        target = hop.port.target
        services = (placed.program.services.get(hop.destination) for placed in self.plans)
        leading = [sum(port.target == target for port in service.ports) for service in services if service is not None]
        number = hop.port.number if max(leading, default=0) > 1 else 0
        return HopKey(hop.service, hop.side, hop.destination, target, number)

    def _decisions(self, hop: Hop) -> Iterator[Decision]:
        inward, number = hop.side is Side.INGRESS, hop.port.number
        calls = () if inward else (self._calls[hop.service, hop.destination, number],)
        for policy in hop.policies:
            yield Decision(policy.name, hop.destination, Place(hop.side), calls, {}, ports=(number,) if inward else ())

    def _position(self, policy: Policy) -> tuple[int, str]:
        return self._order[policy.name.removesuffix(OLD)], policy.name

    def _reframed(self, placed: Placed, apart: bool) -> Iterator[Policy]:
        """Yield the policies of a plan as this frame has them. A policy for undeclared callers also holds for callers
        that
        only the other program declares. Where the plans differ in their parties (`apart`), the policy's own program
        (`home`) decides to which party an address belongs."""
        program = placed.program
        others = {*self.program.services, *self.program.externals} - program.services.keys() - program.externals.keys()
        home = replace(program, policies=(), pins=()) if apart else None
        for policy in program.policies:
            calls = tuple(sorted(self._calls[_key(program.calls[call])] for call in policy.calls))
            sources = policy.sources | others if policy.open_sources else policy.sources
            yield replace(policy, sources=sources, calls=calls, home=home)


def _hops(placed: Placed, policies: Mapping[str, Policy]) -> Iterator[Hop]:
    for held in hops(*placed).values():
        for hop in held:
            yield hop._replace(policies=tuple(policies[policy.name] for policy in hop.policies))


def _key(call: Call) -> tuple[str, str, int]:
    return call.source, call.destination, call.port.number


def _frame(old: Program, new: Program) -> Program:
    """Return a program with the services, ports, externals and calls of both. Where these differ, the new program
    decides."""
    calls = {_key(call): call for call in (*old.calls, *new.calls)}
    services = {**old.services, **new.services}
    for name in old.services.keys() & new.services.keys():
        ports = {port.number: port for program in (old, new) for port in program.services[name].ports}
        services[name] = replace(services[name], ports=tuple(ports[number] for number in sorted(ports)))
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
    """Return the parts of a program that decide to which party an address belongs."""
    return dict.fromkeys(program.services), {name: party.cidrs for name, party in program.externals.items()}


def _order(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Return all names: the new ones in their order, and each old name in front of the name that followed it."""
    known = set(new)
    names = list(new)
    following: str | None = None
    for name in reversed(old):
        if name not in known:
            names.insert(len(names) if following is None else names.index(following), name)
        following = name
    return tuple(names)
