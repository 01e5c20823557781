"""Which sides each decision has, and for every other side the rule that closes it.

These are the rules that look at one decision alone: R3, R4, R5, R7, R8 and R10. They are tried in a fixed order, from
what no line of the application can change (what the kind can do) to what the user just asked for (a pin), so that the
reason in the plan is the one that has to go first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dsl.program import Pin, Policy, Program, Side, Verb
from solver.placement import Reason, Rule
from solver.rules.facts import EXTERNAL, INSIDE, NO_HOST, UNRELIABLE, Surroundings

SIDES = (Side.INGRESS, Side.EGRESS)


@dataclass(frozen=True, slots=True)
class Case:
    """One decision to take. `ingress` and `egress` say why that side is closed, or None where it is open."""

    policy: int
    destination: str
    calls: tuple[int, ...]
    ingress: Reason | None
    egress: Reason | None
    both: bool
    open: bool
    """Callers without a declared call are meant too (R7)."""
    ports: tuple[int, ...]
    closes: bool
    """At egress it holds only if the destination is closed (R7)."""

    def blocked(self, side: Side) -> Reason | None:
        return self.ingress if side is Side.INGRESS else self.egress


def senders(case: Case, program: Program) -> list[str]:
    """Distinct sources of a case's calls, in canonical order."""
    return list(dict.fromkeys(program.calls[index].source for index in case.calls))


def cases(program: Program, surroundings: Surroundings | None = None) -> list[Case]:
    """Every decision of a program, by (policy position, destination)."""
    around = surroundings or Surroundings(program)
    pins: dict[str, dict[str, list[Pin]]] = {}
    for pin in program.pins:
        pins.setdefault(pin.policy, {}).setdefault(pin.destination, []).append(pin)
    found: list[Case] = []
    for position, policy in enumerate(program.policies):
        found.extend(_Options(position, policy, around, pins.get(policy.name, {})).cases())
    return found


