"""What differs between two states: which enforcements come, which leave, and which stay where they are.

An *entry* is one policy at one side of one destination. Both ends of a transition are brought into one frame (one set
of services and calls), so that old and new entries can stand side by side in one program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.transition.asks import First, firsts, rounds
from admc.transition.ports import renumbered
from dsl.program import Protocol, Side, Stage, Verb
from emitters.envoy.matching.callers import covers_all_callers
from solver.rules.facts import targets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from admc.transition.model import Placed
    from dsl.program import Call, Policy, Program
    from solver.placement import Decision

CallKey = tuple[str, str, int]
EntryKey = tuple[str, str, Side]
"""Policy, destination, side."""

_DECIDES: Final = frozenset((Verb.REJECTS, Verb.WRITES, Verb.ROUTES))
"""What may keep a request, or what it says, from the service: one way of it may take the place of another."""


class Entry(NamedTuple):
    """One policy at one side of one destination, in the common frame."""

    policy: Policy
    side: Side
    decision: Decision

    @property
    def key(self) -> EntryKey:
        return self.policy.name, self.decision.destination, self.side

    def ports(self, program: Program) -> frozenset[int]:
        """Port numbers of the destination at which it is enforced."""
        called = {program.calls[index].port.number for index in self.decision.calls}
        return frozenset(called if self.side is Side.EGRESS else called | set(self.decision.ports))

    def hosts(self, program: Program) -> frozenset[str]:
        """The services whose ADMs enforce it."""
        if self.side is Side.INGRESS:
            return frozenset((self.decision.destination,))
        return frozenset(program.calls[index].source for index in self.decision.calls)

    def same(self, other: Entry) -> bool:
        """The same policy on the same connections: an ADM that has the one need not change for the other."""
        return alike(self.policy, other.policy) and (
            self.decision.calls == other.decision.calls and self.decision.ports == other.decision.ports
        )


def alike(one: Policy, other: Policy) -> bool:
    """Whether two policies, of one name or not, do the same to the same requests."""
    return (
        akin(one, other)
        and one.match == other.match
        and (one.sources, one.open_sources, one.ports) == (other.sources, other.open_sources, other.ports)
    )


def akin(one: Policy, other: Policy) -> bool:
    """Whether two policies do the same, be it to other requests."""
    return (
        one.kind.name == other.kind.name
        and one.kind.sides == other.kind.sides
        and one.kind.effects == other.kind.effects
        and (one.kind.template and one.kind.template.text) == (other.kind.template and other.kind.template.text)
        and dict(one.arguments) == dict(other.arguments)
    )


def acts_once(policy: Policy) -> bool:
    """Whether a request that meets the policy twice fares otherwise than one that meets it once.

    Who says nothing of effects may do anything. A decision by chance (`fault_abort` for some of the requests) is made
    twice, so that a kind which rejects is only taken for harmless if it decides who may call.
    """
    if policy.effects is None:
        return True
    verbs = {effect.verb for effect in policy.effects}
    if Verb.WRITES in verbs and not policy.kind.traits.idempotent:
        return True
    if Verb.REJECTS in verbs and not policy.kind.guard:
        return True
    return not verbs <= {Verb.READS, Verb.WRITES, Verb.REJECTS}


def may_replace(one: Policy, other: Policy) -> bool:
    """Whether some request may be meant by either policy, and either may do what the other did to it.

    Whoever writes `*` means callers of whom nothing is known, too, so these may be anybody. A policy does nothing but
    its effects, of which reading is none; who says nothing of them may do anything.
    """
    verbs = [{effect.verb for effect in policy.effects or ()} - {Verb.READS} for policy in (one, other)]
    does = not all(verbs) or not verbs[0].isdisjoint(verbs[1]) or not any(_DECIDES.isdisjoint(each) for each in verbs)
    anybody = one.open_sources or other.open_sources or _may_be_outside(one, other) or _may_be_outside(other, one)
    return does and (anybody or not one.sources.isdisjoint(other.sources))


def _may_be_outside(one: Policy, other: Policy) -> bool:
    """Whether the first means an outside party, and the second somebody whom the program of the first does not know:
    by address the one may be the other."""
    home = one.home
    if home is None or home.externals.keys().isdisjoint(one.sources):
        return False
    return any(name not in home.services and name not in home.externals for name in other.sources)


def _act_once(policies: Sequence[Policy]) -> bool:
    """Whether a request that meets all of them twice may fare otherwise.

    One that writes may be harmless, and one that refuses, too; but the second time the one looks at what the other has
    written.
    """
    if any(acts_once(policy) for policy in policies):
        return True
    several = len({policy.name for policy in policies}) > 1
    return several and any(effect.verb is Verb.WRITES for policy in policies for effect in policy.effects or ())


class Change:
    """Two states in one frame. `program` has the services and calls of both, and the policies of neither."""

    def __init__(self, old: Placed, new: Placed) -> None:
        self.program = _frame(old.program, new.program)
        index = {_key(call): position for position, call in enumerate(self.program.calls)}
        # One set for all who mean everybody: to compare two of thousands of names each takes its time.
        everyone = frozenset((*self.program.services, *self.program.externals))
        self.outside = frozenset(old.program.externals.keys() ^ new.program.externals.keys())
        """Outside parties that only one of the two programs knows."""
        homes = _parties(old.program) != _parties(new.program)
        self.old = {
            key: renumbered(entry, entry.ports(self.program), old.program, new.program)
            for key, entry in _entries(old, index, everyone, homes=homes).items()
        }
        self.new = _entries(new, index, everyone, homes=homes)
        self._ports = _ports(old.program, new.program)
        self.order = _order(
            [policy.name for policy in old.program.policies], [policy.name for policy in new.program.policies]
        )

    @cached_property
    def coming(self) -> tuple[Entry, ...]:
        """New entries that have no old one at their side."""
        return tuple(self.new[key] for key in self.new if key not in self.old)

    @cached_property
    def leaving(self) -> tuple[Entry, ...]:
        return tuple(self.old[key] for key in self.old if key not in self.new)

    @cached_property
    def changed(self) -> tuple[Entry, ...]:
        """New entries that take the place of another at their side."""
        return tuple(entry for key, entry in self.new.items() if key in self.old and not entry.same(self.old[key]))

    @cached_property
    def crossing(self) -> frozenset[str]:
        """Destinations at which something leaves one side, and something comes to the other that may take its place."""
        came: dict[tuple[str, Side], list[Entry]] = {}
        for entry in self.coming:
            came.setdefault((entry.decision.destination, entry.side), []).append(entry)
        pairs = (
            (entry, other)
            for entry in self.leaving
            for other in came.get((entry.decision.destination, entry.side.other), ())
        )
        return frozenset(one.decision.destination for one, other in pairs if self._may_replace(one, other))

    def _may_replace(self, one: Entry, other: Entry) -> bool:
        """Whether some request may meet either policy, and both may do the same to it; or they have one name."""
        if one.policy.name == other.policy.name:
            return True
        return may_replace(one.policy, other.policy) and not self._targets(one).isdisjoint(self._targets(other))

    def _targets(self, entry: Entry) -> frozenset[int]:
        """Where requests that it is about arrive, or have arrived before: nobody sees by what port they were sent."""
        numbers = entry.ports(self.program)
        return frozenset(
            target for number, target in self._ports.get(entry.decision.destination, ()) if number in numbers
        )

    @cached_property
    def marked(self) -> frozenset[str]:
        """Crossing destinations at which requests must not meet what moves twice, and a marker can say so."""
        moving: dict[str, list[Policy]] = {}
        for entry in (*self.coming, *self.leaving):
            if entry.decision.destination in self.crossing and self.skippable(entry):
                moving.setdefault(entry.decision.destination, []).append(entry.policy)
        return frozenset(name for name, policies in moving.items() if _act_once(policies))

    @cached_property
    def partners(self) -> Mapping[tuple[bool, EntryKey], Side]:
        """(comes, key) -> the side of what it takes the place of, or gives its place to.

        That is the policy of this name at the other side; or else one that does the same to the same requests under
        another name, at this side or at the other. What has none is no substitute for anything.
        """
        found: dict[tuple[bool, EntryKey], Side] = {}

        arrivals: dict[str, list[Entry]] = {}
        for entry in self.coming:
            arrivals.setdefault(entry.decision.destination, []).append(entry)
        for across, named in ((True, True), (False, False), (True, False)):
            for old in self.leaving:
                for new in arrivals.get(old.decision.destination, ()):
                    fits = old.policy.name == new.policy.name if named else alike(old.policy, new.policy)
                    taken = (False, old.key) in found or (True, new.key) in found
                    if fits and not taken and (old.side is not new.side) is across:
                        found[False, old.key], found[True, new.key] = new.side, old.side
        return found

    @cached_property
    def firsts(self) -> tuple[First, ...]:
        """Destinations of which one has to be done with before the other."""
        return firsts(self)

    @cached_property
    def rounds(self) -> Mapping[str, int]:
        """In which round something changes at a destination, if not in the first. Raises `EmitError`."""
        return rounds(self)

    def moves(self, entry: Entry) -> bool:
        """Whether it comes or leaves."""
        return (entry.key in self.old) != (entry.key in self.new)

    def stays(self, entry: Entry) -> bool:
        """Whether it can be at this side only, in routes or in a cluster, and takes the place of its like there, or
        gives its place to it: the two must not be there together."""
        if tuple(entry.policy.kind.sides.values()) not in ((Stage.ROUTING,), (Stage.CLUSTER,)):
            return False
        return any(
            other.key[1:] == entry.key[1:]
            and other.key != entry.key
            and other.policy.kind.name == entry.policy.kind.name
            and not other.hosts(self.program).isdisjoint(entry.hosts(self.program))
            for other in (*(self.coming if entry.key in self.old else self.leaving), *self.changed)
        )

    def forwards(self, entry: Entry) -> bool:
        """Whether it copies requests, or sends them on, to a destination at which something changes sides."""
        in_routes = entry.side is Side.EGRESS and entry.policy.kind.sides[entry.side] is Stage.ROUTING
        return in_routes and not self.crossing.isdisjoint(targets(entry.policy))

    def skippable(self, entry: Entry) -> bool:
        """Whether ADMs can leave the policy out of some requests and not of others: it is a filter of requests, at some
        port at least, wherever it may be. With one end in a cluster no marker could say which end has enforced it."""
        if any(stage is not Stage.FILTER for stage in entry.policy.kind.sides.values()):
            return False
        return any(self.carries_requests(entry.decision.destination, number) for number in entry.ports(self.program))

    def carries_requests(self, destination: str, number: int) -> bool:
        """Whether requests, and not just connections, are seen at a port of a service. Unknown of outside parties."""
        service = self.program.services.get(destination)
        ports = service.ports if service is not None else ()
        return all(port.protocol is not Protocol.TCP for port in ports if port.number == number)


def _key(call: Call) -> CallKey:
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


def _ports(old: Program, new: Program) -> Mapping[str, frozenset[tuple[int, int]]]:
    """Numbers and targets of every service's ports, in either program."""
    found: dict[str, set[tuple[int, int]]] = {}
    for program in (old, new):
        for name, service in program.services.items():
            found.setdefault(name, set()).update((port.number, port.target) for port in service.ports)
    return {name: frozenset(ports) for name, ports in found.items()}


