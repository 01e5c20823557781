"""Subprograms with some constraints relaxed, to find which constraints a conflict needs.

A subprogram keeps the policies and calls of a few destinations, and the policies whose ADMs call these destinations.
It is small, so it can be solved many times, each time with other constraints relaxed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dsl.program import External, Mark, Pin, Policy, Program, Service
from dsl.text import Span
from solver.cpsat.model import Model, OverloadError
from solver.objective import Levels
from solver.placement import ConflictPart, Costs, Reason, Rule
from solver.rules.facts import has_addresses, marked, targets
from solver.rules.options import DecisionPoint, decision_points
from solver.rules.order import Clash, clashes, propagate


@dataclass
class Draft:
    """A copy of the parts of a subprogram. Relaxed constraints edit the copy."""

    policies: dict[str, Policy]
    services: dict[str, Service]
    sources: Sequence[str]
    """The source of each call."""
    cidrs: set[str] = field(default_factory=set)
    """Externals whose addresses are assumed to be known."""
    calls: set[int] = field(default_factory=set)
    pins: set[int] = field(default_factory=set)
    """Calls and pins that are removed."""
    network_policies: Span | None = None
    accepts_host_network: Span | None = None
    """Statements about the network that are added, by the place of a line that needs them."""


Item = TypeVar("Item")
Edit = Callable[[Draft], None]
Pair = frozenset[str]
"""The names of two policies."""


@dataclass(frozen=True, eq=False)
class Constraint:
    """A line of the program that can be relaxed."""

    part: ConflictPart
    relax: Edit
    policy: str | None = None
    """The policy that the line declares, if it declares one."""
    sort: str = ""
    """Constraints of one sort differ only in `subject`: the callers of a quota, or the untrusted senders."""
    subject: str = ""
    """The service or external that the line concerns; for a call, its source. Empty for policies and pins."""
    call: int | None = None
    """Index of the call that the line declares, in the program of a `Subprogram`."""
    pin: Pin | None = None


class Subprogram:
    """The part of a program that decides about some destinations, or about overloaded hosts."""

    def __init__(
        self,
        program: Program,
        costs: Costs,
        destinations: Sequence[str],
        overloaded: Sequence[str],
        free_pairs: Collection[Pair] = (),
    ) -> None:
        """`free_pairs` are pairs of policies whose order is ignored."""
        self.costs = costs
        self.free_pairs = frozenset(free_pairs)
        self.destinations = set(destinations).union(overloaded)
        if overloaded:
            hosts = set(overloaded)
            self.destinations.update(call.destination for call in program.calls if call.source in hosts)
        self.overload = _overload(program, overloaded)
        self.program = self._restrict(program)
        self.sources = [call.source for call in self.program.calls]

    def _restrict(self, program: Program) -> Program:
        policies = []
        wanted = {index for index, call in enumerate(program.calls) if call.destination in self.destinations}
        for policy in program.policies:
            if self.destinations.intersection(targets(policy)):
                policies.append(policy)
                wanted.update(policy.calls)
            elif not self.destinations.isdisjoint(policy.destinations):
                policies.append(
                    replace(policy, destinations=tuple(sorted(self.destinations.intersection(policy.destinations))))
                )
        return _rebuilt(
            program,
            policies,
            program.services,
            program.externals,
            sorted(wanted),
            [pin for pin in program.pins if pin.destination in self.destinations],
        )

    def impossible_without(
        self, relaxed: Sequence[Constraint], edits: Sequence[Edit] = (), first: str | None = None
    ) -> bool:
        """Whether these destinations have no correct placement with `relaxed` relaxed, `edits` made, and `first`
        declared first. Capacities count only if the subprogram is about overloaded hosts.
        """
        program = self.without(relaxed, edits, first)
        points = decision_points(program)
        clashing = ordered_pairs(program, points, self.free_pairs)
        domains, dead = propagate(program, points, clashing)
        if not self.destinations.isdisjoint(dead):
            return True
        # A conflict of other rules does not include the capacities of its hosts, even if these are exceeded, too.
        if dead or self.overload is None:
            return False
        try:
            model = Model(program, points, domains, clashing, Levels(program, self.costs, None))
            for group in model.groups():
                model.check(group)
        except OverloadError:
            return True
        return False

    def without(self, relaxed: Sequence[Constraint], edits: Sequence[Edit] = (), first: str | None = None) -> Program:
        """The program with these constraints relaxed, `edits` made, and `first` declared first."""
        draft = Draft(
            {policy.name: policy for policy in self.program.policies}, dict(self.program.services), self.sources
        )
        for constraint in relaxed:
            constraint.relax(draft)
        for edit in edits:
            edit(draft)
        externals = {
            name: replace(external, cidrs=("192.0.2.0/24",)) if name in draft.cidrs else external
            for name, external in self.program.externals.items()
        }
        policies = sorted(draft.policies.values(), key=lambda policy: policy.name != first)
        calls = [index for index in range(len(self.program.calls)) if index not in draft.calls]
        pins = [
            pin for at, pin in enumerate(self.program.pins) if at not in draft.pins and pin.policy in draft.policies
        ]
        program = replace(
            self.program,
            network_policies=self.program.network_policies or draft.network_policies,
            accepts_host_network=self.program.accepts_host_network or draft.accepts_host_network,
        )
        return _rebuilt(program, policies, draft.services, externals, calls, pins)

    def constraints(self) -> list[Constraint]:
        """All constraints except calls. If either of two constraints suffices, a conflict keeps the later one."""
        return [
            *self._externals(),
            *(constraint for policy in self.program.policies for constraint in self._policy(policy)),
            *self._pins(),
            *(constraint for name in self._services() for constraint in self._service(name)),
        ]

    def calls(self, policies: Sequence[str], *, guarded: bool) -> list[Constraint]:
        """Calls to the destinations as constraints: those of guards among `policies` (`guarded`), or all others.

        Calls of guards are separate because their removal can both relax and tighten a program: a guard without calls
        must stay at ingress.
        """
        guards = {
            index
            for policy in self.program.policies
            if policy.name in policies and policy.kind.guard
            for index in policy.calls
        }
        constraints = []
        for index, call in enumerate(self.program.calls):
            if call.destination in self.destinations and (index in guards) is guarded:
                part = ConflictPart(call.span, f"`{call.source}` calls `{call.destination}`", "remove the call")
                constraints.append(Constraint(part, partial(_drop_call, index), None, "call", call.source, index))
        return constraints

    def _externals(self) -> Iterator[Constraint]:
        callers = {call.source for call in self.program.calls}
        for name in sorted(callers.intersection(self.program.externals)):
            external = self.program.externals[name]
            if not has_addresses(external):
                part = ConflictPart(
                    external.span, f"the addresses of `{name}` are not known", f"give `{name}` a `cidr`"
                )
                yield Constraint(part, partial(_assume_addresses, name), None, "cidr", name)

    def _policy(self, policy: Policy) -> Iterator[Constraint]:
        name = policy.name
        where = ", ".join(f"`{there}`" for there in policy.destinations[:3])
        more = f" and {len(policy.destinations) - 3} more" if len(policy.destinations) > 3 else ""
        part = ConflictPart(
            policy.span, f"`{name}` has to be enforced for {where}{more}", f"remove `{name}`, or narrow its scope"
        )
        yield Constraint(part, partial(_drop_policy, name), name)
        if policy.narrowing is not None:
            place = min(policy.places)
            part = ConflictPart(
                policy.narrowing, f"`{name}` is narrowed to {place}", f"remove `@{place}` from `{name}`"
            )
            yield Constraint(part, partial(_widen, name))

    def _pins(self) -> Iterator[Constraint]:
        for at, pin in enumerate(self.program.pins):
            part = ConflictPart(
                pin.span, f"`{pin.policy}` is pinned at {pin.place} of `{pin.destination}`", "remove the pin"
            )
            yield Constraint(part, partial(_drop_pin, at), pin=pin)

    def _services(self) -> list[str]:
        wanted = {call.source for call in self.program.calls} | self.destinations
        # A guard may name services that never call its destination, and whose addresses the guard cannot distinguish.
        wanted.update(name for name, service in self.program.services.items() if service.host_network)
        return sorted(wanted.intersection(self.program.services))

    def _service(self, name: str) -> Iterator[Constraint]:
        service = self.program.services[name]
        marks = (
            (not service.hosts_adm, Mark.NO_ADM, _make_host),
            (not service.trusted, Mark.UNTRUSTED, _make_trusted),
            (service.host_network, Mark.HOST_NETWORK, _leave_host_network),
        )
        for has, mark, change in marks:
            if has:
                message, remedy = f"`{name}` is marked `{mark}`", f"remove `{mark}` from `{name}`"
                if service.shown(mark) is not None:
                    message, remedy = marked(service, mark), f"change the pods of `{name}`"
                part = ConflictPart(service.place(mark), message, remedy)
                yield Constraint(part, partial(_edit_service, name, change), None, mark, name)
        if service.capacity is not None and self.costs.known:
            part = ConflictPart(
                service.span,
                f"the ADM of `{name}` may take {service.capacity:g} cores",
                f"raise the `capacity` of `{name}`, or remove it",
            )
            yield Constraint(part, partial(_edit_service, name, _remove_capacity), None, "capacity", name)


def ordered_pairs(program: Program, points: Sequence[DecisionPoint], free: Collection[Pair]) -> dict[str, list[Clash]]:
    """Return the pairs that must keep their declared order, by destination, without the pairs in `free`."""

    def counts(clash: Clash) -> bool:
        return frozenset(program.policies[points[index].policy].name for index in clash) not in free

    by_destination = clashes(program, points)
    return {name: list(filter(counts, pairs)) for name, pairs in by_destination.items()} if free else by_destination


def leave_out(policy: str, sources: Iterable[str]) -> Edit:
    """An edit that removes these sources from a policy's scope."""
    return partial(_leave_out, policy, frozenset(sources))