class _Options:
    """The options of one policy; what holds for all its destinations is computed once."""

    def __init__(self, position: int, policy: Policy, around: Surroundings, pins: Mapping[str, list[Pin]]) -> None:
        self.position = position
        self.policy = policy
        self.around = around
        self.pins = pins
        kind = policy.kind
        self.capability = {side: _capability(policy, side) for side in SIDES}
        # Nothing is known of a kind that declares no effects: it may reject.
        rejects = policy.effects is None or any(effect.verb is Verb.REJECTS for effect in policy.effects)
        self.must_rely = kind.guard or rejects
        names_callers = any(
            parameter.type.name == "caller"
            or (parameter.type.element is not None and parameter.type.element.name == "caller")
            for parameter in kind.parameters
        )
        self.tells_apart = names_callers or not policy.open_sources or len(policy.sources) < around.everyone
        self.unknown_name = around.unknown_name(policy)

    def cases(self) -> Iterator[Case]:
        policy = self.policy
        runs = self._runs()
        if not policy.open_sources and not policy.kind.guard:
            for destination, calls in runs.items():
                yield self._case(destination, calls, False, self._called(calls))
            return
        for destination in policy.destinations:
            calls = runs.get(destination, ())
            ports = self.around.ports(policy, destination)
            if ports and (policy.open_sources or self._missing(calls, ports)):
                yield self._case(destination, calls, True, ports)
            elif calls:
                yield self._case(destination, calls, False, self._called(calls))

    def _called(self, calls: tuple[int, ...]) -> tuple[int, ...]:
        """Ports of some calls, ascending."""
        declared = self.around.program.calls
        if len(calls) == 1:
            return (declared[calls[0]].port.number,)
        return tuple(sorted({declared[index].port.number for index in calls}))

    def _missing(self, calls: tuple[int, ...], ports: tuple[int, ...]) -> bool:
        """Whether some selected source has no declared call to some port in scope."""
        return len(calls) < len(self.policy.sources) * len(ports)

    def _runs(self) -> dict[str, tuple[int, ...]]:
        """The policy's calls by destination."""
        calls = self.policy.calls
        runs: dict[str, tuple[int, ...]] = {}
        at = 0
        while at < len(calls):
            destination = self.around.program.calls[calls[at]].destination
            end = bisect_left(calls, self.around.runs[destination][1], at)
            runs[destination] = calls[at:end]
            at = end
        return runs

    def _case(self, destination: str, calls: tuple[int, ...], opened: bool, ports: tuple[int, ...]) -> Case:
        external = destination in self.around.program.externals
        closes = opened and not external
        traits = 0
        known = self.around.traits
        for call in calls:
            traits |= known[call]
        ingress = self.capability[Side.INGRESS] or self._ingress(destination, external)
        egress = (
            self.capability[Side.EGRESS]
            or (self._egress(calls, traits) if traits else None)
            or self._state(destination, calls)
            or (self._closed(destination, calls) if closes else None)
        )
        if self.pins:
            ingress = ingress or self._pin(destination, Side.INGRESS)
            egress = egress or self._pin(destination, Side.EGRESS)
        return Case(self.position, destination, calls, ingress, egress, self.policy.kind.both, opened, ports, closes)

    def _ingress(self, destination: str, external: bool) -> Reason | None:
        around = self.around
        if external:
            message = f"`{destination}` is outside the mesh, so calls to it are enforced at their senders"
            return Reason(Rule.OUTSIDE, message, (around.program.externals[destination].span, self.policy.span))
        if around.host(destination) is not None or not self.tells_apart:
            return around.host(destination)
        if self.policy.kind.guard and not self.policy.open_sources and destination in self.policy.sources:
            message = (
                f"`{self.policy.name}` judges calls of `{destination}` to itself, and those may come from its node"
            )
            return Reason(Rule.CLOSED, message, (self.policy.span,))
        return self.unknown_name or around.unknown_caller(destination)

    def _egress(self, calls: tuple[int, ...], traits: int) -> Reason | None:
        around = self.around
        program = around.program
        policy = self.policy
        if traits & EXTERNAL:
            call = program.calls[around.first(calls, EXTERNAL)]
            message = f"`{call.source}` is outside the mesh, so its calls are enforced at ingress"
            return Reason(Rule.OUTSIDE, message, (call.span, program.externals[call.source].span, policy.span))
        if traits & INSIDE:
            return around.inside(around.first(calls, INSIDE))
        if traits & NO_HOST:
            return around.host(program.calls[around.first(calls, NO_HOST)].source)
        if traits & UNRELIABLE and self.must_rely:
            sender = program.services[program.calls[around.first(calls, UNRELIABLE)].source]
            message = f"`{sender.name}` is `untrusted`, so `{policy.name}` cannot be left to its egress"
            return Reason(Rule.CLOSED, message, (sender.note or sender.span, policy.span))
        return None

    def _state(self, destination: str, calls: tuple[int, ...]) -> Reason | None:
        policy = self.policy
        kind = policy.kind
        if kind.per_replica:
            message = f"`{kind.name}` is stated for each replica of `{destination}`, so it stays there"
            return Reason(Rule.STATE, message, (policy.span, kind.span))
        if not kind.state or not calls:
            return None
        declared = self.around.program.calls
        first, last = declared[calls[0]], declared[calls[-1]]  # calls are sorted by source
        if first.source == last.source:
            return None
        message = (
            f"`{policy.name}` counts all callers of `{destination}` together, "
            f"and both `{first.source}` and `{last.source}` call it"
        )
        return Reason(Rule.STATE, message, (policy.span, first.span, last.span))

    def _closed(self, destination: str, calls: tuple[int, ...]) -> Reason | None:
        if self.policy.kind.guard and not calls:
            message = f"`{self.policy.name}` matches no declared call to `{destination}`, so it stands guard there"
            return Reason(Rule.CLOSED, message, (self.policy.span,))
        return self.around.closable(destination)

    def _pin(self, destination: str, side: Side) -> Reason | None:
        if self.policy.kind.both:
            return None
        for pin in self.pins.get(destination, ()):
            if pin.side is not side:
                message = f"`{self.policy.name}` is pinned at {pin.side.value} of `{destination}`"
                return Reason(Rule.PIN, message, (pin.span, self.policy.span))
        return None


def _capability(policy: Policy, side: Side) -> Reason | None:
    if side in policy.sides:
        return None
    kind = policy.kind
    if side not in kind.sides:
        message = f"`{kind.name}` works at {side.other.value} only"
        return Reason(Rule.CAPABILITY, message, (policy.span, kind.span))
    message = f"`{policy.name}` is narrowed to {side.other.value}"
    return Reason(Rule.CAPABILITY, message, (policy.narrowing or policy.span, policy.span))