def _parties(program: Program) -> tuple[Mapping[str, object], ...]:
    """What tells whose an address is."""
    return dict.fromkeys(program.services), {name: party.cidrs for name, party in program.externals.items()}


def _entries(
    placed: Placed, index: Mapping[CallKey, int], everyone: frozenset[str], *, homes: bool
) -> dict[EntryKey, Entry]:
    """Entries in canonical order: that of the placement's decisions. `homes`: the two programs know other parties."""
    program = placed.program
    others = everyone - program.services.keys() - program.externals.keys()
    home = replace(program, policies=(), pins=()) if homes else None
    policies = {policy.name: _reframed(policy, program, index, everyone, others, home) for policy in program.policies}
    found = {}
    for decision in placed.placement.decisions:
        calls = _moved(decision.calls, program, index)
        for side in decision.sides:
            entry = Entry(policies[decision.policy], side, replace(decision, sides=(side,), calls=calls))
            found[entry.key] = entry
    return found


def _moved(calls: Iterable[int], program: Program, index: Mapping[CallKey, int]) -> tuple[int, ...]:
    return tuple(sorted(index[_key(program.calls[call])] for call in calls))


def _reframed(
    policy: Policy,
    program: Program,
    index: Mapping[CallKey, int],
    everyone: frozenset[str],
    others: frozenset[str],
    home: Program | None,
) -> Policy:
    """The policy in the common frame. One for callers whom nobody has declared is for those, too, whom only the other
    program knows: no step may take them for known, and so for not meant. Who an address is, its own program says."""
    if covers_all_callers(program, policy):
        return replace(policy, sources=everyone, calls=_moved(policy.calls, program, index))
    sources = policy.sources | others if policy.open_sources and others else policy.sources
    return replace(policy, sources=sources, calls=_moved(policy.calls, program, index), home=home)


def _order(old: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Names in new order, and each old one before what followed it."""
    known = set(new)
    found = list(new)
    following: str | None = None
    for name in reversed(old):
        if name not in known:
            found.insert(len(found) if following is None else found.index(following), name)
        following = name
    return tuple(found)