def _leave_out(name: str, sources: frozenset[str], draft: Draft) -> None:
    policy = draft.policies.get(name)
    if policy is not None:
        calls = tuple(index for index in policy.calls if draft.sources[index] not in sources)
        draft.policies[name] = replace(policy, sources=policy.sources - sources, calls=calls)


def irreducible_subset(items: Sequence[Item], spared: Callable[[Sequence[Item]], bool]) -> list[Item]:
    """A subset from which no item can be left out, such as the constraints of a conflict.

    `spared` returns whether the given items can be left out. The search tries ever smaller groups.
    """
    kept = list(items)
    dropped: list[Item] = []
    size = max(1, len(kept) // 2)
    while True:
        at = 0
        progress = False
        while at < len(kept):
            chunk = kept[at : at + size]
            if spared([*dropped, *chunk]):
                dropped.extend(chunk)
                del kept[at : at + size]
                progress = True
            else:
                at += size
        if size == 1 and not progress:
            return kept
        size = max(1, size // 2)


def _drop_policy(name: str, draft: Draft) -> None:
    del draft.policies[name]


def _drop_call(index: int, draft: Draft) -> None:
    draft.calls.add(index)


def _drop_pin(at: int, draft: Draft) -> None:
    draft.pins.add(at)


def _assume_addresses(name: str, draft: Draft) -> None:
    draft.cidrs.add(name)


def _widen(name: str, draft: Draft) -> None:
    if name in draft.policies:
        policy = draft.policies[name]
        draft.policies[name] = replace(policy, places=policy.kind.places, narrowing=None)


def _edit_service(name: str, change: Callable[[Service], Service], draft: Draft) -> None:
    draft.services[name] = change(draft.services[name])


def _make_host(service: Service) -> Service:
    return replace(service, hosts_adm=True)


def _make_trusted(service: Service) -> Service:
    return replace(service, trusted=True)


def _leave_host_network(service: Service) -> Service:
    return replace(service, host_network=False)


def _remove_capacity(service: Service) -> Service:
    return replace(service, capacity=None)


def _overload(program: Program, overloaded: Sequence[str]) -> Reason | None:
    if not overloaded:
        return None
    names = ", ".join(f"`{name}`" for name in overloaded[:3])
    spans = tuple(program.services[name].span for name in overloaded)
    return Reason(Rule.CAPACITY, f"the load of {names} cannot be kept under its capacity", spans)


def _rebuilt(
    program: Program,
    policies: Sequence[Policy],
    services: Mapping[str, Service],
    externals: Mapping[str, External],
    calls: Sequence[int],
    pins: Sequence[Pin],
) -> Program:
    """The program with these parts only. `calls` are the indices of the calls to keep."""
    place = {index: at for at, index in enumerate(calls)}
    return replace(
        program,
        policies=tuple(
            replace(policy, calls=tuple(place[index] for index in policy.calls if index in place))
            for policy in policies
        ),
        services=services,
        externals=externals,
        calls=tuple(program.calls[index] for index in calls),
        pins=tuple(pins),
    )
